"""A table whose part is damaged bit by bit, for tests of every way to read it."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

import motet
from motet.client.table_files import key_of
from motet.format.part_manifest import PART_FILE
from motet.real.part_files import find_part

ROWS = 2_000
#: they hardly compress, so that most of the file is values
VALUES = [random.Random(number).getrandbits(40) for number in range(ROWS)]
SUM = sum(VALUES)


def fill(db: motet.Database) -> Path:
    """A table ``hurt`` of one part and a table ``whole`` beside it; the file of that part."""
    names = [f"n-{number % 7}" for number in range(ROWS)]
    rows = pa.table({"k": range(ROWS), "v": VALUES, "name": names})
    for name in ("hurt", "whole"):
        db.create_table(name, rows.schema, order_by=["k"]).insert(rows)
    return file_of(db, "hurt")


def file_of(db: motet.Database, table: str) -> Path:
    """The file of the last part of a table."""
    part = db.snapshot(table)[table].parts[-1]
    folder = find_part(Path(part.location.nodes[0].folder), key_of(part.location))
    assert folder is not None
    return folder / PART_FILE


def flips(path: Path, places: int) -> Iterator[int]:
    """The file with one bit changed, at places all over it; whole again in the end."""
    data = path.read_bytes()
    for number in range(places):
        place = number * (len(data) - 1) // (places - 1)
        overwrite(path, data[:place] + bytes([data[place] ^ 1 << number % 8]) + data[place + 1 :])
        yield place
    overwrite(path, data)


def overwrite(path: Path, data: bytes) -> None:
    """Another content, and another time of change even where times are coarse."""
    changed_ns = path.stat().st_mtime_ns + 1_000_000
    path.write_bytes(data)
    os.utime(path, ns=(changed_ns, changed_ns))


def is_told(error: BaseException, path: Path) -> bool:
    """Whether an error names the table and the part."""
    return all(word in str(error) for word in ("BAD_RECORD", "table hurt", path.parent.name))
