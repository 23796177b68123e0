"""Mutants are caught, equivalent, not known, or a surprise."""

from __future__ import annotations

import pytest

from motet.errors import BadInput
from motet.verify import mutants
from motet.verify.model import Variant
from motet.verify.models import variant_of
from motet.verify.mutants import run_mutants


def test_the_mutants_of_a_model_are_caught_or_equivalent() -> None:
    found = {mutant.variant: mutant for mutant in run_mutants("zero-copy")}
    assert found["send-then-delete"].fate == "caught"
    assert found["send-then-delete"].property == "PartHasItsData"
    assert found["send-then-delete"].trace_states == 10
    assert found["optimistic"].fate == "equivalent"
    assert {mutant.model for mutant in found.values()} == {"zero-copy"}


def test_a_mutant_that_runs_out_of_time_is_not_known() -> None:
    assert [mutant.fate for mutant in run_mutants("quorum-repaired", seconds=0)] == ["unknown"]


def test_a_mutant_that_is_caught_by_another_property_is_a_surprise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = variant_of("log-trimming", "forget-lost")

    def odd() -> list[tuple[str, str, Variant]]:
        wrong, harmless = real._replace(breaks="IsLogCleared"), real._replace(breaks=None)
        return [("log-trimming", "wrong", wrong), ("log-trimming", "harmless", harmless)]

    monkeypatch.setattr(mutants, "every_variant", odd)
    assert [mutant.fate for mutant in run_mutants()] == ["surprise", "surprise"]


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(BadInput, match="no model 'hope'"):
        list(run_mutants("hope"))
