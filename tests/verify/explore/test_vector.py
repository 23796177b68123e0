"""The vectorised engine: the counts of the readable one, and kernels that nobody has to trust."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from motet.errors import BadInput, KernelDisagrees, MissingLibrary
from motet.verify.explore import Budget, Exploration, explore
from motet.verify.models import model_named
from motet.verify.models.quorum import Quorum

from . import toys


def counts(result: Exploration) -> tuple[str, int, int, int]:
    return result.verdict, result.distinct, result.depth, result.generated


@pytest.mark.parametrize("symmetry", [False, True])
@pytest.mark.parametrize(
    "size",
    [
        {"replicas": 3, "quorum": 2, "records": 2, "reads": 1},
        {"replicas": 4, "quorum": 3, "records": 1, "reads": 1},
        {"replicas": 2, "quorum": 1, "records": 3, "reads": 2},
    ],
)
def test_both_engines_say_the_same(size: dict[str, int], symmetry: bool) -> None:
    model = model_named("quorum", size)
    one = explore(model, engine="readable", symmetry=symmetry)
    other = explore(model, engine="vectorised", symmetry=symmetry)
    assert counts(one) == counts(other)
    assert one.coverage == other.coverage


def test_larger_counts_are_those_of_tlc() -> None:
    result = explore(model_named("quorum", {"records": 3, "reads": 2}), engine="vectorised")
    assert counts(result) == ("ok", 245_232, 24, 1_143_325)
    folded = explore(
        model_named("quorum", {"records": 3, "reads": 2}), engine="vectorised", symmetry=True
    )
    assert (folded.verdict, folded.distinct, folded.depth) == ("ok", 43_602, 24)


@pytest.mark.parametrize("symmetry", [False, True])
@pytest.mark.parametrize(("name", "states"), [("MonotonicRead", 9), ("NoStaleRead", 8)])
def test_a_counterexample_is_as_short_and_made_of_readable_steps(
    name: str, states: int, symmetry: bool
) -> None:
    model = model_named("quorum-stale", {})
    result = explore(model, engine="vectorised", properties=[name], symmetry=symmetry)
    assert (result.verdict, result.property, len(result.trace)) == ("violated", name, states)
    assert result.trace[-1].action.startswith("QuorumReadWithoutLin")


def test_a_budget_ends_in_unknown() -> None:
    result = explore(model_named("quorum", {}), engine="vectorised", budget=Budget(states=100))
    assert result.verdict == "unknown"


def test_a_kernel_that_disagrees_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from motet.verify.models.quorum_kernels import QuorumKernels

    honest = QuorumKernels._end_quorum

    def early(self: Any, word: Any, history: Any, r: int) -> Any:
        self.least = 1
        return honest(self, word, history, r)

    monkeypatch.setattr(QuorumKernels, "_end_quorum", early)
    with pytest.raises(KernelDisagrees, match=r"disagree about EndQuorum.*in the state"):
        explore(model_named("quorum", {}), engine="vectorised")


def test_an_invariant_that_disagrees_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from motet.verify.models.quorum_kernels import QuorumKernels

    monkeypatch.setattr(QuorumKernels, "_quorum_select", lambda self, columns: columns[0] > 0)
    with pytest.raises(KernelDisagrees, match="QuorumSelect"):
        explore(model_named("quorum", {}), engine="vectorised")


def test_what_has_no_kernels_is_explored_readably_or_refused() -> None:
    assert explore(toys.Bounded(), engine="auto").engine == "readable"
    with pytest.raises(BadInput, match="offers no kernels"):
        explore(toys.Bounded(), engine="vectorised")
    with pytest.raises(BadInput, match="does not fit"):
        explore(Quorum(replicas=5), engine="vectorised")
    with pytest.raises(BadInput, match="no engine 'steam'"):
        explore(toys.Bounded(), engine="steam")
    variant = model_named("quorum", {}, variant="acknowledge-early")
    assert explore(variant, engine="auto").engine == "readable"


def test_without_numpy_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    size = {"replicas": 2, "records": 1, "reads": 1}
    assert explore(model_named("quorum", size), engine="auto").engine == "readable"
    with pytest.raises(MissingLibrary, match="needs numpy"):
        explore(model_named("quorum", size), engine="vectorised")
