"""The replicas of the tables as they lie on the disks of the nodes, part by part and byte by byte."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from blake3 import blake3

from motet.client.sync import Database
from motet.format.part_manifest import PART_FILE
from motet.real.part_files import PartState
from motet.testing.local_cluster import LocalCluster

Parts = Mapping[str, str]
"""The place of each part, as table/shard/part, and the hash of its bytes."""


def committed_parts(db: Database) -> Parts:
    """The parts of all tables, and the hashes that were committed with them."""
    names = [info.name for info in db.tables()]
    if not names:
        return {}
    tables = db.snapshot(*names).tables.values()
    locations = [part.location for table in tables for part in table.parts]
    return {f"{at.table}/{at.shard}/{at.header.id}": at.header.hash for at in locations}


def stored_parts(cluster: LocalCluster, i: int) -> Parts:
    """The parts that a node has stored, and the hashes of what is in their files."""
    found = {}
    for path in sorted(parts_folder(cluster, i).glob(f"*/*/{PartState.STORED}/*/{PART_FILE}")):
        table, shard, _, part = path.parent.parts[-4:]
        found[f"{table}/{shard}/{part}"] = blake3(path.read_bytes()).hexdigest()
    return found


def held_tables(cluster: LocalCluster, i: int, db: Database) -> list[str]:
    """The tables of which a node has stored parts."""
    ids = {place.split("/")[0] for place in stored_parts(cluster, i)}
    return [info.name for info in db.tables() if info.definition.id in ids]


def parts_folder(cluster: LocalCluster, i: int) -> Path:
    """Where a node keeps the files of its parts."""
    return cluster.folder / f"node-{i}" / "parts"
