"""Asking again for a moment, and no longer."""

from __future__ import annotations

import asyncio

import pytest

from motet.client.cluster import refusals
from motet.client.cluster.refusals import after_a_moment
from motet.errors.operator import NodeLeads, NoLeader


class Operator:
    """Answers with these, one after the other; the last for ever."""

    def __init__(self, *answers: Exception | str) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def ask(self) -> str:
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_a_refusal_that_passes_is_not_heard_of() -> None:
    operator = Operator(NoLeader("not now"), NoLeader("not now"), "done")
    assert asyncio.run(after_a_moment(operator.ask, NoLeader)) == "done"
    assert operator.asked == 3


def test_one_that_stays_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals, "moment_seconds", 0.15)
    operator = Operator(NoLeader("not now"))
    with pytest.raises(NoLeader):
        asyncio.run(after_a_moment(operator.ask, NoLeader))
    assert operator.asked > 1


def test_any_other_is_raised_at_once() -> None:
    operator = Operator(NodeLeads("it leads"), "done")
    with pytest.raises(NodeLeads):
        asyncio.run(after_a_moment(operator.ask, NoLeader))
    assert operator.asked == 1
