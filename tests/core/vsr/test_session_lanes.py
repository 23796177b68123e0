"""Reserved sessions of lanes: one for each, over all incarnations of a front end."""

from __future__ import annotations

import msgspec
from tests.core.vsr.test_sessions import (
    ANN,
    BOB,
    CAT,
    CONFIG,
    DAN,
    EVE,
    Asked,
    Table,
    register,
)

from motet.core.vsr.sessions import RESERVED_BODY, Decision, LaneOwner, decode_sessions
from motet.ids import ClientId


def lane(client: ClientId, incarnation: int, number: int = 0, member: int = 0) -> Asked:
    return register(client, LaneOwner(member, number, incarnation).encode())


def test_the_lanes_of_a_member_have_one_place_each_over_fifty_restarts() -> None:
    table = Table()
    other = table.commit(lane(ANN, 7, member=1))
    assert other is None
    before: ClientId | None = None
    for incarnation in range(50):
        client = ClientId(100 + incarnation)
        assert table.decide(lane(client, incarnation)) is Decision.ACCEPT
        assert table.commit(lane(client, incarnation)) == before
        assert table.of(client).is_reserved
        before = client
    assert sorted(table.sessions.by_client) == [ANN, 149]
    assert table.of(ANN).is_reserved


def test_what_the_former_incarnation_had_under_way_touches_nothing() -> None:
    table = Table()
    table.commit(lane(ANN, 1))
    under_way, late = table.next_request(ANN), table.next_request(ANN, b"late")
    assert table.commit(lane(BOB, 2)) == ANN
    mine = table.of(BOB)
    table.commit(
        under_way
    )  # prepared before the register was committed: done, and no answer is kept
    assert list(table.sessions.by_client.values()) == [mine]
    assert table.decide(late) is Decision.EVICT_NO_SESSION
    assert table.decide(table.next_request(BOB)) is Decision.ACCEPT


def test_the_register_of_an_earlier_incarnation_that_comes_late_evicts_no_lane() -> None:
    table = Table()
    table.commit(lane(BOB, 2))
    assert table.commit(lane(ANN, 1)) is None
    assert table.of(BOB).is_reserved
    assert not table.of(ANN).is_reserved
    assert table.commit(lane(CAT, 2)) == BOB, "evicted and begun anew in the same incarnation"


def test_a_lane_takes_a_place_that_an_earlier_release_has_left_behind() -> None:
    table = Table()
    table.commit(register(ANN, RESERVED_BODY))
    table.commit(register(BOB, RESERVED_BODY))
    table.commit(table.next_request(ANN))
    assert table.commit(lane(CAT, 1)) == BOB
    assert table.commit(lane(DAN, 1, number=1)) == ANN
    assert table.commit(lane(EVE, 1, number=2)) is None
    reserved = [table.of(client).is_reserved for client in (CAT, DAN, EVE)]
    assert reserved == [True, True, False], "never more than there are places"


def test_lanes_are_kept_in_a_checkpoint_and_tables_without_them_are_as_before() -> None:
    table = Table()
    table.commit(register(ANN, RESERVED_BODY))
    ten_fields = [msgspec.structs.astuple(table.of(ANN))[:10]]
    assert table.sessions.encode() == msgspec.msgpack.encode(ten_fields)
    assert decode_sessions(CONFIG, msgspec.msgpack.encode(ten_fields)) == table.sessions
    table.commit(lane(BOB, 9, number=1))
    table.commit(table.next_request(BOB))
    assert decode_sessions(CONFIG, table.sessions.encode()) == table.sessions
    assert table.of(BOB).owner == (0, 1, 9)


def test_bodies_of_registers_that_name_no_lane() -> None:
    table = Table()
    good = LaneOwner(1, 2, 3).encode()
    assert table.decide(register(ANN, good)) is Decision.ACCEPT
    for body in (good[:-1], good + b"\0", b"lane", b"LANE" + good[4:], good[:6] + b"\xff" * 8):
        assert table.decide(register(ANN, body)) is Decision.EVICT_BAD_BODY
