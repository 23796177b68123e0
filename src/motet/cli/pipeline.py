"""``motet pipeline``: run pipelines, see how they fare, and check what they have made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from motet.cli import command_app
from motet.cli.database import ENDPOINTS, DataOption, EndpointOption, open_database, open_place
from motet.cli.interrupt import on_interrupt
from motet.cli.output import OUTPUT_OPTION, Output, print_rows

if TYPE_CHECKING:
    from motet.client.sync import Database
    from motet.pipeline.batch import BatchReport
    from motet.pipeline.check import TableCheck
    from motet.pipeline.failure import Say

app = command_app()

FileArgument = Annotated[Path, typer.Argument(help="The Python file of the pipeline.")]
TablesOption = Annotated[
    str | None,
    typer.Option(
        help="Where its tables are, a folder or host:port, if not in the database with the streams."
    ),
]
NameOption = Annotated[
    str | None, typer.Option("--name", help="Its name; that of the file unless given.")
]


class Oldest(StrEnum):
    """Where a new pipeline can be told to begin."""

    OLDEST = "oldest"


AfterOption = Annotated[
    Oldest | None,
    typer.Option(
        help="Where a pipeline begins that has published nothing: with oldest where all of its streams "
        "are kept, else at their beginning."
    ),
]


@contextmanager
def open_both(
    data: Path | None, endpoint: str | None, tables: str | None, *, create: bool = False
) -> Iterator[tuple[Database, Database | None]]:
    """The database with the tables, and the one with the feed if that is another one."""
    with open_database(data, endpoint) as feed:
        if tables is None:
            yield feed, None
            return
        with open_place(tables, create=create) as db:
            yield db, feed


@app.callback()
def pipeline() -> None:
    """Run pipelines on Spark, see how they fare, and check what they have made."""


@app.command()
def run(
    file: FileArgument,
    once: Annotated[
        bool,
        typer.Option(
            "--once/--continuous", help="End when it has caught up, or follow the feed until ^C."
        ),
    ] = False,
    name: NameOption = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="Folder for Spark's notes; DATA/pipelines/NAME/checkpoint unless given, and in "
            "the user's cache for an endpoint. It may be removed: what is published is known."
        ),
    ] = None,
    max_changes: Annotated[
        int, typer.Option("--max-changes", min=1, help="At most so many changes in one step.")
    ] = 100_000,
    after: AfterOption = None,
    tables: TablesOption = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Run a pipeline: its tables follow the feed, all of them published together.

    SIGTERM lets the batch that has begun finish. ^C does so for a second, and then gives it up.

    Example: motet pipeline run shop.py --once --data data/
    """
    from motet.pipeline.definition import load_pipeline
    from motet.pipeline.session import need_libraries

    need_libraries()
    from motet.pipeline.run import run_pipeline

    loaded = load_pipeline(file, name)
    progress = _Progress(loaded.name, output)
    on_interrupt(progress.given_up, 0)
    with open_both(data, endpoint, tables, create=True) as (db, feed):
        done = run_pipeline(
            db,
            loaded,
            feed=feed,
            once=once,
            checkpoint=checkpoint or _notes_folder(db, loaded.name, data, tables),
            changes_max=max_changes,
            report=progress.published,
            say=progress.say,
            after=None if after is None else "oldest",
        )
    if output is Output.TABLE:
        steps = _counted(done.steps)
        typer.echo(f"{done.pipeline}: {steps} published, tables reflect {done.clock or 'nothing'}")


