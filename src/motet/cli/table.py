"""``motet table`` and ``motet sql``: create tables, fill them from files, look at what is in them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer
from msgspec.structs import asdict

from motet.cli import command_app
from motet.cli.database import DataOption, EndpointOption, open_database
from motet.cli.output import OUTPUT_OPTION, Output, parse_duration, print_rows
from motet.errors import BadInput, NoSuchTable

if TYPE_CHECKING:
    from motet.client.publication import TableInfo
    from motet.client.sync import Database
    from motet.client.table_reading import Consistency


app = command_app()

NameArgument = Annotated[str, typer.Argument(help="Name of the table.")]
AtOption = Annotated[
    str | None, typer.Option(help="At this version, as 500@a1b2; now if left out.")
]
ConsistencyOption = Annotated[str, typer.Option(help="sequential or eventual.")]


@app.callback()
def table() -> None:
    """Create, list, rename and drop tables, insert files, show rows, parts and replicas."""


@app.command()
def create(
    name: NameArgument,
    schema: Annotated[str, typer.Option(help="Columns, as `sku string not null, qty int`.")],
    order_by: Annotated[str, typer.Option(help="Columns of the key, comma separated.")],
    partition_by: Annotated[
        str | None, typer.Option(help="A column, day(column), month(…), year(…) or bucket(n, …).")
    ] = None,
    shards: Annotated[int, typer.Option(help="How many shards.")] = 1,
    replicas: Annotated[
        int | None, typer.Option(help="Of each shard; three, or one per data node, if left out.")
    ] = None,
    shard_by: Annotated[
        str | None, typer.Option(help="Columns that place a row; the first of the key if left out.")
    ] = None,
    engine: Annotated[str, typer.Option(help="merge or replacing.")] = "merge",
    version: Annotated[str | None, typer.Option(help="replacing: the column that decides.")] = None,
    tombstone: Annotated[str | None, typer.Option(help="replacing: says a row is gone.")] = None,
    dedup: Annotated[
        str | None, typer.Option(help="content: equal blocks are inserted once.")
    ] = None,
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
            _columns(order_by),
            partition_by=partition_by,
            shards=shards,
            replicas=replicas,
            shard_by=None if shard_by is None else _columns(shard_by),
            engine=cast("Literal['merge', 'replacing']", engine),
            version=version,
            tombstone=tombstone,
            dedup=dedup,
        )
        print_rows([_described(_info(db, name))], output)


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
def describe(
    name: NameArgument,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Show the replicas of a table, and how far they are.

    Example: motet table describe sales --endpoint 127.0.0.1:7400
    """
    with open_database(data, endpoint) as db:
        _info(db, name)
        print_rows(db.sql(_REPLICAS, [name]).to_pylist(), output)


_REPLICAS = """
select shard, node, phase, why, log_pointer, head, queue, parts, bytes
from system.replicas where "table" = ? order by shard, node
"""


