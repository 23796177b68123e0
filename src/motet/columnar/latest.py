"""The latest row of each key: what the engine ``replacing`` shows.

A key has one row: that with the highest version (in the order of keys: null below everything, a struct field
by field); of several with the same version, the last one of the block. A key whose latest row has its
tombstone set is not there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from motet.columnar.ordering import Ordering, Rows, check_sortable, take_rows


def latest_rows(
    block: pa.Table, order_by: Sequence[str], version: str | None, tombstone: str | None
) -> pa.Table:
    """The latest row of each key that is not gone, sorted by key."""
    check_sortable(block.schema, (*order_by, *([version] if version is not None else [])))
    ordering = Ordering(block.num_rows)
    ordering.refine([block.column(name) for name in order_by])
    last_of_keys = _last_places(ordering)
    if version is not None:
        ordering.refine([block.column(version)])
    rows = ordering.order[last_of_keys]
    if tombstone is not None:
        rows = rows[~_is_set(block.column(tombstone), rows)]
    if len(rows) == block.num_rows and not ordering.moved:
        return block
    return take_rows(block, rows)


def _last_places(ordering: Ordering) -> Rows:
    """Where each run of equal rows ends."""
    starts = np.flatnonzero(ordering.is_first)
    return np.append(starts[1:], len(ordering.order))[: len(starts)] - 1


def _is_set(tombstones: pa.ChunkedArray, rows: Rows) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    filled: np.ndarray[tuple[int], np.dtype[np.bool_]] = tombstones.fill_null(False).to_numpy()
    return filled[rows]
