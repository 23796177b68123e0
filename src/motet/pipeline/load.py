"""Reads a pipeline file: runs it in a module of its own, and collects the tables it defines.

Everything that is wrong with the file is ``BadPipeline`` with the line it is in, before anything is read or
published. The module is not kept among the imported ones: Spark then sends what it needs of it to its
workers by value, and a file of the same name elsewhere is another pipeline.
"""

from __future__ import annotations

import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from motet.core.metadata.definitions import NAME
from motet.errors import BadPipeline, MissingLibrary
from motet.pipeline.definition import MARKS, TableDefinition

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
