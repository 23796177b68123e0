"""``motet status``: every node of a cluster in one table."""

from __future__ import annotations

import os
from typing import Any

import typer

from motet.cli import command_app
from motet.cli.cluster import ClusterOption
from motet.cli.node_status import fetch_status
from motet.cli.output import OUTPUT_OPTION, Output, print_rows
from motet.errors import NodeError

app = command_app()
DEFAULT_ENDPOINT = "127.0.0.1:7400"


@app.command()
def status(endpoint: ClusterOption = None, output: Output = OUTPUT_OPTION) -> None:
    """Show each node of a cluster: is it ready, what does it do, how much does it hold.

    One node that answers is enough: it names the others.

    Example: motet status --endpoint 127.0.0.1:7400
    """
    asked = (endpoint or os.environ.get("MOTET_ENDPOINT") or DEFAULT_ENDPOINT).split(",")
    rows = _rows(asked)
    print_rows(rows, output)
    if not all(row["ready"] for row in rows):
        raise typer.Exit(1)


def _rows(asked: list[str]) -> list[dict[str, object]]:
    found: dict[str, dict[str, Any]] = {}
    missing: dict[str, str] = {}
    queue = list(dict.fromkeys(asked))
    names: dict[str, str] = {}
    for one in queue:
        try:
            found[one] = fetch_status(one)
        except NodeError as error:
            missing[one] = error.what
            continue
        for peer in found[one]["peers"]:
            names[peer["address"]] = peer["id"]
            if peer["address"] not in queue:
                queue.append(peer["address"])
    if not found:
        raise NodeError(
            "; ".join(missing.values()), hint="start a cluster with `motet dev --nodes 3`"
        )
    rows = [_row(one, found.get(one), names.get(one, "-")) for one in queue]
    return sorted(rows, key=lambda row: str(row["node"]))


def _row(endpoint: str, shown: dict[str, Any] | None, name: str) -> dict[str, object]:
    if shown is None:
        silent = dict.fromkeys(
            ("roles", "keeper", "operator", "shards", "leads", "stalled", "drift_ms", "since")
        )
        return {"node": name, "endpoint": endpoint, "ready": False, **silent}
    machines = shown["machines"]
    keeper = machines.get("keeper", {}).get("detail", {})
    data = machines.get("data", {}).get("detail", {})
    operator = machines.get("operator", {}).get("detail", {})
    return {
        "node": shown["id"],
        "endpoint": endpoint,
        "ready": shown["ready"],
        "roles": shown["roles"],
        "keeper": None if not keeper else "primary" if keeper.get("is_primary") else "backup",
        "operator": None if not operator else "active" if operator.get("active") else "waiting",
        "shards": data.get("shards"),
        "leads": data.get("leads"),
        "stalled": data.get("stalled"),
        "drift_ms": data.get("wall_drift_ms"),
        "since": shown["started_at"],
    }
