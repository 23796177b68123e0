"""Pieces of a table that may be more than fits into memory: the first stays there, others go into a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pa_dataset
import pyarrow.parquet as pq


class Spool:
    """Takes pieces of one schema, and is a table, or a dataset, at its end."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path = path
        self._schema = schema
        self._first: pa.Table | None = None
        self._writer: pq.ParquetWriter | None = None

    def add(self, piece: pa.Table) -> None:
        """One more piece."""
        if not piece.num_rows:
            return
        if self._first is None and self._writer is None:
            self._first = piece
            return
        if self._writer is None:
            self._writer = pq.ParquetWriter(str(self._path), self._schema)
            self._writer.write_table(self._first)
            self._first = None
        self._writer.write_table(piece)

    def done(self) -> Any:
        """All pieces, for whatever takes Arrow; the file is to be kept as long as that is used."""
        if self._writer is None:
            return self._schema.empty_table() if self._first is None else self._first
        self._writer.close()
        return pa_dataset.dataset(str(self._path), schema=self._schema, format="parquet")
