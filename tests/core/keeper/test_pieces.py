"""Writes in pieces: whole or not at all, whatever comes in between."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.keeper.keepers import FIRST, GENERATION, OPEN, PASSWORD, SMALL, Harness, pages_of

from motet.core.keeper.ids import Generation
from motet.core.keeper.machine import Keeper
from motet.core.keeper.operations import Piece, Reattach, Write, encode_batch
from motet.core.keeper.pieces import split
from motet.format.zookeeper.messages import (
    Create,
    Created,
    ErrorCode,
    Nothing,
    SetData,
    WriteRequest,
)

LARGE = bytes(range(256)) * 40
REQUEST_BYTES = 1024


def pieces(request: WriteRequest, generation: int = GENERATION) -> list[Piece]:
    return split(Write(FIRST, Generation(generation), request), REQUEST_BYTES)


@given(st.integers(0, 5_000), st.integers(100, 2_000))
@settings(deadline=None)
def test_a_write_arrives_as_it_was_and_each_piece_fits_into_a_request(
    data_bytes: int, request_bytes_max: int
) -> None:
    harness = Harness()
    write = Write(FIRST, GENERATION, Create("/large", bytes(data_bytes), OPEN, 0))
    parts = split(write, request_bytes_max)
    assert all(len(encode_batch([part])) <= request_bytes_max for part in parts)
    outcomes = [harness.one(part) for part in parts]
    assert [outcome.result for outcome in outcomes[:-1]] == [Nothing()] * (len(parts) - 1)
    assert outcomes[-1].result == Created("/large")
    assert harness.data("/large") == bytes(data_bytes)


def test_nothing_is_there_before_the_last_piece() -> None:
    harness = Harness()
    parts = pieces(Create("/large", LARGE, OPEN, 0))
    before = harness.keeper.zxid
    for part in parts[:-1]:
        assert harness.one(part).zxid == before
    assert not harness.is_there("/large")
    assert harness.one(parts[-1]).zxid == before + 1


def test_a_checkpoint_in_between_keeps_what_has_come() -> None:
    harness = Harness()
    parts = pieces(Create("/large", LARGE, OPEN, 0))
    for part in parts[:5]:
        harness.one(part)
    restored = Keeper(SMALL)
    restored.restore(sorted(pages_of(harness.keeper).items()))
    assert restored.fingerprint() == harness.keeper.fingerprint()
    harness.keeper = restored
    for part in parts[5:]:
        harness.one(part)
    assert harness.data("/large") == LARGE


@pytest.mark.parametrize("order", [[0, 2], [1], [0, 1, 1], [0, 0, 2]])
def test_a_piece_out_of_order_drops_them_all(order: list[int]) -> None:
    harness = Harness()
    parts = pieces(Create("/large", LARGE, OPEN, 0))
    errors = [harness.one(parts[number]).error for number in order]
    assert errors[-1] == ErrorCode.MARSHALLING_ERROR
    assert harness.one(parts[-1]).error == ErrorCode.MARSHALLING_ERROR
    assert [harness.one(part).error for part in parts] == [0] * len(parts), "and it can begin anew"
    assert harness.data("/large") == LARGE


def test_a_generation_does_not_go_on_with_the_pieces_of_another() -> None:
    harness = Harness()
    parts = pieces(Create("/large", LARGE, OPEN, 0))
    harness.one(parts[0])
    harness.one(Reattach(FIRST, PASSWORD))
    assert harness.one(parts[1]).error == ErrorCode.SESSION_MOVED
    later = pieces(Create("/large", LARGE, OPEN, 0), generation=2)
    assert harness.one(later[1]).error == ErrorCode.MARSHALLING_ERROR


def test_pieces_of_a_write_for_another_session_are_not_done() -> None:
    harness = Harness(sessions=2)
    parts = [msgspec.structs.replace(part, session=2) for part in pieces(SetData("/", LARGE, -1))]
    outcomes = [harness.one(part) for part in parts]
    assert outcomes[-1].error == ErrorCode.MARSHALLING_ERROR
    assert harness.data("/") == b""


def test_more_than_a_write_may_have_is_not_kept() -> None:
    harness = Harness(msgspec.structs.replace(SMALL, write_bytes_max=3_000))
    errors = [harness.one(part).error for part in pieces(Create("/large", LARGE, OPEN, 0))]
    assert errors[3] == ErrorCode.MARSHALLING_ERROR
    assert 0 not in errors[3:]
    assert not harness.is_there("/large")


def test_empty_pieces_and_nonsense_are_refused() -> None:
    harness = Harness()
    assert harness.one(Piece(FIRST, GENERATION, 0, True, b"")).error
    assert harness.one(Piece(FIRST, GENERATION, 0, True, b"nonsense")).error
    nested = encode_batch([Piece(FIRST, GENERATION, 0, True, b"x")])
    assert harness.one(Piece(FIRST, GENERATION, 0, True, nested)).error
