"""The tables of a pipeline as its file defines them: functions marked with ``@pipeline.table``.

A mark only adds to a list in the module of the function, so two files that are loaded in one process do not
see each other, and a definition that hides another one of its name is found when the file is loaded.

Everything that is wrong with a file is ``BadPipeline`` with the line it is in, before anything is read or
published. The module is not kept among the imported ones: Spark then sends what it needs of it to its
workers by value, and a file of the same name elsewhere is another pipeline.
"""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from motet.core.metadata.definitions import NAME, TableEngine
from motet.errors import BadPipeline, MissingLibrary
from motet.limits import table_shards_max

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from motet.pipeline.plan import Changes


TableFunction = Callable[["Changes"], "DataFrame"]
F = TypeVar("F", bound=Callable[..., Any])

MARKS = "__motet_tables__"
"""The list of definitions in the module of the functions."""


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """A table, and the function that makes its rows from changes."""

    name: str
    engine: TableEngine
    order_by: tuple[str, ...]
    version: str | None
    tombstone: str | None
    shards: int
    function: TableFunction
    #: its rows are meant to depend on which changes came in one batch
    per_batch: bool = False
    partition_by: str | None = None

    def special_columns(self) -> tuple[tuple[str, str], ...]:
        """The columns that the result has to have, and what for."""
        named = [("order_by", column) for column in self.order_by]
        named += [("version", self.version)] if self.version is not None else []
        named += [("tombstone", self.tombstone)] if self.tombstone is not None else []
        return tuple(named)


def table(
    *,
    engine: TableEngine,
    order_by: Sequence[str],
    version: str | None = None,
    tombstone: str | None = None,
    name: str | None = None,
    shards: int = 1,
    per_batch: bool = False,
    partition_by: str | None = None,
) -> Callable[[F], F]:
    """Mark a function of a pipeline file: what it makes of the changes becomes rows of a table.

    The table is called like the function, or ``name``. Engine ``merge`` keeps every row; ``replacing`` keeps
    of each key ``order_by`` the row with the highest ``version``, and none if that one's ``tombstone`` is
    true. ``shards`` and ``partition_by`` are as for ``db.create_table``.

    A function sees the changes of one batch. One that joins streams, or groups several of them together, is
    refused, unless ``per_batch`` says that a result for each batch is what is wanted.
    """

    def mark(function: F) -> F:
        made = _definition(function, name, engine, order_by, version, tombstone, shards, per_batch)
        made = replace(made, partition_by=_expression(partition_by, f"table {made.name}"))
        function.__globals__.setdefault(MARKS, []).append(made)
        return function

    return mark


def _definition(
    function: object,
    name: str | None,
    engine: TableEngine,
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
    if engine not in get_args(TableEngine):
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


def _expression(partition_by: object, what: str) -> str | None:
    if partition_by is not None and not isinstance(partition_by, str):
        raise BadPipeline(f"{what}: partition_by is text, not {partition_by!r}")
    return partition_by


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


EXAMPLE = """decorate a function: @pipeline.table(engine="merge", order_by=["key"])"""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline: its name, under which it publishes, and its tables in the order of the file."""

    name: str
    tables: tuple[TableDefinition, ...]


def load_pipeline(file: Path, name: str | None = None) -> Pipeline:
    """The pipeline in a file; it is called like the file unless another ``name`` is given."""
    called = _pipeline_name(file, name)
    module = _run(file)
    definitions: list[TableDefinition] = list(getattr(module, MARKS, ()))
    if not definitions:
        raise BadPipeline(f"{file} defines no table", hint=EXAMPLE)
    lines: dict[str, int] = {}
    for definition in definitions:
        line = definition.function.__code__.co_firstlineno
        if definition.name in lines:
            raise BadPipeline(
                f"{file} defines table {definition.name} twice, in lines "
                f"{lines[definition.name]} and {line}",
                hint="give one of them another name",
            )
        lines[definition.name] = line
    return Pipeline(called, tuple(definitions))


def _pipeline_name(file: Path, name: str | None) -> str:
    called = file.stem if name is None else name
    if not NAME.fullmatch(called):
        raise BadPipeline(
            f"{called[:60]!r} is not a name for a pipeline",
            hint="a letter, then up to 127 letters, digits, `_`, `.` or `-`; --name gives it one",
        )
    return called


def _run(file: Path) -> ModuleType:
    """The module that the file is, after it has run."""
    try:
        source = file.read_bytes()
    except OSError as error:
        raise BadPipeline(
            f"cannot read {file}: {error.strerror}", hint="name the Python file of a pipeline"
        ) from None
    module = ModuleType(f"motet_pipeline_{file.stem}")
    module.__file__ = str(file)
    try:
        code = compile(source, str(file), "exec", dont_inherit=True)
    except SyntaxError as error:
        raise BadPipeline(f"{file}, line {error.lineno}: {error.msg}") from None
    except ValueError as error:
        raise BadPipeline(f"{file} is not Python: {error}") from None
    folder = str(file.absolute().parent)
    sys.modules[module.__name__] = module  # what a class definition may look for
    sys.path.insert(0, folder)
    try:
        exec(code, module.__dict__)  # noqa: S102
    except (BadPipeline, MissingLibrary) as error:
        raise type(error)(
            f"{file}{line_of(error, file)}: {error.what}", hint=error.advice
        ) from None
    except ModuleNotFoundError as error:
        raise _missing(file, error) from error
    except (Exception, SystemExit) as error:
        raise BadPipeline(
            f"{file}{line_of(error, file)}: {type(error).__name__}: {error}"
        ) from error
    finally:
        sys.path.remove(folder)
        del sys.modules[module.__name__]
    return module


def _missing(file: Path, error: ModuleNotFoundError) -> BadPipeline | MissingLibrary:
    where = f"{file}{line_of(error, file)}"
    if error.name is not None and error.name.partition(".")[0] in ("pyspark", "pyarrow", "pandas"):
        return MissingLibrary(
            f"{where}: {error.name} is not installed", hint="pip install 'motet[spark]'"
        )
    return BadPipeline(f"{where}: {error}", hint="install it, or put it beside the file")


def line_of(error: BaseException, file: Path) -> str:
    """Where in the file an error came from, as ``, line 7``; nothing if it came from elsewhere."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(file)]
    return f", line {lines[-1]}" if lines else ""