@app.command()
def status(
    name: Annotated[
        str | None, typer.Argument(help="Name of the pipeline; all if left out.")
    ] = None,
    tables: TablesOption = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Show how far pipelines are, what they have published, and their last error.

    Example: motet pipeline status shop --data data/
    """
    from motet.pipeline.status import pipeline_status

    never = "never" if output is Output.TABLE else None
    with open_both(data, endpoint, tables) as (db, feed):
        rows = [
            asdict(one)
            | {
                "clock": None if one.clock is None else str(one.clock),
                "lag_ms": never if one.clock is None else one.lag_ms,
                "published": never if one.published is None else one.published.isoformat(),
                "error": one.error or None,
            }
            for one in pipeline_status(db, name, feed)
        ]
    print_rows(rows, output)


@app.command()
def check(
    file: FileArgument,
    name: NameOption = None,
    tables: TablesOption = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Recompute each table by a batch job at the clock it reflects, and compare.

    Ends with 1 if a table differs, and shows some of the rows that do.

    Example: motet pipeline check shop.py --data data/
    """
    from motet.pipeline.definition import load_pipeline
    from motet.pipeline.session import need_libraries

    need_libraries()
    from motet.pipeline.check import check_pipeline

    loaded = load_pipeline(file, name)
    with open_both(data, endpoint, tables) as (db, feed):
        checks = check_pipeline(db, loaded, feed=feed, say=_say_of(output))
    print_rows([_check_row(one, output) for one in checks], output)
    if any(not one.difference.is_none for one in checks):
        if output is Output.TABLE:
            _print_examples(checks)
        raise typer.Exit(1)


@app.command()
def remove(
    name: Annotated[str, typer.Argument(help="Name of the pipeline.")],
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Folder for Spark's notes, if it was given when the pipeline ran."),
    ] = None,
    tables: TablesOption = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Remove a pipeline that is not to run again: its cursor, which holds pruning back, and its checkpoint.

    Its tables stay. A pipeline that runs is not removed: stop it first.

    Example: motet pipeline remove shop --data data/
    """
    from motet.pipeline.status import remove_pipeline

    with open_both(data, endpoint, tables) as (db, feed):
        folder = checkpoint or _notes_folder(db, name, data, tables)
        done = remove_pipeline(db, name, feed=feed, checkpoint=folder)
    row: dict[str, object] = {
        "pipeline": done.pipeline,
        "cursor": done.cursor,
        "streams": done.streams,
        "clock": None if done.clock is None else str(done.clock),
        "checkpoint": None if done.checkpoint is None else str(done.checkpoint),
        "tables": done.tables,
    }
    print_rows([row], output)


def _notes_folder(db: Database, name: str, data: Path | None, tables: str | None) -> Path:
    """Where Spark's notes are unless told otherwise: with the tables, if these are in a folder."""
    from motet.pipeline.checkpoint import default_folder

    folder = data if tables is None else None if ENDPOINTS.fullmatch(tables) else Path(tables)
    return default_folder(folder, db.database_id, name)


def _check_row(one: TableCheck, output: Output) -> dict[str, object]:
    row: dict[str, object] = {
        "table": one.table,
        "clock": str(one.clock),
        "rows": one.rows,
        "missing": one.difference.missing,
        "extra": one.difference.extra,
        "equal": one.difference.is_none,
    }
    if output is Output.JSON:
        row["slices"] = one.slices
        row["examples"] = [{"kind": kind, "row": text} for kind, text in one.difference.examples]
    return row


def _print_examples(checks: list[TableCheck]) -> None:
    for one in checks:
        for kind, text in one.difference.examples:
            typer.echo(f"{one.table}: {kind} {text}", err=True)


class _Progress:
    """What a run says and prints, and how far it has come."""

    def __init__(self, name: str, output: Output) -> None:
        self._name = name
        self._print = _print_json_batch if output is Output.JSON else _print_batch
        self.say = _say_of(output)
        self._steps = 0
        self._clock = "what they did before"

    def published(self, batch: BatchReport) -> None:
        self._steps += 1
        self._clock = str(batch.clock)
        self._print(batch)

    def given_up(self) -> str:
        """For ^C within a batch that takes too long to be waited for."""
        return (
            f"{self._name}: interrupted, {_counted(self._steps)} published; a batch that had begun is not, "
            f"tables reflect {self._clock}"
        )


def _say_of(output: Output) -> Say:
    """Lines for people go to stderr; a program that reads JSON gets none."""
    from motet.pipeline.failure import silent

    return silent if output is Output.JSON else _say


def _say(line: str) -> None:
    typer.echo(line, err=True)


def _counted(steps: int) -> str:
    return f"{steps} step{'' if steps == 1 else 's'}"


def _print_batch(batch: BatchReport) -> None:
    typer.echo(
        f"batch {batch.batch} published up to {batch.clock}: {batch.changes} changes -> "
        f"{batch.rows} rows in {batch.seconds:.2f} s, "
        f"{batch.changes_after} changes and {batch.lag_ms} ms behind"
    )


def _print_json_batch(batch: BatchReport) -> None:
    line = asdict(batch) | {"clock": str(batch.clock), "seconds": round(batch.seconds, 3)}
    typer.echo(msgspec.json.encode(line).decode())
