"""Which database a command is about: a folder of this machine, or a node that serves."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from motet.errors import BadConfig, BadInput

if TYPE_CHECKING:
    from motet.client.sync import Database

DataOption = Annotated[
    Path | None, typer.Option("--data", help="Folder of an embedded database.", show_default=False)
]
EndpointOption = Annotated[
    str | None,
    typer.Option(
        "--endpoint", help="What db.endpoint says where it is open; else $MOTET_ENDPOINT."
    ),
]


ENDPOINTS = re.compile(r"[^/\\,]+:\d+(,[^/\\,]+:\d+)*")
"""host:port, or several; anything else is a folder."""


def open_place(place: str, *, create: bool = False) -> Database:
    """What is named by one text: the folder of an embedded database, or endpoints."""
    if ENDPOINTS.fullmatch(place):
        return open_database(None, place)
    return open_database(Path(place), None, create=create)


def open_database(data: Path | None, endpoint: str | None, *, create: bool = False) -> Database:
    """Open the folder or connect to the endpoint; ``BadInput`` when it is not clear which is meant.

    Only what is to ``create`` something makes a folder: a mistyped one is an error, not an empty database.
    """
    import motet

    if data is not None and endpoint is not None:
        raise BadInput("--data and --endpoint name two databases", hint="give one of them")
    if data is None:
        if not (endpoint or os.environ.get("MOTET_ENDPOINT")):
            raise BadConfig(
                "no database is named",
                hint="give --data FOLDER or --endpoint HOST:PORT, or set $MOTET_ENDPOINT",
            )
        return motet.connect(endpoint)
    if not create and not data.exists():
        raise BadInput(
            f"there is no database in {data}", hint="correct --data, or begin with `stream create`"
        )
    return motet.open(data)
