"""What is committed and where a log is cut, against twins that look at every entry and every majority."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from motet.core.shardlog.entry import NO_ENTRY, EntryId, EpochRuns
from motet.core.shardlog.quorum import committed, held_by_majority, majority, truncation_point
from motet.ids import Epoch, Offset

epochs = st.lists(st.integers(1, 4), max_size=8).map(sorted)


def runs_of(log: list[int]) -> EpochRuns:
    runs = EpochRuns()
    for offset, epoch in enumerate(log, 1):
        runs.add(EntryId(Epoch(epoch), Offset(offset)))
    return runs


def ids_of(log: list[int]) -> list[EntryId]:
    return [EntryId(Epoch(epoch), Offset(offset)) for offset, epoch in enumerate(log, 1)]


@given(st.integers(1, 7), st.lists(st.integers(0, 9), min_size=1, max_size=7))
def test_held_is_what_some_majority_holds_whole(factor: int, positions: list[int]) -> None:
    counted = positions[:factor]
    groups = combinations(counted, majority(factor))
    expected = max((min(group) for group in groups), default=0)
    assert held_by_majority([Offset(p) for p in counted], factor) == expected


@given(
    epochs,
    st.integers(1, 5),
    st.lists(st.integers(0, 8), min_size=1, max_size=5),
    st.integers(1, 4),
)
def test_only_entries_of_the_present_epoch_are_committed_directly(
    log: list[int], factor: int, positions: list[int], epoch: int
) -> None:
    held = [Offset(min(p, len(log))) for p in positions[:factor]]
    entry = committed(held, factor, Epoch(epoch), runs_of(log))
    whole = held_by_majority(held, factor)
    if whole > 0 and log[whole - 1] == epoch:
        assert entry == EntryId(Epoch(epoch), whole)
    else:
        assert entry == NO_ENTRY


@given(epochs, epochs.filter(bool))
def test_a_follower_is_cut_to_the_highest_entry_of_no_later_epoch(
    ours: list[int], theirs: list[int]
) -> None:
    head = ids_of(theirs)[-1]
    point = truncation_point(runs_of(ours), head)
    if head in ids_of(ours):
        assert point == head
    else:
        below = [each for each in ids_of(ours) if each.epoch <= head.epoch]
        assert point == (below[-1] if below else NO_ENTRY)


@given(epochs, st.data())
def test_runs_are_a_list_of_ids(log: list[int], data: st.DataObject) -> None:
    runs, ids = runs_of(log), [NO_ENTRY, *ids_of(log)]
    keep = data.draw(st.integers(0, len(log)))
    base = data.draw(st.integers(0, keep))
    runs.cut(Offset(keep))
    runs.trim(Offset(base))
    left = ids[base : keep + 1]
    assert (runs.base, runs.head) == (left[0], left[-1])
    assert [runs.id_at(each.offset) for each in left] == left
    for epoch in range(5):
        found = [each for each in left if each.epoch <= epoch]
        assert runs.highest_of(Epoch(epoch)) == (found[-1] if found else None)
    for each in ids_of([1, 2, 3, 4]):
        assert runs.has(each) == (each in left)
