"""The same messages through kazoo's serializers and ours: each side reads what the other wrote."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kazoo.exceptions import (
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.protocol import serialization as kazoo
from kazoo.protocol.states import ZnodeStat
from kazoo.security import ACL, Id
from tests.format.zookeeper.samples import A_STAT, AN_ACL

from motet.format.zookeeper.codec import (
    decode_event,
    decode_request,
    decode_result,
    encode_event,
    encode_reply,
    encode_request,
)
from motet.format.zookeeper.messages import (
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
    ErrorCode,
    EventType,
    Exists,
    Failed,
    GetAcl,
    GetChildren,
    GetChildren2,
    GetData,
    Multi,
    MultiResult,
    Nothing,
    Ping,
    SetAcl,
    SetData,
    StatResult,
    Sync,
    Synced,
    Unknown,
    WatchEvent,
)
from motet.format.zookeeper.records import AnyRequest

THEIR_STAT = ZnodeStat(*range(1, 12))
THEIR_ACL = [ACL(one.permissions, Id(one.scheme, one.id)) for one in AN_ACL]
PATH = "/käse/brot-0000000001"

OPERATIONS: list[tuple[Any, AnyRequest]] = [
    (kazoo.Create(PATH, b"data", THEIR_ACL, 3), Create(PATH, b"data", AN_ACL, 3)),
    (kazoo.Delete(PATH, -1), Delete(PATH, -1)),
    (kazoo.SetData(PATH, b"\0\xff", 7), SetData(PATH, b"\0\xff", 7)),
    (kazoo.CheckVersion(PATH, 7), Check(PATH, 7)),
]
REQUESTS: list[tuple[Any, AnyRequest]] = [
    *OPERATIONS,
    (kazoo.Create2(PATH, b"", THEIR_ACL, 0), Create2(PATH, b"", AN_ACL, 0)),
    (kazoo.SetACL(PATH, THEIR_ACL, 2), SetAcl(PATH, AN_ACL, 2)),
    (kazoo.Exists(PATH, True), Exists(PATH, True)),
    (kazoo.GetData(PATH, False), GetData(PATH, False)),
    (kazoo.GetACL(PATH), GetAcl(PATH)),
    (kazoo.GetChildren(PATH, True), GetChildren(PATH, True)),
    (kazoo.GetChildren2(PATH, False), GetChildren2(PATH, False)),
    (kazoo.Sync(PATH), Sync(PATH)),
    (kazoo.Ping(), Ping()),
    (kazoo.Close(), CloseSession()),
    (kazoo.Auth(0, "digest", "me:secret"), Auth("digest", b"me:secret")),
    (
        kazoo.Transaction([theirs for theirs, _ in OPERATIONS]),
        Multi(tuple(ours for _, ours in OPERATIONS)),  # type: ignore[misc]
    ),
    (kazoo.Transaction([]), Multi(())),
]


def written_by_kazoo(xid: int, request: Any) -> bytes:
    return struct.pack(">ii", xid, request.type) + bytes(request.serialize())


@pytest.mark.parametrize(("theirs", "ours"), REQUESTS, ids=lambda one: type(one).__name__)
def test_a_request_is_the_same_bytes_from_either_side(theirs: Any, ours: AnyRequest) -> None:
    payload = written_by_kazoo(-4, theirs)
    assert decode_request(payload) == (-4, ours)
    assert encode_request(-4, ours)[4:] == payload


def test_what_kazoo_writes_for_none_is_none_and_for_empty_text_is_empty() -> None:
    payload = written_by_kazoo(1, kazoo.Create("", None, [ACL(31, Id("", ""))], 0))
    (acl,) = AN_ACL[:1]
    assert decode_request(payload) == (1, Create("", None, (type(acl)(31, "", ""),), 0))


@pytest.mark.parametrize(
    "theirs", [kazoo.Reconfig("a", "", "", -1), kazoo.SASL(b"challenge")], ids=["reconfig", "sasl"]
)
def test_what_only_kazoo_has_is_unknown(theirs: Any) -> None:
    assert decode_request(written_by_kazoo(1, theirs)) == (1, Unknown(theirs.type))


RESULTS: list[tuple[Any, AnyRequest, AnyResult, object]] = [
    (kazoo.Create, OPERATIONS[0][1], Created(PATH), PATH),
    (kazoo.Create2, Create2(PATH, b"", (), 0), Created2(PATH, A_STAT), (PATH, THEIR_STAT)),
    (kazoo.Delete, Delete(PATH, -1), Nothing(), True),
    (kazoo.SetData, SetData(PATH, b"", 0), StatResult(A_STAT), THEIR_STAT),
    (kazoo.SetACL, SetAcl(PATH, (), 0), StatResult(A_STAT), THEIR_STAT),
    (kazoo.Exists, Exists(PATH, True), StatResult(A_STAT), THEIR_STAT),
    (kazoo.GetData, GetData(PATH, True), Data(b"\0x", A_STAT), (b"\0x", THEIR_STAT)),
    (kazoo.GetData, GetData(PATH, True), Data(b"", A_STAT), (b"", THEIR_STAT)),
    (kazoo.GetACL, GetAcl(PATH), AclResult(AN_ACL, A_STAT), (THEIR_ACL, THEIR_STAT)),
    (kazoo.GetChildren, GetChildren(PATH, False), Children(("ä", "b")), ["ä", "b"]),
    (
        kazoo.GetChildren2,
        GetChildren2(PATH, False),
        Children2(("ä", "b"), A_STAT),
        (["ä", "b"], THEIR_STAT),
    ),
    (kazoo.Sync, Sync(PATH), Synced(PATH), PATH),
]


@pytest.mark.parametrize(("reader", "asked", "result", "seen"), RESULTS)
def test_kazoo_reads_our_results(
    reader: Any, asked: AnyRequest, result: AnyResult, seen: object
) -> None:
    payload = encode_reply(3, 1 << 33, 0, result)[4:]
    header, at = kazoo.ReplyHeader.deserialize(payload, 0)
    assert header == kazoo.ReplyHeader(3, 1 << 33, 0)
    assert reader.deserialize(payload, at) == seen
    assert decode_result(asked, payload) == result


def kazoo_reads_multi(result: MultiResult, asked: Multi | None) -> Any:
    payload = encode_reply(3, 9, 0, result, asked)[4:]
    header, at = kazoo.ReplyHeader.deserialize(payload, 0)
    assert header.err == 0
    return kazoo.Transaction.deserialize(payload, at)


@pytest.mark.parametrize("is_remembered", [True, False])
def test_kazoo_reads_a_multi_that_went_well(is_remembered: bool) -> None:
    asked = Multi(
        (Create("/a", b"", (), 0), Delete("/b", 1), SetData("/c", b"", 1), Check("/d", 1))
    )
    result = MultiResult((Created("/a"), Nothing(), StatResult(A_STAT), Nothing()))
    seen = kazoo_reads_multi(result, asked if is_remembered else None)
    assert seen == ["/a", True, THEIR_STAT, True]


def test_kazoo_reads_a_multi_that_failed() -> None:
    codes = (0, ErrorCode.NODE_EXISTS, ErrorCode.RUNTIME_INCONSISTENCY)
    seen = kazoo_reads_multi(MultiResult(tuple(map(Failed, codes))), None)
    assert [type(one) for one in seen] == [RolledBackError, NodeExistsError, RuntimeInconsistency]


def test_kazoo_reads_our_errors_as_its_own() -> None:
    payload = encode_reply(3, 9, ErrorCode.NO_NODE, Nothing())[4:]
    header, at = kazoo.ReplyHeader.deserialize(payload, 0)
    assert at == len(payload)
    assert kazoo.EXCEPTIONS[header.err] is NoNodeError


@given(st.sampled_from(EventType), st.text(min_size=1, max_size=20))
def test_kazoo_reads_our_events(type_: EventType, path: str) -> None:
    payload = encode_event(WatchEvent(type_, path))[4:]
    header, at = kazoo.ReplyHeader.deserialize(payload, 0)
    assert header == kazoo.ReplyHeader(-1, -1, 0)
    event, end = kazoo.Watch.deserialize(payload, at)
    assert event == kazoo.Watch(type_, 3, path)
    assert end == len(payload)
    assert decode_event(payload) == WatchEvent(type_, path)


def test_kazoo_knows_every_error_that_we_give() -> None:
    unknown = [code for code in ErrorCode if code not in kazoo.EXCEPTIONS]
    assert unknown == []
