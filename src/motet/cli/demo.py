"""``motet demo``: what Motet does, shown on this machine, with a report that proves it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from motet.cli import command_app
from motet.errors import BadInput

app = command_app()

DEFAULT = "shop"

DEMOS: dict[str, tuple[str, str]] = {
    "clock": (
        "Three real nodes share one order; one of them is killed in the middle.",
        "motet.demos.clock:show",
    ),
    "storm": (
        "The same code in a simulated storm of faults, and a planted bug that is found.",
        "motet.demos.storm:show",
    ),
    "consensus": (
        "Five replicas lose their primary, a backup, a disk and a network; their clients lose nothing.",
        "motet.demos.consensus:show",
    ),
    "log": (
        "A stream on five nodes loses a leader and its operator, and moves; its clients lose nothing.",
        "motet.demos.log:show",
    ),
    "proof": (
        "Every state of a small cluster: a stale read is found, the linearizable one is proven.",
        "motet.demos.storm:show_proof",
    ),
    "shop": (
        "Writers sell from one stock on three nodes, Spark follows, and one of each is killed in the middle.",
        "motet.demos.shop.show:show",
    ),
}
"""The headline of each, and the function that shows it: imported when it is called."""


@app.command()
def demo(
    name: Annotated[
        str, typer.Argument(help="shop, clock, storm, consensus, log or proof.")
    ] = DEFAULT,
    json: Annotated[Path | None, typer.Option(help="Write the report to this file.")] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the folder of the shop, and say where it is.")
    ] = False,
    no_spark: Annotated[
        bool, typer.Option("--no-spark", help="The shop without Spark and without tables.")
    ] = False,
) -> None:
    """Show a small shop over kill -9, from its transactions to the tables that Spark makes of them.

    Its streams are on a cluster of three nodes, one of which is killed too; with --no-spark, in one process.
    Others: `clock`, the cluster clock of three nodes; `storm`, a simulated cluster under faults; `consensus`,
    five replicas that are killed, cut off and lose parts of their disks; `log`, a replicated stream whose
    nodes are killed and moved; `proof`, a stale read found among all states of a model. Needs no server and
    no account; everything it starts, it ends.

    Example: motet demo --json report.json
    """
    if name not in DEMOS:
        raise BadInput(f"there is no demo {name!r}", hint=f"choose one of {', '.join(DEMOS)}")
    if json is not None and not json.parent.is_dir():
        raise BadInput(f"there is no folder {json.parent} for the report", hint="make it first")
    if name != "shop" and (keep or no_spark):
        raise BadInput(f"--keep and --no-spark mean nothing for {name}", hint="leave them out")
    headline, place = DEMOS[name]
    typer.echo(f"\n{name}: {headline}\n")
    module, _, function = place.partition(":")
    show = getattr(import_module(module), function)
    if name == "shop":
        report = show(typer.echo, keep=keep, spark=not no_spark)
    else:
        found = show(typer.echo)
        report = {"ok": found["ok"], name: found}
    if json is not None:
        import msgspec

        json.write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    is_ok = report["ok"] is True
    typer.echo("\nAll as promised." if is_ok else "\nA promise was broken: see above.")
    raise typer.Exit(0 if is_ok else 1)
