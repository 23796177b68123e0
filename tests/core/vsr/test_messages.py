"""The commands on the wire: each comes back as it went, garbage does not, and a request is sealed."""

from __future__ import annotations

import typing

import msgspec
import pytest

from motet.core.vsr.header import NO_CHECKSUM, OPERATION_MIN
from motet.core.vsr.messages import (
    ALIASES,
    Commit,
    DoViewChange,
    PrepareOk,
    Request,
    VsrCall,
    command_name,
    request_checksum,
    sealed_request,
)
from motet.ids import ClientId, ClusterId, Op, ReplicaIndex, View
from motet.testing.scripts.vsr_damage import hand_made_log

COMMANDS = typing.get_args(VsrCall)
decoder = msgspec.msgpack.Decoder(VsrCall)
REQUEST = sealed_request(
    Request(ClusterId(7), ClientId(1), View(0), 1, 1, NO_CHECKSUM, 1, OPERATION_MIN, b"body")
)


def test_commands_have_their_names() -> None:
    assert command_name(PrepareOk) == "prepare_ok"
    assert command_name(DoViewChange) == "do_view_change"
    names = [command_name(kind) for kind in COMMANDS]
    assert len(set(names)) == len(names)
    assert set(ALIASES) <= set(names)


@pytest.mark.parametrize("kind", COMMANDS)
def test_a_command_is_told_from_all_others_by_its_tag(kind: type[msgspec.Struct]) -> None:
    assert kind.__struct_config__.tag == f"vsr.{command_name(kind.__name__)}"


def test_what_is_sent_is_received() -> None:
    log = hand_made_log(
        1, ("5:present", "4:corrupt", "3:blank"), view=3, log_view=2, commit=2, pipeline=4
    )
    assert decoder.decode(msgspec.msgpack.encode(log)) == log
    commit = Commit(ClusterId(7), ReplicaIndex(1), View(3), Op(5), NO_CHECKSUM, Op(0), NO_CHECKSUM)
    assert decoder.decode(msgspec.msgpack.encode(commit)) == commit


@pytest.mark.parametrize("field", ["op", "view", "headers", "nacks"])
def test_a_field_of_another_type_is_refused(field: str) -> None:
    log = hand_made_log(1, ("5:present",), view=3, log_view=2, commit=2, pipeline=4)
    fields = msgspec.msgpack.decode(msgspec.msgpack.encode(log))
    with pytest.raises(msgspec.ValidationError):
        decoder.decode(msgspec.msgpack.encode(fields | {field: "five"}))


def test_a_field_that_is_missing_is_refused() -> None:
    fields = msgspec.msgpack.decode(msgspec.msgpack.encode(REQUEST))
    del fields["body"]
    with pytest.raises(msgspec.ValidationError):
        decoder.decode(msgspec.msgpack.encode(fields))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("cluster", 8),
        ("client", 2),
        ("session", 2),
        ("request", 2),
        ("parent", b"\1" * 16),
        ("release", 2),
        ("operation", 17),
        ("body", b"other"),
    ],
)
def test_the_seal_of_a_request_covers_all_that_it_asks_for(field: str, value: object) -> None:
    changed = msgspec.structs.replace(REQUEST, **{field: value})
    assert request_checksum(changed) != REQUEST.checksum


def test_the_view_is_not_part_of_what_is_asked_for() -> None:
    later = msgspec.structs.replace(REQUEST, view=View(5))
    assert request_checksum(later) == REQUEST.checksum
