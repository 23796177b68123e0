"""``motet stream``: streams of a database, their entries, and raw appends."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from motet.cli import command_app
from motet.cli.database import DataOption, EndpointOption, open_database
from motet.cli.output import OUTPUT_OPTION, Output, print_rows

app = command_app()

NameArgument = Annotated[str, typer.Argument(help="Name of the stream.")]


@app.callback()
def stream() -> None:
    """Create and list streams, append raw entries, read the entries of a shard."""


@app.command()
def create(
    name: NameArgument,
    shards: Annotated[int, typer.Option(help="How many shards.")] = 4,
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
        db.create_stream(name, schema=columns, shards=shards)
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
                "entries": sum(info.entries),
                "born": str(info.born),
            }
            for info in db.streams()
        ]
        print_rows(rows, output)


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
    shard: Annotated[int, typer.Option(help="Which shard.")] = 0,
    after: Annotated[int, typer.Option(help="Behind this offset; -1 for the beginning.")] = -1,
    limit: Annotated[int, typer.Option(help="At most so many entries.")] = 100,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Read the entries of one shard in order.

    Example: motet stream read orders --shard 2 --data data/
    """
    with open_database(data, endpoint) as db:
        entries = db.stream(name).read(shard=shard, after=after, limit=limit)
        rows = [
            {
                "offset": entry.offset,
                "clock": str(entry.clock),
                "op": entry.op,
                "key": entry.key.decode(errors="backslashreplace"),
                "value": (entry.value or b"").decode(errors="backslashreplace"),
            }
            for entry in entries
        ]
        print_rows(rows, output)


def _schema(text: str) -> object:
    from motet.cli.schema_text import parse_schema

    return parse_schema(text)


def _token(text: str) -> tuple[str, int]:
    from motet.errors import BadInput

    producer, colon, number = text.rpartition(":")
    if not colon or not producer or not number.isdecimal():
        raise BadInput(f"{text!r} is not a token", hint="write it as PRODUCER:NUMBER")
    return producer, int(number)
