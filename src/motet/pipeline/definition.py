"""The tables of a pipeline as its file defines them: functions marked with ``@pipeline.table``.

A mark changes nothing but the list in the module of the function: nothing is kept here, so two files that
are loaded in one process do not see each other. A definition that hides another one of its name is in
that list all the same, and is found when the file is loaded.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from motet.core.metadata.definitions import NAME
from motet.core.tables.records import Engine
from motet.errors import BadPipeline
from motet.limits import table_shards_max

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from motet.pipeline.changes import Changes

TableFunction = Callable[["Changes"], "DataFrame"]
F = TypeVar("F", bound=Callable[..., Any])

MARKS = "__motet_tables__"
"""The list of definitions in the module of the functions."""


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """A table, and the function that makes its rows from changes."""

    name: str
    engine: Engine
    order_by: tuple[str, ...]
    version: str | None
    tombstone: str | None
    shards: int
    function: TableFunction
    #: its rows are meant to depend on which changes came in one batch
    per_batch: bool = False

    def special_columns(self) -> tuple[tuple[str, str], ...]:
        """The columns that the result has to have, and what for."""
        named = [("order_by", column) for column in self.order_by]
        named += [("version", self.version)] if self.version is not None else []
        named += [("tombstone", self.tombstone)] if self.tombstone is not None else []
        return tuple(named)


def table(
    *,
    engine: Engine,
    order_by: Sequence[str],
    version: str | None = None,
    tombstone: str | None = None,
    name: str | None = None,
    shards: int = 1,
    per_batch: bool = False,
) -> Callable[[F], F]:
    """Mark a function of a pipeline file: what it makes of the changes becomes rows of a table.

    The table is called like the function, or ``name``. Engine ``merge`` keeps every row; ``replacing`` keeps
    of each key ``order_by`` the row with the highest ``version``, and none if that one's ``tombstone`` is
    true.

    A function sees the changes of one batch. One that joins streams, or groups several of them together, is
    refused, unless ``per_batch`` says that a result for each batch is what is wanted.
    """

    def mark(function: F) -> F:
        made = _definition(function, name, engine, order_by, version, tombstone, shards, per_batch)
        function.__globals__.setdefault(MARKS, []).append(made)
        return function

    return mark


def _definition(
    function: object,
    name: str | None,
    engine: Engine,
    order_by: object,
    version: str | None,
    tombstone: str | None,
    shards: object,
    per_batch: object,
) -> TableDefinition:
    if not isinstance(function, FunctionType):
        raise BadPipeline(f"@pipeline.table marks a function, not {type(function).__name__}")
    called = function.__name__ if name is None else name
    if not NAME.fullmatch(called):
        raise BadPipeline(
            f"{called!r} is not a name for a table",
            hint="a letter, then up to 127 letters, digits, `_`, `.` or `-`",
        )
    what = f"table {called}"
    _check_parameters(function, what)
    if engine not in get_args(Engine):
        raise BadPipeline(f"{what}: engine is {engine!r}", hint='"merge" or "replacing"')
    if engine == "merge" and (version is not None or tombstone is not None):
        raise BadPipeline(
            f"{what}: version and tombstone mean nothing for engine merge",
            hint='leave them out, or use engine="replacing"',
        )
    if type(shards) is not int or not 1 <= shards <= table_shards_max:
        raise BadPipeline(f"{what}: shards is a whole number from 1 to {table_shards_max}")
    if not isinstance(per_batch, bool):
        raise BadPipeline(f"{what}: per_batch is True or False, not {per_batch!r}")
    columns = _columns(order_by, what)
    return TableDefinition(called, engine, columns, version, tombstone, shards, function, per_batch)


def _check_parameters(function: FunctionType, what: str) -> None:
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        raise BadPipeline(
            f"{what}: the function cannot be called with one argument, the changes",
            hint=f"def {function.__name__}(changes): …",
        ) from None


def _columns(order_by: object, what: str) -> tuple[str, ...]:
    if isinstance(order_by, str) or not isinstance(order_by, Sequence):
        raise BadPipeline(f"{what}: order_by is a list of columns, not {order_by!r}")
    columns = tuple(order_by)
    if not columns or not all(isinstance(column, str) and column for column in columns):
        raise BadPipeline(f"{what}: order_by names one column or more", hint='order_by=["sku"]')
    if len(dict.fromkeys(columns)) != len(columns):
        raise BadPipeline(f"{what}: order_by names a column twice")
    return columns
