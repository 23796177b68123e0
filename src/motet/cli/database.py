"""Which database a command is about: a folder of this machine, or a node that serves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from motet.errors import BadInput

if TYPE_CHECKING:
    from motet.client.sync import Database

DataOption = Annotated[
    Path | None, typer.Option("--data", help="Folder of an embedded database.", show_default=False)
]
EndpointOption = Annotated[
    str | None,
    typer.Option("--endpoint", help="host:port that serves; the default is $MOTET_ENDPOINT."),
]


def open_database(data: Path | None, endpoint: str | None) -> Database:
    """Open the folder or connect to the endpoint; ``BadInput`` when both are given."""
    import motet

    if data is not None and endpoint is not None:
        raise BadInput("--data and --endpoint name two databases", hint="give one of them")
    return motet.connect(endpoint) if data is None else motet.open(data)
