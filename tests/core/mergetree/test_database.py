"""The incarnation: who writes it, and who waits for it."""

from __future__ import annotations

from tests.core.mergetree.service_stand import ServiceStand

from motet.core.metadata.definitions import (
    DatabaseIdentity,
    decode_database_identity,
    encode_database_identity,
)
from motet.core.metadata.messages import Failed, Get, Read, Unknown
from motet.core.metadata.paths import DATABASE


def incarnation(stand: ServiceStand) -> str:
    return stand.node.node.memory.incarnation


def identity(text: str) -> bytes:
    return encode_database_identity(DatabaseIdentity(text))


def test_the_first_node_draws_it_and_the_next_reads_it() -> None:
    stand = ServiceStand(nonce=0x1234_5678_9ABC_DEF0)
    stand.begin()
    assert incarnation(stand) == "9abcdef0"
    found = stand.find(DATABASE)
    assert found is not None
    assert decode_database_identity(found.data) == DatabaseIdentity("9abcdef0")


def test_one_that_is_there_is_kept() -> None:
    stand = ServiceStand()
    stand.put(DATABASE, identity("feed"))
    stand.begin()
    assert incarnation(stand) == "feed"


def test_of_two_who_draw_one_the_first_is_right() -> None:
    stand = ServiceStand()
    stand.is_held = True
    stand.begin()
    stand.answer()  # the watch
    stand.answer()  # there is none
    stand.put(DATABASE, identity("feed"))
    stand.is_held = False
    stand.answer()
    while stand.asked:
        stand.answer()
    assert incarnation(stand) == "feed"


def test_what_the_keeper_could_not_say_is_asked_again() -> None:
    stand = ServiceStand()
    stand.is_held = True
    stand.begin()
    watch, read = stand.asked
    stand.asked.clear()
    stand.receive("metadata", Failed(read.request, "NODE", "not reached", ""))
    assert watch.request != read.request
    stand.tick()
    stand.answer()
    (write,) = stand.asked
    stand.answer(Unknown(write.request))
    stand.tick()
    stand.is_held = False
    stand.answer()
    assert incarnation(stand) == "0000a1b2"


def test_another_incarnation_is_learned_at_once() -> None:
    stand = ServiceStand()
    stand.begin()
    stand.put(DATABASE, identity("feed"))
    assert incarnation(stand) == "feed"
    assert [note.what for note in stand.notes] == ["table_other_incarnation"]


def test_it_is_of_a_session() -> None:
    stand = ServiceStand()
    stand.begin()
    stand.end()
    assert not incarnation(stand)
    stand.begin()
    assert incarnation(stand) == "0000a1b2"


def test_what_says_nothing_is_noted_once_and_waited_for() -> None:
    stand = ServiceStand()
    stand.put(DATABASE, b"{")
    stand.begin()
    stand.tick()
    stand.tick()
    assert not incarnation(stand)
    assert [note.what for note in stand.notes] == ["table_bad_database"]
    stand.put(DATABASE, identity("feed"))
    assert incarnation(stand) == "feed"


def test_a_watch_that_was_not_set_is_asked_for_again() -> None:
    """N3: a new incarnation is heard of under the session that there is."""
    stand = ServiceStand()
    stand.is_held = True
    stand.begin()
    watch, _ = stand.asked
    stand.asked.pop(0)
    stand.receive("metadata", Failed(watch.request, "NODE", "not reached", ""))
    stand.is_held = False
    while stand.asked:
        stand.answer()
    stand.tick()
    stand.put(DATABASE, identity("feed"))
    assert incarnation(stand) == "feed"


def test_what_says_nothing_is_read_again_though_nobody_tells_of_a_change() -> None:
    """Of a node that has known one, too: its watch may be that of a keeper that was restored since."""
    stand = ServiceStand()
    stand.put(DATABASE, identity("feed"))
    stand.begin()
    stand.put(DATABASE, b"{")
    assert incarnation(stand) == "feed"
    stand.is_held = True
    stand.tick()
    (again,) = stand.asked
    assert isinstance(again, Read)
    assert again.operations == (Get(DATABASE),)
