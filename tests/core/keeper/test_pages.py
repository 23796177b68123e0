"""Checkpoints: what is handed out is enough, equal for equal states, and not believed blindly."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.keeper.histories import OPERATIONS
from tests.core.keeper.keepers import FIRST, GENERATION, OPEN, PASSWORD, SMALL, Harness, pages_of

from motet.core.keeper.machine import Keeper
from motet.core.keeper.operations import AnyOperation, EndSession, OpenSession, Touch, Write
from motet.core.keeper.pages import counters_page
from motet.core.vsr.state_machine import StateMachine
from motet.errors import BadRecord
from motet.format.zookeeper.messages import Acl, Create, Delete, SetData

BATCHES = st.lists(st.lists(OPERATIONS, max_size=4), max_size=12)


def keep(pages: dict[int, bytes], changed: dict[int, bytes | None]) -> None:
    for number, data in changed.items():
        pages.pop(number, None)
        if data is not None:
            pages[number] = data


@given(st.lists(st.tuples(st.booleans(), st.lists(OPERATIONS, max_size=4)), max_size=12))
def test_changed_pages_are_all_it_takes_to_make_the_keeper_anew(
    steps: list[tuple[bool, list[AnyOperation]]],
) -> None:
    harness = Harness(sessions=2)
    pages: dict[int, bytes] = {}
    for is_checkpoint, batch in steps:
        harness.run(*batch)
        if not is_checkpoint:
            continue
        keep(pages, harness.keeper.take_changed())
        restored = Keeper(SMALL)
        restored.restore(sorted(pages.items()))
        assert restored.fingerprint() == harness.keeper.fingerprint()
        assert restored.counts() == harness.keeper.counts()
        assert harness.keeper.take_changed() == {} == restored.take_changed()
        assert pages == pages_of(restored)
        harness.keeper = restored


@settings(max_examples=50)
@given(BATCHES, BATCHES, st.data())
def test_a_page_is_handed_out_as_it_was_when_the_checkpoint_began(
    before: list[list[AnyOperation]], meanwhile: list[list[AnyOperation]], data: st.DataObject
) -> None:
    harness, twin = Harness(sessions=2), Harness(sessions=2)
    for batch in before:
        harness.run(*batch)
        twin.run(*batch)
    then = twin.keeper.take_changed()
    waiting = harness.keeper.begin_pages()
    assert waiting == list(then)
    for batch in meanwhile:
        harness.run(*batch)
        twin.run(*batch)
        for number in data.draw(st.lists(st.sampled_from(waiting), unique=True)) if waiting else ():
            waiting.remove(number)
            assert harness.keeper.take_page(number) == then[number]
        harness.keeper = harness.keeper.clone()
    assert {number: harness.keeper.take_page(number) for number in waiting}.items() <= then.items()
    assert harness.keeper.take_changed() == twin.keeper.take_changed(), "what changed meanwhile"


@settings(max_examples=50)
@given(BATCHES, BATCHES)
def test_a_restored_keeper_answers_as_the_one_it_was_made_from(
    before: list[list[AnyOperation]], after: list[list[AnyOperation]]
) -> None:
    one = Harness(sessions=2)
    for batch in before:
        one.run(*batch)
    other = Harness()
    other.keeper.restore(pages_of(one.keeper).items())
    other.op = one.op
    for batch in after:
        assert one.run(*batch) == other.run(*batch)
    assert pages_of(one.keeper) == pages_of(other.keeper)


@given(st.permutations(["a", "b", "c", "d", "e"]))
def test_pages_do_not_tell_in_which_order_nodes_came(names: list[str]) -> None:
    def made(order: list[str]) -> Keeper:
        harness = Harness()
        for name in order:
            harness.keeper._tree.put(f"/{name}", harness.keeper._tree.nodes["/"])
        return harness.keeper

    one, other = made(sorted(names)), made(names)
    assert one.fingerprint() == other.fingerprint()
    assert one.take_changed() == other.take_changed()


def test_a_clone_goes_its_own_way() -> None:
    harness = Harness()
    machine: StateMachine = harness.keeper
    twin = Harness()
    twin.keeper, twin.op = harness.keeper.clone(), harness.op
    before = machine.fingerprint()
    for operation in (
        Write(FIRST, GENERATION, Create("/a", b"", (Acl(31, "digest", "a:b"),), 1)),
        OpenSession(100, PASSWORD),
        EndSession(FIRST, GENERATION),
    ):
        twin.one(operation)
        assert machine.fingerprint() == before
        assert twin.keeper.fingerprint() != before
        harness.one(operation)
        before = machine.fingerprint()
        assert twin.keeper.fingerprint() == before
    assert harness.keeper.take_changed() == twin.keeper.take_changed()
    assert harness.keeper.take_applied() == twin.keeper.take_applied()


def test_only_pages_that_changed_are_handed_out() -> None:
    config = msgspec.structs.replace(SMALL, node_pages=1000)
    harness = Harness(config)
    for number in range(50):
        harness.create(f"/n{number}")
    harness.keeper.take_changed()
    assert harness.keeper.take_changed() == {}
    harness.write(SetData("/n7", b"x", -1))
    changed = harness.keeper.take_changed()
    assert len(changed) == 2, "its page and the counters"
    assert counters_page(config) in changed


def test_a_touch_is_kept() -> None:
    harness = Harness()
    harness.pulse(0)
    harness.pulse(100)
    pages: dict[int, bytes] = {}
    keep(pages, harness.keeper.take_changed())
    harness.one(Touch(((FIRST, GENERATION),)))
    keep(pages, harness.keeper.take_changed())
    assert pages == pages_of(harness.keeper)


def test_a_page_without_nodes_or_sessions_is_gone() -> None:
    config = msgspec.structs.replace(SMALL, node_pages=1 << 16, session_pages=1)
    harness = Harness(config)
    harness.create("/a")
    harness.keeper.take_changed()
    harness.write(Delete("/a", -1))
    harness.one(EndSession(FIRST, GENERATION))
    gone = [number for number, data in harness.keeper.take_changed().items() if data is None]
    assert len(gone) == 2
    assert 1 << 16 in gone


def test_without_any_pages_it_is_at_its_beginning() -> None:
    fresh, harness = Keeper(SMALL), Harness()
    harness.create("/a")
    harness.keeper.restore([])
    assert harness.keeper.fingerprint() == fresh.fingerprint()
    assert harness.keeper.take_changed() == fresh.take_changed() != {}


def test_what_was_not_taken_before_a_restore_is_a_gap() -> None:
    harness = Harness()
    harness.create("/a")
    harness.keeper.restore(pages_of(harness.keeper).items())
    taken = harness.keeper.take_applied()
    assert (taken.applied, taken.has_gap) == ((), True)
    harness.create("/b")
    taken = harness.keeper.take_applied()
    assert (len(taken.applied), taken.has_gap) == (1, False)


def furnished() -> Harness:
    harness = Harness(msgspec.structs.replace(SMALL, node_pages=1, session_pages=1))
    harness.create("/a")
    harness.create("/a/e", 1)
    return harness


NODES, SESSIONS, COUNTERS = 0, 1, 2


def changed_page(keeper: Keeper, number: int, change: str) -> list[tuple[int, bytes]]:
    """All pages, with one of them damaged as told."""
    pages = pages_of(keeper)
    items = msgspec.msgpack.decode(pages[number])
    if change == "empty":
        items = []
    elif change == "reversed":
        items = items[::-1]
    elif change == "twice":
        items = [*items, items[-1]]
    elif change == "without its first":
        items = items[1:]
    elif change == "without its second":
        items = [items[0], *items[2:]]
    elif change == "bad path":
        items[-1][0] = "/z/"
    elif change == "more fields":
        items[-1].append(1)
    elif change == "number to come":
        items[-1][0] = 99
    pages[number] = msgspec.msgpack.encode(items)
    return list(pages.items())


@pytest.mark.parametrize(
    ("number", "change"),
    [
        (NODES, "empty"),
        (NODES, "reversed"),
        (NODES, "twice"),
        (NODES, "without its first"),
        (NODES, "without its second"),
        (NODES, "bad path"),
        (NODES, "more fields"),
        (SESSIONS, "empty"),
        (SESSIONS, "twice"),
        (SESSIONS, "number to come"),
        (SESSIONS, "more fields"),
        (COUNTERS, "empty"),
    ],
)
def test_pages_that_are_none_leave_the_keeper_as_it_was(number: int, change: str) -> None:
    harness = furnished()
    before = harness.keeper.fingerprint()
    with pytest.raises(BadRecord):
        harness.keeper.restore(changed_page(harness.keeper, number, change))
    assert harness.keeper.fingerprint() == before
    assert not harness.keeper.take_applied().has_gap


def test_pages_that_are_missing_or_too_many() -> None:
    harness = furnished()
    pages = pages_of(harness.keeper)
    for number in pages:
        with pytest.raises(BadRecord):
            harness.keeper.restore([page for page in pages.items() if page[0] != number])
    for extra in (3, -1, 1 << 40):
        with pytest.raises(BadRecord):
            harness.keeper.restore([*pages.items(), (extra, b"\x90")])
    other = Keeper(msgspec.structs.replace(SMALL, node_pages=2, session_pages=1))
    with pytest.raises(BadRecord):
        other.restore(pages.items())


@given(st.sampled_from([NODES, SESSIONS, COUNTERS]), st.binary(max_size=40))
def test_no_page_makes_it_raise_anything_else(number: int, data: bytes) -> None:
    pages = pages_of(furnished().keeper)
    pages[number] = data
    keeper = furnished().keeper
    with pytest.raises(BadRecord):
        keeper.restore(pages.items())


@pytest.mark.parametrize("data", [b"\x91" * 50_000, b"\x91\x92\xa1/" + b"\x91" * 50_000])
def test_a_page_of_great_depth(data: bytes) -> None:
    with pytest.raises(BadRecord):
        furnished().keeper.restore([(0, data)])


def test_open_lists_take_no_room() -> None:
    harness = Harness()
    harness.create("/a")
    assert all(node.acl == () for node in harness.keeper._tree.nodes.values())
    assert OPEN[0].scheme.encode() not in b"".join(pages_of(harness.keeper).values())
