"""The proof demo: a stale read is found on the shortest way, and the linearizable one is proven."""

from __future__ import annotations

import typer

from motet.verify.explore import Exploration, explore
from motet.verify.models import model_named

SIZE = {"replicas": 3, "quorum": 2, "records": 2, "reads": 2}


def show() -> dict[str, object]:
    """Explore both kinds of select, and print what came out."""
    typer.echo("Selects that do not ask whether their replica has every acknowledged insert:\n")
    stale = explore(model_named("quorum-stale", SIZE), properties=["NoStaleRead"], engine="auto")
    for number, step in enumerate(stale.trace, start=1):
        typer.echo(f"  {number}  {step.action}")
    typer.echo(f"\n  {_told(stale)}: NoStaleRead is violated, and no shorter way leads there.\n")
    typer.echo("Selects that do ask, over every state that can be reached:\n")
    proven = explore(model_named("quorum", SIZE), engine="auto")
    typer.echo(f"  {_told(proven)}: {', '.join(proven.properties)} hold.")
    return {
        "ok": stale.verdict == "violated" and proven.verdict == "ok",
        "stale_states": len(stale.trace),
        "stale_property": stale.property,
        "linearizable_states": proven.distinct,
        "linearizable_verdict": proven.verdict,
        "seconds": round(stale.seconds + proven.seconds, 3),
    }


def _told(result: Exploration) -> str:
    return f"{result.distinct:,} states in {result.seconds:.1f} s"
