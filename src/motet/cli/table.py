"""``motet table`` and ``motet sql``: create tables, fill them from files, look at their rows and parts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from motet.cli import command_app
from motet.cli.database import DataOption, EndpointOption, open_database
from motet.cli.output import OUTPUT_OPTION, Output, parse_duration, print_rows
from motet.errors import BadInput

if TYPE_CHECKING:
    from motet.core.tables.messages import TableInfo


app = command_app()

NameArgument = Annotated[str, typer.Argument(help="Name of the table.")]


@app.callback()
def table() -> None:
    """Create and list tables, insert files, show rows and parts."""


@app.command()
def create(
    name: NameArgument,
    schema: Annotated[str, typer.Option(help="Columns, as `sku string not null, qty int`.")],
    order_by: Annotated[str, typer.Option(help="Columns of the key, comma separated.")],
    engine: Annotated[str, typer.Option(help="merge or replacing.")] = "merge",
    version: Annotated[str | None, typer.Option(help="replacing: the column that decides.")] = None,
    tombstone: Annotated[str | None, typer.Option(help="replacing: says a row is gone.")] = None,
    shards: Annotated[int, typer.Option(help="How many shards.")] = 1,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Create a table; the same once more is fine.

    Example: motet table create sales --schema "sku string, qty int" --order-by sku --data data/
    """
    from motet.client.rows import need_pyarrow

    need_pyarrow("a table")
    from motet.cli.schema_text import parse_schema

    columns = parse_schema(schema)
    with open_database(data, endpoint, create=True) as db:
        db.create_table(
            name,
            columns,
            [column.strip() for column in order_by.split(",")],
            shards=shards,
            engine=cast("Literal['merge', 'replacing']", engine),
            version=version,
            tombstone=tombstone,
        )
        print_rows([_described(info) for info in db.tables() if info.spec.name == name], output)


@app.command("list")
def list_tables(
    data: DataOption = None, endpoint: EndpointOption = None, output: Output = OUTPUT_OPTION
) -> None:
    """List all tables with their size.

    Example: motet table list --data data/
    """
    with open_database(data, endpoint) as db:
        print_rows([_described(info) for info in db.tables()], output)


@app.command()
def insert(
    name: NameArgument,
    file: Annotated[Path, typer.Argument(help="A Parquet, CSV or JSON-lines file.")],
    token: Annotated[str | None, typer.Option(help="A repeated one is inserted once.")] = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Insert the rows of a file, all of them or none.

    Example: motet table insert sales rows.parquet --token batch-17 --data data/
    """
    from motet.client.rows import need_pyarrow

    need_pyarrow("a table")
    rows = _read_file(file)
    with open_database(data, endpoint) as db:
        done = db.table(name).insert(rows, token=token)
        row = {
            "rows": done.rows,
            "parts": [str(part) for part in done.parts],
            "clock": str(done.clock),
            "duplicate": done.duplicate,
        }
        print_rows([row], output)


@app.command()
def show(
    name: NameArgument,
    columns: Annotated[str | None, typer.Option(help="Only these, comma separated.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many rows.")] = 100,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Show the rows of a table; of one that replaces, the latest of each key.

    Example: motet table show stock_now --limit 20 --data data/
    """
    wanted = None if columns is None else [column.strip() for column in columns.split(",")]
    with open_database(data, endpoint) as db:
        print_rows(db.table(name).select(wanted).slice(0, limit).to_pylist(), output)


@app.command()
def parts(
    name: NameArgument,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """List the parts of a table, oldest first.

    Example: motet table parts sales --data data/
    """
    with open_database(data, endpoint) as db:
        rows = [
            {
                "part": str(visible.part.name),
                "id": visible.part.staged.id,
                "shard": visible.part.staged.shard,
                "rows": visible.part.staged.rows,
                "bytes": visible.part.staged.size_bytes,
                "clock": str(visible.clock),
                "writer": None if visible.step is None else visible.step.writer,
                "epoch": None if visible.step is None else visible.step.epoch,
            }
            for visible in db.table(name).snapshot().parts
        ]
        print_rows(rows, output)


def _described(info: TableInfo) -> dict[str, object]:
    spec = info.spec
    return {
        "table": spec.name,
        "engine": spec.engine,
        "order_by": spec.order_by,
        "version": spec.version,
        "shards": spec.shards,
        "parts": info.parts,
        "rows": info.rows,
        "bytes": info.size_bytes,
    }


def _read_file(file: Path) -> Any:
    import pyarrow as pa
    from pyarrow import csv, json, parquet

    readers = {
        ".parquet": parquet.read_table,
        ".csv": csv.read_csv,
        ".jsonl": json.read_json,
        ".ndjson": json.read_json,
    }
    reader = readers.get(file.suffix)
    if reader is None:
        raise BadInput(f"{file} is not one of {', '.join(readers)}", hint="convert it first")
    try:
        return reader(file)
    except FileNotFoundError:
        raise BadInput(f"there is no file {file}") from None
    except (pa.ArrowException, OSError) as error:
        raise BadInput(f"{file} cannot be read: {error}") from None


sql_app = command_app()


@sql_app.command()
def sql(
    query: Annotated[str, typer.Argument(help="One statement, in DuckDB's SQL.")],
    consistency: Annotated[str, typer.Option(help="sequential or eventual.")] = "sequential",
    at: Annotated[str | None, typer.Option(help="At this clock, as (logical,counter).")] = None,
    timeout: Annotated[
        str | None, typer.Option(help="Stop it after 90s, 30m or 2h; after 1h if left out.")
    ] = None,
    memory_bytes: Annotated[
        int | None, typer.Option(help="Memory it may use; half of the machine's if left out.")
    ] = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Ask the tables in SQL, and the system's own.

    These are system.tables, parts, streams, writers, shards, nodes, clock, changes,
    transaction_commit_clock and incomplete_transactions; cluster_clock() and visible_clock() are functions.

    Example: motet sql "select sku, sum(qty) from sales group by sku" --data data/
    """
    from motet.client.tables import Consistency
    from motet.core.clock.hlc import Clock

    clock = None if at is None else Clock.parse(at)
    seconds = None if timeout is None else parse_duration(timeout).total_seconds()
    with open_database(data, endpoint) as db:
        found = db.sql(
            query,
            consistency=cast("Consistency", consistency),
            at=clock,
            timeout=seconds,
            memory_bytes=memory_bytes,
        )
        rows = [{name: _shown(value) for name, value in row.items()} for row in found.to_pylist()]
        print_rows(rows, output)


def _shown(value: object) -> object:
    """A value as the other commands print it: keys as text, clocks in brackets."""
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, dict):
        if value.keys() == {"logical", "counter"}:
            return f"({value['logical']},{value['counter']})"
        return {name: _shown(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_shown(each) for each in value]
    return value