@app.command()
def drop(
    name: NameArgument,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Drop a table with all its rows.

    Example: motet table drop sales --data data/
    """
    with open_database(data, endpoint) as db:
        db.drop_table(name)
    print_rows([{"table": name, "done": "dropped"}], output)


@app.command()
def rename(
    name: NameArgument,
    new_name: Annotated[str, typer.Argument(help="What it is to be called.")],
    data: DataOption = None,
    endpoint: EndpointOption = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Give a table another name.

    Example: motet table rename sales sales_2025 --data data/
    """
    with open_database(data, endpoint) as db:
        db.rename_table(name, new_name)
    print_rows([{"table": new_name, "former_name": name}], output)


@app.command("set")
def set_(
    name: NameArgument,
    settings: Annotated[
        list[str], typer.Argument(help="As `dedup_window=3`; `dedup_window=default` takes it back.")
    ],
    data: DataOption = None,
    endpoint: EndpointOption = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Change settings of a table, while it is in use.

    Example: motet table set sales dedup_window=5000 --data data/
    """
    changes = dict(map(_setting, settings))
    with open_database(data, endpoint) as db:
        db.set_table(name, **changes)
        print_rows([{"table": name, **asdict(_info(db, name).settings)}], output)


@app.command()
def sync(
    name: NameArgument,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Wait until all active replicas of a table have everything that is visible now.

    Example: motet table sync sales --endpoint 127.0.0.1:7400
    """
    with open_database(data, endpoint) as db:
        version = db.table(name).sync()
    print_rows([{"table": name, "version": str(version)}], output)


@app.command()
def insert(
    name: NameArgument,
    file: Annotated[Path, typer.Argument(help="A Parquet, CSV or JSON-lines file.")],
    token: Annotated[str | None, typer.Option(help="A repeated one is inserted once.")] = None,
    quorum: Annotated[str, typer.Option(help="majority, or how many replicas.")] = "majority",
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
    wanted: int | str = int(quorum) if quorum.isdecimal() else quorum
    with open_database(data, endpoint) as db:
        done = db.table(name).insert(rows, quorum=wanted, token=token)
        row = {
            "rows": done.rows,
            "parts": list(done.parts),
            "version": str(done.version),
            "duplicate": done.duplicate,
        }
        print_rows([row], output)


@app.command()
def select(
    name: NameArgument,
    columns: Annotated[str | None, typer.Option(help="Only these, comma separated.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many rows.")] = 100,
    consistency: ConsistencyOption = "sequential",
    at: AtOption = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Show the rows of a table; of one that replaces, the latest of each key.

    Example: motet table select stock_now --limit 20 --data data/
    """
    wanted = None if columns is None else _columns(columns)
    with open_database(data, endpoint) as db:
        found = db.table(name).select(wanted, at, cast("Consistency", consistency))
        print_rows([_row(row) for row in found.slice(0, limit).to_pylist()], output)


@app.command()
def parts(
    name: NameArgument,
    at: AtOption = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """List the parts of a table, of each shard and partition oldest first.

    Example: motet table parts sales --data data/
    """
    with open_database(data, endpoint) as db:
        snapshot = db.table(name).snapshot(at)
        rows = [
            {
                "part": part.name,
                "id": part.id,
                "shard": part.shard,
                "partition": part.partition,
                "rows": part.rows,
                "bytes": part.size_bytes,
                "version": str(snapshot.version),
            }
            for part in snapshot.parts
        ]
        print_rows(rows, output)


def _setting(text: str) -> tuple[str, int | None]:
    name, is_one, value = text.partition("=")
    if not is_one or not (value.isdecimal() or value == "default"):
        raise BadInput(f"{text!r} is no setting", hint="write it as name=number, or name=default")
    return name, None if value == "default" else int(value)


def _columns(text: str) -> list[str]:
    return [column.strip() for column in text.split(",")]


def _info(db: Database, name: str) -> TableInfo:
    for info in db.tables():
        if info.name == name:
            return info
    raise NoSuchTable(f"there is no table {name!r}")


def _described(info: TableInfo) -> dict[str, object]:
    definition = info.definition
    return {
        "table": info.name,
        "engine": definition.engine,
        "order_by": definition.order_by,
        "partition_by": definition.partition_by,
        "version": definition.version,
        "shards": definition.shards,
        "replicas": info.replicas,
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
    consistency: ConsistencyOption = "sequential",
    at: Annotated[
        str | None,
        typer.Option(help="At this version, as 500@a1b2; the feed at a clock, (logical,counter)."),
    ] = None,
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

    These are system.tables, parts, replicas, replication_queue, log, quorum, writers, streams, shards, nodes,
    clock, changes, transaction_commit_clock and incomplete_transactions; cluster_clock() and visible_clock()
    are functions.

    Example: motet sql "select sku, sum(qty) from sales group by sku" --data data/
    """
    from motet.core.clock.hlc import Clock

    moment = Clock.parse(at) if at is not None and at.startswith("(") else at
    seconds = None if timeout is None else parse_duration(timeout).total_seconds()
    with open_database(data, endpoint) as db:
        found = db.sql(
            query,
            consistency=cast("Consistency", consistency),
            at=moment,
            timeout=seconds,
            memory_bytes=memory_bytes,
        )
        print_rows([_row(row) for row in found.to_pylist()], output)


def _row(row: dict[str, object]) -> dict[str, object]:
    return {name: _shown(value) for name, value in row.items()}


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
