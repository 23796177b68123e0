"""One check of a sweep: what it is, as plain data that travels to a worker, and what came of it.

A job never fails by itself: whatever goes wrong in it is its verdict, so one bad job spoils no sweep.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from motet.errors import MotetError

Kind: TypeAlias = Literal["seed", "mutant", "model", "history"]

GOOD = ("ok", "caught", "equivalent")
"""Verdicts that are as they should be."""


class Job(msgspec.Struct, frozen=True):
    """What is to be checked."""

    kind: Kind
    #: the part, the model, or the checker
    name: str
    seed: int = 0
    variant: str = ""
    settings: dict[str, str] = {}
    file: str = ""
    #: so long at most for an exploration, and so many steps for a history; 0 for the usual
    seconds: float = 0.0
    steps: int = 0

    @property
    def title(self) -> str:
        """As a report names it."""
        if self.kind == "seed":
            return f"simulate {self.name} --seed {self.seed}"
        if self.kind == "history":
            return f"history {self.file}"
        size = "".join(f" {key}={value}" for key, value in self.settings.items())
        variant = f" ({self.variant})" if self.variant else ""
        return f"{self.kind} {self.name}{variant}{size}"

    @property
    def command(self) -> str:
        """What does the same alone."""
        if self.kind == "seed":
            return f"motet simulate {self.name} --seed {self.seed}"
        if self.kind == "history":
            checker = f" --checker {self.name}" if self.name else ""
            return f"motet verify history {self.file}{checker}"
        variant = f" --variant {self.variant}" if self.variant else ""
        size = "".join(f" --set {key}={value}" for key, value in self.settings.items())
        return f"motet verify run {self.name}{variant}{size}"


class Done(msgspec.Struct, frozen=True):
    """What came of a job."""

    job: Job
    verdict: str
    detail: str
    cpu_seconds: float

    @property
    def is_good(self) -> bool:
        return self.verdict in GOOD


def run_job(job: Job) -> Done:
    """Do it here and now."""
    began = time.process_time()
    try:
        verdict, detail = _RUN[job.kind](job)
    except MotetError as error:
        verdict, detail = "error", str(error)
    except Exception as error:  # a broken checker is a finding, too
        verdict, detail = "error", f"{type(error).__name__}: {error}"
    return Done(job, verdict, detail, time.process_time() - began)


def _seed(job: Job) -> tuple[str, str]:
    from motet.sim.storm import simulate
    from motet.verify.storms import storm_named

    outcome = simulate(storm_named(job.name), job.seed)
    if outcome.violations:
        first = outcome.violations[0]
        return outcome.verdict, f"{first.invariant}: {first.what}"[:2_000]
    return outcome.verdict, f"{outcome.events:,} events"


def _mutant(job: Job) -> tuple[str, str]:
    from motet.verify.mutants import run_mutant

    mutant = run_mutant(job.name, job.variant, seconds=job.seconds or None)
    found = f"{mutant.property} in {mutant.trace_states} states" if mutant.property else "nothing"
    return mutant.fate, f"{found}; {mutant.distinct:,} states explored"


def _model(job: Job) -> tuple[str, str]:
    from motet.verify.explore import Budget, explore
    from motet.verify.models import model_named

    model = model_named(job.name, job.settings, variant=job.variant or None)
    result = explore(model, engine="auto", budget=Budget(seconds=job.seconds or None))
    counts = f"{result.distinct:,} states, depth {result.depth}, {result.generated:,} generated"
    if result.verdict == "violated":
        return "violated", f"{result.property} in {len(result.trace)} states; {counts}"
    return result.verdict, counts if result.reason is None else f"{result.reason}; {counts}"


def _history(job: Job) -> tuple[str, str]:
    from motet.verify.history.checkers import checker_named, read_history
    from motet.verify.history.record import budget_steps_default

    header, history = read_history(Path(job.file).read_bytes())
    checker = checker_named(job.name or header.checker or "")
    verdict = checker.check(history, header.initial, job.steps or budget_steps_default)
    if verdict.witness is not None:
        return "violated", f"{verdict.witness.fault}: {verdict.witness.sentence}"
    return verdict.status, verdict.reason or f"{verdict.operations:,} operations"


_RUN = {"seed": _seed, "mutant": _mutant, "model": _model, "history": _history}
