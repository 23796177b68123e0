"""The demo as the command line calls it: a folder for the run, the chart, the report; nothing left behind."""

from __future__ import annotations

import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import NoReturn

from motet.demos import Report, Tell, report_lines
from motet.demos.shop.chart import Axis, Sample, draw, glyphs_for
from motet.demos.shop.report import Acknowledged, Folded, Proof, acknowledged, prove
from motet.demos.shop.story import Story, run
from motet.demos.shop.watch import Progress
from motet.errors import MissingLibrary
from motet.testing.reaper import Reaper

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def show(tell: Tell, *, keep: bool, spark: bool) -> Report:
    """Run the shop, draw it, and report; everything that it needs is looked for first."""
    environment = need_spark() if spark else None
    began = time.monotonic()
    progress = Progress()
    with ended_by_signals(), folder_for_run(tell, keep=keep) as folder:
        story = run(folder, progress, environment)
        known = acknowledged(story.journals)
        proof = prove(known, story.folded, story.tables)
    tell("")
    for line in draw_story(story, sys.stdout.encoding):
        tell(f"  {line}")
    report = report_of(story, known, proof, round(time.monotonic() - began, 2), progress.seconds)
    tell("")
    for line in report_lines(report):
        tell(line)
    return report


def need_spark() -> dict[str, str]:
    """What Spark looks for in its environment; ``MissingLibrary`` says how to do without."""
    from motet.pipeline.session import spark_environment

    try:
        return spark_environment()
    except MissingLibrary as error:
        hint = f"{error.advice}; or see it without Spark: motet demo --no-spark"
        raise MissingLibrary(error.what, hint=hint) from None


@contextmanager
def folder_for_run(tell: Tell, *, keep: bool) -> Iterator[Path]:
    """A temporary folder, removed at the end whatever happens, unless it is to be kept."""
    folder = Path(tempfile.mkdtemp(prefix="motet-shop-"))
    reaper = Reaper()
    if not keep:
        reaper.remove_at_end(folder)  # also when this process is killed
    try:
        yield folder
    finally:
        if keep:
            tell(f"\nkept in {folder}: data/ or cluster/; journals and logs lie beside it")
        reaper.close()


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """^C and SIGTERM end the block like an error, once: what is then put in order is not disturbed."""

    def end(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001
        for each in SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, end) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def draw_story(story: Story, encoding: str | None) -> list[str]:
    """The chart of a run."""
    folded = story.folded
    sales = [(at.timestamp() * 1000, float(cents)) for at, cents in folded.sales_history]
    stock: dict[str, list[tuple[float, float]]] = {}
    for at, sku, left in folded.stock_history:
        stock.setdefault(sku, []).append((at.timestamp() * 1000, float(left)))
    moments = [at for levels in stock.values() for at, _ in levels]
    moments += [sample.at for sample in story.samples]
    axis = Axis(min(moments), max(moments))
    return draw(axis, sales, stock, story.samples, story.kills, glyphs_for(encoding))


def report_of(
    story: Story, known: Acknowledged, proof: Proof, seconds: float, phases: dict[str, float]
) -> Report:
    """The report: what has to be zero first, then what happened."""
    folded, tables = story.folded, story.tables
    return {
        **asdict(proof),
        "changes": folded.changes,
        "transactions": len(folded.transactions),
        "orders": len(folded.orders),
        "refused": known.refused,
        "conflicts": known.conflicts,
        "unknown_outcomes": known.unknown,
        "found_again_after_kill": known.found_again,
        "undecided": known.undecided,
        "spark_batches": 0 if tables is None else tables.batches,
        "lag_ms_max": lag_ms_max(story.samples, folded),
        "kills": len(story.kills),
        "table_replicas": 0 if tables is None else len(tables.replicas),
        "transactions_per_second": round(len(folded.transactions) / story.selling_seconds, 1),
        "seconds": seconds,
        "seconds_by_phase": phases,
        "ok": proof.is_ok,
    }


def lag_ms_max(samples: list[Sample], folded: Folded) -> int | None:
    """How far the tables were behind the feed at most, from their first step to the last change."""
    end = folded.last[0].logical if folded.last is not None else 0
    lags = [
        sample.feed - sample.tables for sample in samples if sample.tables and sample.feed <= end
    ]
    return int(max(lags)) if lags else None
