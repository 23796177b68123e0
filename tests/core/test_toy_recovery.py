"""The notebook finds its past: clean, torn, damaged, unreadable (rules T1 and T3 of its essay)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.core.notebooks import (
    C1,
    FULL,
    NOW,
    ask,
    notes,
    opened,
    recalled,
    sends,
    started,
    writes,
    written,
)
from tests.toy.notebook import JOURNAL, Notebook, Phase, Recall, Refused, Remember

from motet.core.machine import ReadBack, ReadFailed, Truncate, WriteFailed, Written
from motet.ids import ReadId, WriteId

# T3: before it knows its own past, it answers nothing


def test_it_asks_for_its_journal_first_and_refuses_until_it_has_it() -> None:
    notebook = started()
    for message in (Remember(1, "la"), Recall(2)):
        (answer,) = sends(ask(notebook, message))
        assert isinstance(answer.message, Refused)
        assert (answer.to, answer.message.request) == (C1, message.request)
    assert notebook.state.values == []


def test_an_empty_journal_is_a_notebook_that_serves() -> None:
    assert recalled(opened()) == []


def test_a_clean_journal_is_recalled_in_order() -> None:
    notebook = started()
    effects = notebook.step(ReadBack(NOW, ReadId(0), written(["la", "si"], ["do"])))
    assert notes(effects) == ["toy_recalled"]
    assert recalled(notebook) == ["la", "si", "do"]


def test_zeros_behind_the_journal_are_its_clean_end() -> None:
    notebook = opened(written(["la"]) + bytes(4_096))
    assert recalled(notebook) == ["la"]
    (write,) = writes(ask(notebook, Remember(1, "si")))
    assert write.offset == len(written(["la"]))


def test_a_torn_tail_is_cut_off_before_anything_is_answered() -> None:
    whole = written(["la"])
    notebook = started()
    torn = written(["la"], ["si"])[:-1]
    effects = notebook.step(ReadBack(NOW, ReadId(0), torn))
    (cut,) = [effect for effect in effects if isinstance(effect, Truncate)]
    assert (cut.file, cut.size_bytes) == (JOURNAL, len(whole))
    assert notes(effects) == ["toy_torn_tail_cut"]
    (answer,) = sends(ask(notebook, Recall(1)))
    assert isinstance(answer.message, Refused), "the cut is not durable yet"
    assert notebook.step(Written(NOW, cut.id)) == []
    assert recalled(notebook) == ["la"]
    (write,) = writes(ask(notebook, Remember(2, "do")))
    assert write.offset == len(whole)
    assert write.id > cut.id


def test_a_cut_that_fails_leaves_it_broken() -> None:
    notebook = started()
    (cut,) = [
        effect
        for effect in notebook.step(ReadBack(NOW, ReadId(0), written(["la"])[:-1]))
        if isinstance(effect, Truncate)
    ]
    assert notes(notebook.step(WriteFailed(NOW, cut.id, FULL))) == ["toy_broken"]
    assert_broken(notebook)


def test_damage_in_the_middle_is_no_torn_tail() -> None:
    journal = bytearray(written(["la"], ["si"], ["do"]))
    journal[len(written(["la"])) - 1] ^= 1
    notebook = started()
    effects = notebook.step(ReadBack(NOW, ReadId(0), bytes(journal)))
    assert notes(effects) == ["toy_broken"]
    assert not [effect for effect in effects if isinstance(effect, Truncate)]
    assert_broken(notebook)


def test_a_journal_that_cannot_be_read_is_not_an_empty_one() -> None:
    notebook = started()
    assert notes(notebook.step(ReadFailed(NOW, ReadId(0), "sector 3"))) == ["toy_broken"]
    assert_broken(notebook)


def assert_broken(notebook: Notebook) -> None:
    assert notebook.state.phase is Phase.BROKEN
    for message in (Remember(1, "la"), Recall(2)):
        effects = ask(notebook, message)
        assert writes(effects) == []
        (answer,) = sends(effects)
        assert isinstance(answer.message, Refused)


@given(st.data())
def test_whatever_bit_rots_nothing_false_is_recalled(data: st.DataObject) -> None:
    """At most the last batch is missing, which is all that one file can tell apart from a torn tail."""
    batches = [["la", "si"], ["do" * 300], ["re"], ["mi", "fa"]]
    journal = bytearray(written(*batches))
    at = data.draw(st.integers(0, len(journal) - 1))
    journal[at] ^= 1 << data.draw(st.integers(0, 7))
    notebook = opened(bytes(journal))
    if notebook.state.phase is Phase.CUTTING:
        notebook.step(Written(NOW, WriteId(0)))
    kept = [value for batch in batches for value in batch]
    if notebook.state.phase is Phase.BROKEN:
        assert_broken(notebook)
        return
    found = recalled(notebook)
    assert found == kept[: len(found)]
    assert len(found) >= len(kept) - len(batches[-1])


@given(st.lists(st.text(max_size=700), unique=True, max_size=6), st.integers(0, 5_000))
def test_wherever_the_tail_is_torn_a_prefix_is_recalled(values: list[str], cut: int) -> None:
    journal = written(*[[value] for value in values])
    notebook = opened(journal[: min(cut, len(journal))])
    if notebook.state.phase is Phase.CUTTING:
        notebook.step(Written(NOW, WriteId(0)))
    found = recalled(notebook)
    assert found == values[: len(found)]
    if cut >= len(journal):
        assert found == values
