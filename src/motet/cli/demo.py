"""``motet demo``: what Motet does, shown on this machine in a few seconds, with a report that proves it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from motet.cli import command_app
from motet.errors import BadInput

app = command_app()

Report = dict[str, object]


def _clock() -> Report:
    from motet.cli.demo_clock import show

    return show()


def _storm() -> Report:
    from motet.cli.demo_storm import show

    return show()


DEMOS: dict[str, tuple[str, Callable[[], Report]]] = {
    "clock": ("Three real nodes share one order; one of them is killed in the middle.", _clock),
    "storm": (
        "The same code in a simulated storm of faults, and a planted bug that is found.",
        _storm,
    ),
}


@app.command()
def demo(
    name: Annotated[str | None, typer.Argument(help="clock or storm; both without a name.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write the report to this file.")] = None,
) -> None:
    """Show the cluster clock over kill -9, and a simulated cluster under faults.

    Needs no server and no account; everything it starts, it ends.

    Example: motet demo --json report.json
    """
    if name is not None and name not in DEMOS:
        raise BadInput(f"there is no demo {name!r}", hint=f"choose one of {', '.join(DEMOS)}")
    if json is not None and not json.parent.is_dir():
        raise BadInput(f"there is no folder {json.parent} for the report", hint="make it first")
    report: dict[str, Report] = {}
    for each, (headline, show) in DEMOS.items():
        if name in (None, each):
            typer.echo(f"\n{each}: {headline}\n")
            report[each] = show()
    is_ok = all(part["ok"] is True for part in report.values())
    if json is not None:
        import msgspec

        document = msgspec.json.encode({"ok": is_ok, **report})
        json.write_bytes(msgspec.json.format(document) + b"\n")
    typer.echo("\nAll as promised." if is_ok else "\nA promise was broken: see above.")
    raise typer.Exit(0 if is_ok else 1)
