"""Requests and results of every kind, for tests to draw from."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from motet.format.zookeeper.messages import (
    Acl,
    AclResult,
    AnyResult,
    Auth,
    Check,
    Children,
    Children2,
    CloseSession,
    Create,
    Create2,
    Created,
    Created2,
    Data,
    Delete,
    Exists,
    Failed,
    GetAcl,
    GetChildren,
    GetChildren2,
    GetData,
    Multi,
    MultiRead,
    MultiResult,
    Nothing,
    Ping,
    Request,
    SetAcl,
    SetData,
    SetWatches,
    Stat,
    StatResult,
    Sync,
    Synced,
    Unknown,
)
from motet.format.zookeeper.records import AnyRequest

A_STAT = Stat(*range(1, 12))
AN_ACL = (Acl(31, "world", "anyone"), Acl(1, "digest", "käthe:abc="))

ints = st.integers(-(2**31), 2**31 - 1)
longs = st.integers(-(2**63), 2**63 - 1)
errors = ints.filter(bool)
texts = st.text(max_size=12)
many_texts = st.lists(texts, max_size=4).map(tuple)
buffers = st.binary(max_size=40)
datas = st.one_of(st.none(), buffers)
acls = st.lists(st.one_of(st.just(AN_ACL[0]), st.builds(Acl, ints, texts, texts)), max_size=3).map(
    tuple
)
stats = st.builds(Stat, longs, longs, longs, longs, ints, ints, ints, longs, ints, ints, longs)

_creates = st.tuples(texts, datas, acls, ints)
writes = st.one_of(
    _creates.map(lambda fields: Create(*fields)),
    _creates.map(lambda fields: Create2(*fields)),
    st.builds(Delete, texts, ints),
    st.builds(SetData, texts, datas, ints),
    st.builds(Check, texts, ints),
)
reads = st.one_of(
    st.builds(GetData, texts, st.booleans()), st.builds(GetChildren, texts, st.booleans())
)
singles = st.one_of(
    writes,
    reads,
    st.builds(SetAcl, texts, acls, ints),
    st.builds(Exists, texts, st.booleans()),
    st.builds(GetAcl, texts),
    st.builds(GetChildren2, texts, st.booleans()),
    st.builds(Sync, texts),
    st.just(Ping()),
    st.builds(Auth, texts, buffers),
    st.builds(SetWatches, longs, many_texts, many_texts, many_texts),
    st.just(CloseSession()),
)
multis: st.SearchStrategy[Multi | MultiRead] = st.one_of(
    st.lists(writes, max_size=4).map(lambda operations: Multi(tuple(operations))),
    st.lists(reads, max_size=4).map(lambda operations: MultiRead(tuple(operations))),
)
unknowns = st.sampled_from([-12, -1, 0, 10, 16, 21, 102, 2**31 - 1]).map(Unknown)
requests: st.SearchStrategy[AnyRequest] = st.one_of(singles, multis, unknowns)

_results: dict[type[Request], st.SearchStrategy[Any]] = {
    Create: st.builds(Created, texts),
    Create2: st.builds(Created2, texts, stats),
    SetData: st.builds(StatResult, stats),
    SetAcl: st.builds(StatResult, stats),
    Exists: st.builds(StatResult, stats),
    GetData: st.builds(Data, datas, stats),
    GetAcl: st.builds(AclResult, acls, stats),
    GetChildren: st.builds(Children, many_texts),
    GetChildren2: st.builds(Children2, many_texts, stats),
    Sync: st.builds(Synced, texts),
}


def results_of(request: AnyRequest) -> st.SearchStrategy[AnyResult]:
    """What a server may answer to this request."""
    if not isinstance(request, Multi | MultiRead):
        return st.one_of(_good_results_of(request), errors.map(Failed))
    failed = st.tuples(*(ints.map(Failed) for _ in request.operations))
    good = st.tuples(*map(_good_results_of, request.operations))
    mixed = st.tuples(*map(results_of, request.operations))
    whole = st.one_of(failed, good if isinstance(request, Multi) else mixed)
    return st.one_of(errors.map(Failed), whole.map(MultiResult))


def _good_results_of(request: AnyRequest) -> st.SearchStrategy[Any]:
    return _results.get(type(request), st.just(Nothing()))
