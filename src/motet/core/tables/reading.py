"""Answers about tables that need nothing but the catalog."""

from __future__ import annotations

from motet.core.clock.hlc import Clock
from motet.core.machine import Message
from motet.core.tables.catalog import Catalog
from motet.core.tables.messages import (
    ListTables,
    ListWriters,
    ReadTable,
    ReadWriter,
    TableIs,
    TablesAre,
    WriterIs,
    WritersAre,
)
from motet.errors import BadInput, NoSuchTable

TableReading = ListTables | ReadTable | ReadWriter | ListWriters
"""The requests that read."""


def answer_table(catalog: Catalog, message: TableReading, visible: Clock) -> Message:
    """The answer, as of the visible clock; a ``MotetError`` refuses the request."""
    if isinstance(message, ListTables):
        infos = tuple(table.info() for table in catalog.tables.values())
        return TablesAre(message.request, infos)
    if isinstance(message, ReadTable):
        return _table(catalog, message, visible)
    if isinstance(message, ReadWriter):
        writer = catalog.writers.get(message.writer)
        return WriterIs(message.request, None if writer is None else writer.info())
    writers = tuple(writer.info() for writer in catalog.writers.values())
    return WritersAre(message.request, writers)


def _table(catalog: Catalog, message: ReadTable, visible: Clock) -> TableIs:
    table = catalog.tables.get(message.table)
    if table is None:
        raise NoSuchTable(f"there is no table {message.table!r}")
    if message.at is not None and message.at > visible:
        raise BadInput(
            f"{message.at} is not visible yet, {visible} is",
            hint="wait for it with visible_clock(wait=True), or read without a clock",
        )
    clock = visible if message.at is None else message.at
    return TableIs(message.request, table.spec, clock, table.parts_at(clock))
