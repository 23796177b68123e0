"""Notebooks for tests: opened, asked, and looked at."""

from __future__ import annotations

from collections.abc import Iterable

from tests.toy.notebook import JOURNAL, Notebook, Recall, Recalled, Remember

from motet.core.machine import (
    Effect,
    Message,
    Note,
    Now,
    Read,
    ReadBack,
    Received,
    Send,
    Started,
    Write,
    Written,
)
from motet.ids import Address, ReadId

NOW = Now(monotonic_ns=0, wall_ns=0)
C1, C2, C3 = Address("c1"), Address("c2"), Address("c3")
FULL = "no room"


def started() -> Notebook:
    notebook = Notebook()
    assert notebook.step(Started(NOW, nonce=1)) == [Read(ReadId(0), JOURNAL)]
    return notebook


def opened(journal: bytes = b"") -> Notebook:
    notebook = started()
    notebook.step(ReadBack(NOW, ReadId(0), journal))
    return notebook


def ask(notebook: Notebook, message: Message, client: Address = C1) -> list[Effect]:
    effects = notebook.step(Received(NOW, client, message))
    assert notebook.invariants() == []
    return effects


def finish(notebook: Notebook, effects: list[Effect]) -> list[Effect]:
    """The one write among the effects is durable."""
    (write,) = writes(effects)
    after = notebook.step(Written(NOW, write.id))
    assert notebook.invariants() == []
    return after


def writes(effects: Iterable[Effect]) -> list[Write]:
    return [effect for effect in effects if isinstance(effect, Write)]


def sends(effects: Iterable[Effect]) -> list[Send]:
    return [effect for effect in effects if isinstance(effect, Send)]


def notes(effects: Iterable[Effect]) -> list[str]:
    return [effect.what for effect in effects if isinstance(effect, Note)]


def recalled(notebook: Notebook) -> list[str]:
    (answer,) = sends(ask(notebook, Recall(99)))
    assert isinstance(answer.message, Recalled)
    assert answer.message.request == 99
    return answer.message.values


def written(*batches: list[str]) -> bytes:
    """The journal of a notebook that was given these values, each list in one batch."""
    notebook, journal = opened(), b""
    for batch in batches:
        first, *rest = batch
        effects = ask(notebook, Remember(0, first))
        for value in rest:
            ask(notebook, Remember(0, value))
        while writes(effects):
            journal += writes(effects)[0].data
            effects = finish(notebook, effects)
    return journal
