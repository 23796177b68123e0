"""The notebook at work, event by event, against the rules T1 to T4 of its essay."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.notebooks import (
    C1,
    C2,
    C3,
    FULL,
    NOW,
    ask,
    finish,
    notes,
    opened,
    recalled,
    sends,
    started,
    writes,
    written,
)
from tests.toy.notebook import (
    JOURNAL,
    WAITING_MAX,
    Notebook,
    Phase,
    Refused,
    Remember,
    Remembered,
)

from motet.core.machine import (
    Effect,
    Event,
    Fired,
    ReadBack,
    Send,
    Started,
    WriteFailed,
    Written,
)
from motet.ids import ReadId, TimerName, WriteId

# T1, T2: durable before promised, one record each


def test_the_answer_waits_for_the_write_and_the_value_too() -> None:
    notebook = opened()
    effects = ask(notebook, Remember(7, "la"), C2)
    (write,), (answer,) = writes(effects), sends(effects)
    assert (write.file, write.offset) == (JOURNAL, 0)
    assert answer == Send(C2, Remembered(7, 0), after=write.id)
    assert recalled(notebook) == [], "what is not durable is not recalled"
    assert finish(notebook, effects) == []
    assert recalled(notebook) == ["la"]


def test_what_comes_in_during_a_write_goes_out_as_one_batch_behind_it() -> None:
    notebook = opened()
    first = ask(notebook, Remember(1, "la"))
    assert ask(notebook, Remember(2, "si"), C2) == []
    assert ask(notebook, Remember(3, "do"), C3) == []
    second = finish(notebook, first)
    (write,) = writes(second)
    assert write.offset == len(writes(first)[0].data)
    assert sends(second) == [
        Send(C2, Remembered(2, 1), after=write.id),
        Send(C3, Remembered(3, 2), after=write.id),
    ]
    assert notes(second) == ["toy_batch"]
    finish(notebook, second)
    journal = writes(first)[0].data + write.data
    assert recalled(notebook) == recalled(opened(journal)) == ["la", "si", "do"]


def test_write_ids_count_up() -> None:
    notebook = opened(written(["la"])[:-1])
    notebook.step(Written(NOW, WriteId(0)))
    seen = [WriteId(0)]
    for number in range(5):
        effects = ask(notebook, Remember(number, f"v{number}"))
        seen.append(writes(effects)[0].id)
        finish(notebook, effects)
    assert seen == sorted(set(seen))


@given(st.lists(st.text(max_size=40), unique=True, max_size=12), st.data())
def test_memory_and_journal_agree_whatever_the_batches(
    values: list[str], data: st.DataObject
) -> None:
    notebook, journal = opened(), b""
    flying: list[Effect] = []
    for number, value in enumerate(values):
        effects = ask(notebook, Remember(number, value))
        flying = effects or flying
        if data.draw(st.booleans()) and writes(flying):
            journal += writes(flying)[0].data
            flying = finish(notebook, flying)
        assert notebook.state.values == recalled(opened(journal))
    while writes(flying):
        journal += writes(flying)[0].data
        flying = finish(notebook, flying)
    assert recalled(notebook) == recalled(opened(journal)) == values


# A full disk


def test_a_full_disk_is_told_to_all_who_wait_and_the_journal_goes_on_where_it_was() -> None:
    notebook = opened(written(["la"]))
    effects = ask(notebook, Remember(1, "si"))
    (write,) = writes(effects)
    failed = notebook.step(WriteFailed(NOW, write.id, FULL))
    assert notes(failed) == ["toy_disk_full"]
    assert sends(failed) == [Send(C1, Refused(1, FULL))]
    assert recalled(notebook) == ["la"]
    (again,) = writes(ask(notebook, Remember(2, "si")))
    assert again.offset == write.offset
    assert again.id > write.id


def test_after_a_failure_those_who_came_later_get_their_turn() -> None:
    notebook = opened()
    (write,) = writes(ask(notebook, Remember(1, "la")))
    ask(notebook, Remember(2, "si"), C2)
    effects = notebook.step(WriteFailed(NOW, write.id, FULL))
    assert notebook.invariants() == []
    (second,) = writes(effects)
    assert second.offset == 0
    refusal, answer = sends(effects)
    assert refusal == Send(C1, Refused(1, FULL))
    assert answer == Send(C2, Remembered(2, 0), after=second.id)
    finish(notebook, effects)
    assert recalled(notebook) == ["si"]


def test_a_value_refused_by_a_full_disk_can_be_brought_again() -> None:
    notebook = opened()
    (write,) = writes(ask(notebook, Remember(1, "la")))
    notebook.step(WriteFailed(NOW, write.id, FULL))
    effects = ask(notebook, Remember(2, "la"))
    finish(notebook, effects)
    assert recalled(notebook) == ["la"]


# T4: a value is kept once


def test_a_durable_value_is_confirmed_again_at_its_place_without_a_write() -> None:
    notebook = opened(written(["la", "si"]))
    assert ask(notebook, Remember(5, "si"), C2) == [Send(C2, Remembered(5, 1))]


def test_a_value_that_is_being_written_is_not_confirmed_before_it_is_durable() -> None:
    notebook = opened()
    effects = ask(notebook, Remember(1, "la"))
    assert ask(notebook, Remember(2, "la"), C2) == []
    assert finish(notebook, effects) == [Send(C2, Remembered(2, 0))]
    assert recalled(notebook) == ["la"]


def twice_in_one_batch() -> tuple[Notebook, list[Effect]]:
    """``la`` is durable; ``si`` from c1 and c2 and ``la`` from c3 wait together."""
    notebook = opened()
    effects = ask(notebook, Remember(1, "la"))
    ask(notebook, Remember(2, "si"), C1)
    ask(notebook, Remember(3, "si"), C2)
    ask(notebook, Remember(4, "la"), C3)
    return notebook, finish(notebook, effects)


def test_a_value_twice_in_one_batch_is_one_record_and_two_answers() -> None:
    notebook, effects = twice_in_one_batch()
    (write,) = writes(effects)
    assert Send(C1, Remembered(2, 1), after=write.id) in effects
    assert Send(C2, Remembered(3, 1), after=write.id) in effects
    assert "toy_batch" not in notes(effects), "one record is no batch"
    finish(notebook, effects)
    assert recalled(notebook) == ["la", "si"]


def test_what_is_durable_does_not_wait_for_the_disk_with_the_others() -> None:
    _, effects = twice_in_one_batch()
    assert Send(C3, Remembered(4, 0)) in effects


def test_a_full_disk_is_told_to_each_who_brought_the_value() -> None:
    notebook, effects = twice_in_one_batch()
    (write,) = writes(effects)
    failed = notebook.step(WriteFailed(NOW, write.id, FULL))
    assert notebook.invariants() == []
    assert sends(failed) == [Send(C1, Refused(2, FULL)), Send(C2, Refused(3, FULL))]


# Peers and bounds


def test_a_message_it_does_not_know_is_noted_in_every_phase() -> None:
    for notebook in (started(), opened(), opened(written(["la"])[:-1])):
        before = notebook.fingerprint()
        assert notes(ask(notebook, Remembered(1, 0))) == ["toy_foreign_message"]
        assert notebook.fingerprint() == before


def test_a_full_waiting_list_says_so_and_takes_no_more() -> None:
    notebook = opened()
    effects = ask(notebook, Remember(0, "first"))
    for number in range(WAITING_MAX):
        assert ask(notebook, Remember(number, f"v{number}")) == []
    (answer,) = sends(ask(notebook, Remember(9_999, "one too many"), C2))
    assert isinstance(answer.message, Refused)
    assert (answer.to, answer.message.request) == (C2, 9_999)
    assert recalled(notebook) == [], "reading goes on"
    batch = finish(notebook, effects)
    assert len(sends(batch)) == WAITING_MAX
    assert ask(notebook, Remember(1, "room again")) == []


def test_an_event_it_did_not_ask_for_changes_nothing() -> None:
    notebook = opened(written(["la"]))
    before = notebook.fingerprint()
    event: Event = Fired(NOW, TimerName("foreign"))
    assert notebook.step(event) == []
    assert notebook.fingerprint() == before


def test_a_write_that_nobody_began_is_a_fault_of_the_driver() -> None:
    with pytest.raises(AssertionError, match="T2"):
        opened().step(Written(NOW, WriteId(0)))


# Clone, fingerprint, invariants


def test_a_clone_goes_its_own_way() -> None:
    notebook = opened(written(["la"]))
    effects = ask(notebook, Remember(1, "si"))
    ask(notebook, Remember(2, "do"))
    twin = notebook.clone()
    assert twin.fingerprint() == notebook.fingerprint()
    finish(twin, effects)
    assert twin.fingerprint() != notebook.fingerprint()
    assert recalled(notebook) == ["la"]
    assert recalled(twin) == ["la", "si"]


def test_equal_histories_have_equal_fingerprints() -> None:
    left, right = opened(written(["la"])), opened(written(["la"]))
    assert left.fingerprint() == right.fingerprint()
    ask(left, Remember(1, "si"))
    assert left.fingerprint() != right.fingerprint()
    ask(right, Remember(1, "si"))
    assert left.fingerprint() == right.fingerprint()


def test_a_clone_keeps_the_planted_bug() -> None:
    notebook = Notebook(acknowledge_early=True)
    notebook.step(Started(NOW, nonce=1))
    notebook.step(ReadBack(NOW, ReadId(0), b""))
    for machine in (notebook, notebook.clone()):
        (answer,) = sends(ask(machine, Remember(1, "la")))
        assert answer.after is None


@pytest.mark.parametrize("phase", [Phase.READING, Phase.CUTTING, Phase.BROKEN])
def test_requests_that_wait_while_it_does_not_serve_violate_t3(phase: Phase) -> None:
    notebook = opened()
    ask(notebook, Remember(1, "la"))
    notebook.state.phase = phase
    assert [violation.invariant for violation in notebook.invariants()] == ["T3"]


def test_requests_that_wait_for_an_idle_disk_violate_t2() -> None:
    notebook = opened()
    ask(notebook, Remember(1, "la"))
    ask(notebook, Remember(2, "si"))
    notebook.state.writing = []
    notebook.state.positions = {}
    assert [violation.invariant for violation in notebook.invariants()] == ["T2"]


def test_a_value_without_its_place_violates_t4() -> None:
    notebook = opened(written(["la"]))
    notebook.state.values.append("la")
    assert [violation.invariant for violation in notebook.invariants()] == ["T4"]
