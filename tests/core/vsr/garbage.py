"""Messages that nobody of ours would send, for tests: any command, with anything in its fields."""

from __future__ import annotations

import typing
from collections.abc import Sequence

import msgspec
from hypothesis import strategies as st
from tests.core.vsr.replicas import CONFIG, replica

from motet.core.machine import (
    Message,
)
from motet.core.vsr.block_ref import BlockRef
from motet.core.vsr.header import NO_CHECKSUM, Header, sealed
from motet.core.vsr.messages import (
    DoViewChange,
    Headers,
    ReplicaMessage,
    Request,
    StartView,
    VsrCall,
    sealed_request,
)
from motet.core.vsr.superblock import Checkpoint
from motet.ids import Address, ClusterId, View

COMMANDS = typing.get_args(VsrCall)
CLUSTER = CONFIG.cluster

small = st.integers(-3, 60)
numbers = small | st.sampled_from([2**31, 2**62])
huge = numbers | st.sampled_from([2**63 - 1, -(2**63), 2**64 - 1])


def real_headers() -> list[Header]:
    journal = replica("primary")[0].core.state.journal
    return [header for header in journal.headers if header is not None]


@st.composite
def headers(draw: st.DrawFn) -> Header:
    """One of the log, or like one, with its seal or without."""
    header = draw(st.sampled_from(real_headers()))
    if draw(st.booleans()):
        return header
    fields = ["view", "op", "commit", "timestamp", "request", "operation", "body_bytes"]
    changed = {field: draw(numbers) for field in draw(st.lists(st.sampled_from(fields)))}
    changed_header = msgspec.structs.replace(header, **changed)
    return sealed(changed_header) if draw(st.booleans()) else changed_header


def runs_of_headers() -> st.SearchStrategy[tuple[Header, ...]]:
    """From a head down, as in an honest message."""
    log = sorted(real_headers(), key=lambda header: -header.op)
    return st.integers(0, len(log) - 1).map(lambda first: tuple(log[first : first + 5]))


checksums = st.one_of(
    st.sampled_from([NO_CHECKSUM, b""]),
    st.sampled_from([header.checksum for header in real_headers()]),
    st.binary(max_size=20),
)
refs = st.builds(BlockRef, small | st.just(2**40), checksums)
checkpoints = st.builds(Checkpoint, numbers, headers(), refs, checksums, checksums)
header_lists = runs_of_headers() | st.lists(headers(), max_size=6).map(tuple)

FIELDS: dict[str, st.SearchStrategy[object]] = {
    "cluster": st.sampled_from([CLUSTER] * 9 + [ClusterId(8)]),
    "view": st.sampled_from([View(0), View(1), View(2), View(3)]) | numbers,
    "op": st.integers(11, 20) | numbers,
    "header": headers(),
    "headers": header_lists | st.lists(st.none() | headers(), max_size=6).map(tuple),
    "checkpoint": checkpoints,
    "refs": st.lists(refs, max_size=3).map(tuple),
    "ref": refs,
    "route": st.lists(small, max_size=4).map(tuple),
    "reason": st.text(max_size=5),
    "body": st.binary(max_size=30),
    "data": st.binary(max_size=600),
}
for name in (
    "checkpoint_id",
    "parent",
    "checksum",
    "prepare",
    "commit_checksum",
    "reply",
):
    FIELDS[name] = checksums


@st.composite
def messages(draw: st.DrawFn, kinds: Sequence[type[msgspec.Struct]] = COMMANDS) -> Message:
    """Any command with anything in its fields."""
    kind = draw(st.sampled_from(kinds))
    fields = {name: draw(FIELDS.get(name, numbers)) for name in kind.__struct_fields__}
    if kind is StartView:
        fields["headers"] = draw(header_lists)
    if kind is Headers:
        fields["headers"] = draw(header_lists)
    if issubclass(kind, ReplicaMessage):
        fields["replica"] = draw(st.integers(0, 2) | st.integers(-1, 4))
    if kind is DoViewChange and draw(st.booleans()):
        run = draw(runs_of_headers())
        fields |= {"headers": run, "op": run[0].op}
    made = kind(**fields)
    if isinstance(made, Request) and draw(st.booleans()):
        return sealed_request(made)
    assert isinstance(made, Message)
    return made


@st.composite
def arrivals(draw: st.DrawFn) -> tuple[Address, Message]:
    """A message, most often from whom it says it is from."""
    message = draw(messages())
    claimed = getattr(message, "replica", 9)
    is_honest = draw(st.integers(0, 9)) > 0
    name = f"r{claimed}" if is_honest else draw(st.sampled_from(["r0", "r1", "r2", "c1", ""]))
    return Address(name), message
