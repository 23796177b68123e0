"""Asking for decisions about tables over a history of records, of which the first are durable."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from tests.core.tables.harness import at

from motet.core.onelog.record import Answered, Planned
from motet.core.tables import plan as plan_module
from motet.core.tables.catalog import Catalog
from motet.core.tables.plan import Ahead, TableWrite, plan_table
from motet.core.tables.records import TableRecord
from motet.errors import MotetError

WALL_MS = 1_234
Outcome = Planned | Answered | tuple[str, str]


def ahead(*records: TableRecord, durable: int) -> Ahead:
    """The first so many are durable, the rest is under way."""
    catalog = Catalog()
    for record in records[:durable]:
        assert catalog.objection(record) is None
        catalog.add(record)
    return Ahead(catalog, records[durable:])


def decide(history: list[TableRecord], durable: int, message: TableWrite) -> Outcome:
    clock = at(len(history) + 1)
    try:
        return plan_table(ahead(*history, durable=durable), message, clock, WALL_MS)
    except MotetError as error:
        return (error.code, error.what)


def record_of(outcome: Outcome) -> TableRecord | None:
    if not isinstance(outcome, Planned):
        return None
    assert isinstance(outcome.record, TableRecord)
    return outcome.record


@contextmanager
def limits(**changed: int) -> Iterator[None]:
    assert set(changed) <= set(vars(plan_module))
    with patch.dict(vars(plan_module), changed):
        yield
