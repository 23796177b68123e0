"""``motet stream``: streams of a database, their entries, and raw appends."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from motet.cli import command_app
from motet.cli.database import ClusterOption, DataOption, EndpointOption, ask_cluster, open_database
from motet.cli.output import OUTPUT_OPTION, Output, print_rows

if TYPE_CHECKING:
    from motet import Database
    from motet.client.change import Entry

app = command_app()

NameArgument = Annotated[str, typer.Argument(help="Name of the stream.")]


@app.callback()
def stream() -> None:
    """Create, list, describe and delete streams, change rows, append raw entries, read or follow a shard."""


@app.command()
def create(
    name: NameArgument,
    shards: Annotated[int, typer.Option(help="How many shards.")] = 4,
    replicas: Annotated[
        int | None, typer.Option(help="Copies of each shard; else 3, or one per node if fewer.")
    ] = None,
    schema: Annotated[
        str | None, typer.Option(help='Columns of its rows, "sku string, qty int"; else JSON.')
    ] = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Create a stream; the same once more is fine.

    Example: motet stream create orders --shards 4 --data data/
    """
    columns = None if schema is None else _schema(schema)
    with open_database(data, endpoint, create=True) as db:
        db.create_stream(name, schema=columns, shards=shards, replicas=replicas)
        print_rows([{"stream": name, "shards": shards, "typed": schema is not None}], output)


@app.command("list")
def list_streams(
    data: DataOption = None, endpoint: EndpointOption = None, output: Output = OUTPUT_OPTION
) -> None:
    """List all streams with their shards and entries.

    Example: motet stream list --data data/
    """
    with open_database(data, endpoint) as db:
        rows = [
            {
                "stream": info.name,
                "shards": info.shards,
                "typed": info.schema is not None,
                # Not known while a shard has no leader.
                "entries": sum(info.entries) if info.entries else None,
                "created": str(info.created) if info.entries else None,
            }
            for info in db.streams()
        ]
        print_rows(rows, output)


@app.command()
def change(
    name: NameArgument,
    key: Annotated[str, typer.Argument(help="Key of the row.")],
    op: Annotated[str, typer.Argument(help="insert, update or delete.")],
    row: Annotated[str | None, typer.Argument(help="The row as JSON; none for a delete.")] = None,
    before: Annotated[str | None, typer.Option(help="The row before, as JSON.")] = None,
    also: Annotated[
        list[str] | None,
        typer.Option(
            help='A further change of the same transaction, as JSON: {"stream": …, "key": …, '
            '"op": …, "row": …, "before": …}; may be given again.'
        ),
    ] = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Insert, update or delete keys in one transaction, whole or not at all.

    Example: motet stream change stock s-9 update '{"left": 7}' --data data/
    """
    from motet.cli.output import change_of, clock_text, further_change

    wanted = [change_of(name, key, op, row, before), *map(further_change, also or [])]
    with open_database(data, endpoint) as db:
        with db.transaction() as txn:
            for each in wanted:
                txn.change(*each)
        print_rows([{"transaction": txn.id, "clock": clock_text(txn.clock)}], output)


@app.command()
def append(
    name: NameArgument,
    key: Annotated[str, typer.Argument(help="Key of the entry.")],
    value: Annotated[str, typer.Argument(help="Its value, as text.")],
    token: Annotated[
        str | None, typer.Option(help="PRODUCER:NUMBER; a repeated one is appended once.")
    ] = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Append a raw entry, durably.

    Example: motet stream append orders o-1 hello --data data/
    """
    named = None if token is None else _token(token)
    with open_database(data, endpoint) as db:
        # The bytes that were typed, whatever the locale takes them for.
        position = db.stream(name).append(os.fsencode(key), os.fsencode(value), token=named)
        row = {
            "shard": position.shard,
            "epoch": position.epoch,
            "offset": position.offset,
            "clock": str(position.clock),
            "duplicate": position.duplicate,
        }
        print_rows([row], output)


@app.command()
def read(
    name: NameArgument,
    shard: Annotated[int | None, typer.Option(help="Which shard; else all.")] = None,
    after: Annotated[int, typer.Option(help="After this offset; -1 for the beginning.")] = -1,
    limit: Annotated[int, typer.Option(help="At most so many entries of a shard.")] = 100,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Read the entries of a shard in order, or of all shards, one after the other.

    Across shards `motet feed page` has the order in which things happened.

    Example: motet stream read orders --shard 2 --data data/
    """
    with open_database(data, endpoint) as db:
        shards = [shard] if shard is not None else range(_shards_of(db, name))
        rows = [
            {"shard": each, **_row(entry)}
            for each in shards
            for entry in db.stream(name).read(shard=each, after=after, limit=limit)
        ]
        print_rows(rows, output)


@app.command()
def tail(
    name: NameArgument,
    shard: Annotated[int, typer.Option(help="Which shard.")] = 0,
    after: Annotated[int, typer.Option(help="After this offset; -1 for the beginning.")] = -1,
    stop_after: Annotated[
        int | None, typer.Option(help="End after so many; else follow for ever.")
    ] = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Follow the entries of one shard, a line each (JSON: an object a line), until ^C.

    Example: motet stream tail orders --shard 2 --endpoint 127.0.0.1:7400
    """
    import msgspec

    with open_database(data, endpoint) as db:
        for entry in db.stream(name).tail(shard=shard, after=after, stop_after=stop_after):
            row = _row(entry)
            if output is Output.JSON:
                typer.echo(msgspec.json.encode(row).decode())
            else:
                typer.echo("  ".join(str(value) for value in row.values()))


@app.command()
def describe(
    name: NameArgument,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Show the shards of a stream: how many entries, and in a cluster its leader and ensemble.

    Example: motet stream describe orders --endpoint 127.0.0.1:7400
    """
    with open_database(data, endpoint) as db:
        print_rows(db.stream(name).stats(), output)


@app.command()
def delete(
    name: NameArgument, endpoint: ClusterOption = None, output: Output = OUTPUT_OPTION
) -> None:
    """Delete a stream of a cluster, with all its data.

    Example: motet stream delete orders --endpoint 127.0.0.1:7400
    """
    ask_cluster(endpoint, lambda db: db.delete_stream(name))
    print_rows([{"stream": name, "deleted": True}], output)


def _row(entry: Entry) -> dict[str, object]:
    from motet.cli.output import clock_text

    return {
        "offset": entry.offset,
        "clock": clock_text(entry.clock),
        "op": entry.op,
        "key": entry.key.decode(errors="backslashreplace"),
        "value": (entry.value or b"").decode(errors="backslashreplace"),
    }


def _shards_of(db: Database, name: str) -> int:
    """How many there are; of a stream that is not there one, which then says so."""
    return next((info.shards for info in db.streams() if info.name == name), 1)


def _schema(text: str) -> object:
    from motet.cli.schema_text import parse_schema

    return parse_schema(text)


def _token(text: str) -> tuple[str, int]:
    from motet.errors import BadInput

    producer, colon, number = text.rpartition(":")
    if not colon or not producer or not number.isdecimal():
        raise BadInput(f"{text!r} is not a token", hint="write it as PRODUCER:NUMBER")
    return producer, int(number)
