"""A verdict is true as a condition only when the history is ok."""

from __future__ import annotations

from motet.verify.history import Verdict
from motet.verify.history.record import Witness


def test_only_ok_is_true() -> None:
    assert Verdict("ok", operations=1, steps=1)
    assert not Verdict("unknown", operations=1, steps=1, reason="not looked at")
    assert not Verdict("violated", operations=1, steps=1, witness=Witness("lost", "gone", ()))


def test_a_verdict_says_what_it_is_about() -> None:
    assert str(Verdict("ok", 2, 3)) == "ok (2 operations, 3 steps)"
    assert str(Verdict("unknown", 2, 3, reason="why")) == "unknown (2 operations, 3 steps): why"
    violated = Verdict("violated", 2, 3, witness=Witness("lost", "it is gone", ()))
    assert str(violated).splitlines() == ["violated (2 operations, 3 steps)", "lost: it is gone"]
