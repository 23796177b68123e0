"""The options of the data source: texts from Spark, checked once and then a struct.

An option that does not exist, or whose value does not fit, is refused by its name before anything else
happens. Which options a use of the source takes (reading a table, a feed, a stream of it, writing) is
checked when that use is known: an option that would be ignored is refused too.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Literal, TypeVar, get_args

import msgspec

from motet.client.cursors import OLDEST, PIPELINES
from motet.client.link import parse_endpoint
from motet.client.table_reading import Consistency
from motet.core.clock.hlc import Clock
from motet.core.mergetree.version import Version, parse_version
from motet.core.streams.orders import cursor_name_length_max
from motet.errors import BadInput, MotetError
from motet.limits import name_length_max

ENDPOINT_VARIABLE = "MOTET_ENDPOINT"

OverwriteMode = Literal["static", "dynamic"]
Use = Literal["read a table", "read a feed", "follow a feed", "write a table"]

#: an option -> what it is for, and the uses that take it
OPTIONS: dict[str, tuple[str, tuple[Use, ...]]] = {
    "endpoint": ("where the database is", get_args(Use)),
    "table": ("the table", ("read a table", "write a table")),
    "streams": ("streams of the feed, separated by commas", ("read a feed", "follow a feed")),
    "columns": (
        "columns to read, separated by commas",
        ("read a table", "read a feed", "follow a feed"),
    ),
    "where": ("conditions on the rows to read", ("read a table",)),
    "consistency": ("sequential or eventual", ("read a table",)),
    "at": ("the version or the time to read at", ("read a table",)),
    "after": ("the clock after which to begin, or oldest", ("read a feed",)),
    "up_to": ("the last clock to read", ("read a feed",)),
    "startingClock": ("the clock after which a new query begins, or oldest", ("follow a feed",)),
    "maxChangesPerBatch": ("at most so many changes in a batch", ("follow a feed",)),
    "maxRowsPerBatch": ("another name of maxChangesPerBatch", ("follow a feed",)),
    "cursor": ("a name under which nothing is pruned that is not read yet", ("follow a feed",)),
    "token": ("a name under which this write happens once", ("write a table",)),
    "partitionOverwriteMode": (
        "static or dynamic: which partitions are overwritten",
        ("write a table",),
    ),
}
_NAMES = {name.lower(): name for name in OPTIONS}
SPARKS_CHECKPOINT = "checkpointlocation"
"""An option of every streaming query that writes, and of nothing else."""

_SUGGESTIONS = {"path": "option('table', …) or option('streams', …) says what to read, not a path"}

changes_per_batch_default = 1_000_000
"""How many changes one batch of a query takes at most, when nothing is said."""

changes_per_batch_max = 1 << 40

T = TypeVar("T")


class SourceOptions(msgspec.Struct, frozen=True):
    """What the user of the source has asked for."""

    endpoint: str
    #: the options that were given, by name
    given: tuple[str, ...]
    table: str | None = None
    streams: tuple[str, ...] = ()
    #: all of them, if empty
    columns: tuple[str, ...] = ()
    #: checked when the columns are known
    where: str | None = None
    consistency: Consistency = "sequential"
    at: Version | datetime | None = None
    after: Clock | Literal["oldest"] | None = None
    up_to: Clock | None = None
    starting_clock: Clock | Literal["oldest"] | None = None
    changes_per_batch: int = changes_per_batch_default
    #: the name of the query's cursor
    cursor: str | None = None
    token: str | None = None
    overwrite_mode: OverwriteMode | None = None

    def check_use(self, use: Use) -> None:
        """Refuse options that mean nothing for this use."""
        for name in self.given:
            if use not in OPTIONS[name][1]:
                uses = ", ".join(OPTIONS[name][1])
                raise BadInput(
                    f"option {name} does not apply here: this is to {use}",
                    hint=f"leave it out; it is to {uses}",
                )

    def table_name(self, use: Use) -> str:
        """The table, where only a table will do."""
        if self.table is None:
            raise BadInput(f"option table is missing, to {use}", hint="option('table', 'sales')")
        self.check_use(use)
        return self.table

    def stream_names(self, use: Use) -> tuple[str, ...]:
        """The streams, where only a feed will do."""
        if not self.streams:
            raise BadInput(
                f"option streams is missing, to {use}", hint="option('streams', 'orders,stock')"
            )
        self.check_use(use)
        return self.streams


def parse_options(given: Mapping[str, str], endpoint: str | None = None) -> SourceOptions:
    """The options as a struct; ``endpoint`` is used where none is given."""
    if any(key.lower() == SPARKS_CHECKPOINT for key in given):
        raise no_stream_writer()
    texts = {_name_of(key): value for key, value in given.items()}
    if "table" in texts and "streams" in texts:
        raise BadInput("both option table and option streams are given", hint="give one of them")
    if "table" not in texts and "streams" not in texts:
        raise BadInput(
            "neither option table nor option streams is given",
            hint="option('table', 'sales'), or option('streams', 'orders,stock')",
        )
    if "maxChangesPerBatch" in texts and "maxRowsPerBatch" in texts:
        raise BadInput("both option maxChangesPerBatch and maxRowsPerBatch are given")
    if "at" in texts and texts.get("consistency") == "eventual":
        raise BadInput(
            "option at names a version, and consistency=eventual asks for none",
            hint="give one of them",
        )

    def value(name: str, parse: Callable[[str], T], default: T) -> T:
        return _parsed(name, parse, texts[name]) if name in texts else default

    changes = value("maxRowsPerBatch", _changes, changes_per_batch_default)
    return SourceOptions(
        endpoint=_endpoint(texts.get("endpoint"), endpoint),
        given=tuple(sorted(texts)),
        table=value("table", _one_name, None),
        streams=value("streams", _names, ()),
        columns=value("columns", _names, ()),
        where=value("where", _text, None),
        consistency=value("consistency", _consistency, "sequential"),
        at=value("at", _version_or_time, None),
        after=value("after", _place, None),
        up_to=value("up_to", Clock.parse, None),
        starting_clock=value("startingClock", _place, None),
        changes_per_batch=value("maxChangesPerBatch", _changes, changes),
        cursor=value("cursor", _cursor, None),
        token=value("token", _token, None),
        overwrite_mode=value("partitionOverwriteMode", _overwrite_mode, None),
    )


def no_stream_writer() -> BadInput:
    """What is said to ``writeStream.format("motet")``, for which there is no sink yet."""
    return BadInput(
        "writeStream.format('motet') is not implemented: a streaming query cannot write a table directly",
        hint="use writeStream.foreachBatch(write), and in write(batch, number) "
        "batch.write.format('motet') with option token = f'{query_id}-{number}', where query_id = "
        "batch.sparkSession.sparkContext.getLocalProperty('sql.streaming.queryId'); or write a pipeline",
    )


def _name_of(key: str) -> str:
    """The option that is meant: Spark does not keep upper and lower case apart."""
    name = _NAMES.get(key.lower())
    if name is not None:
        return name
    close = difflib.get_close_matches(key.lower(), _NAMES, n=1)
    hint = f"the options are {', '.join(OPTIONS)}"
    if key.lower() in _SUGGESTIONS:
        hint = _SUGGESTIONS[key.lower()]
    elif close:
        hint = f"did you mean {_NAMES[close[0]]}?"
    raise BadInput(f"there is no option {key[:60]!r}", hint=hint)


def _parsed(name: str, parse: Callable[[str], T], text: str) -> T:
    try:
        return parse(text)
    except MotetError as error:
        raise BadInput(f"option {name}: {error.what}", hint=error.advice) from None


def find_endpoint(given: str | None) -> str | None:
    """The endpoint that was given, else the one of the environment, checked; None for none."""
    text = os.environ.get(ENDPOINT_VARIABLE, "") if given is None else given
    if not text.strip():
        return None
    for each in text.split(","):
        _parsed("endpoint", parse_endpoint, each.strip())
    return text


def _endpoint(given: str | None, registered: str | None) -> str:
    found = find_endpoint(registered if given is None else given)
    if found is None:
        raise BadInput(
            "option endpoint is missing",
            hint=f"option('endpoint', db.endpoint), register(spark, endpoint=…), or "
            f"${ENDPOINT_VARIABLE} in the environment that Spark was started in",
        )
    return found


def _one_name(text: str) -> str | None:
    names = _names(text)
    if len(names) != 1:
        raise BadInput(f"{text[:60]!r} is not the name of one table", hint="one table at a time")
    return names[0]


def _text(text: str) -> str | None:
    if not text.strip():
        raise BadInput("it is empty", hint="leave it out")
    return text


def _names(text: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(","))
    if not all(names):
        raise BadInput(f"{text[:60]!r} has an empty name", hint="names separated by commas: a,b")
    for name in names:
        if names.count(name) > 1:
            raise BadInput(f"{name!r} is named twice", hint="name each once")
    return names


def _consistency(text: str) -> Consistency:
    if text == "sequential":
        return "sequential"
    if text == "eventual":
        return "eventual"
    raise BadInput(f"{text[:60]!r} is not a consistency", hint="sequential or eventual")


def _version_or_time(text: str) -> Version | datetime | None:
    if "@" in text:
        return parse_version(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise BadInput(
            f"{text[:60]!r} is neither a version nor a time",
            hint="for instance 500@a1b2, or 2026-11-16T12:00:00Z",
        ) from None
    if found.tzinfo is None:
        raise BadInput(f"{text[:60]!r} has no time zone", hint="for instance 2026-11-16T12:00:00Z")
    return found


def _overwrite_mode(text: str) -> OverwriteMode | None:
    if text.lower() == "static":
        return "static"
    if text.lower() == "dynamic":
        return "dynamic"
    raise BadInput(f"{text[:60]!r} is not a way to overwrite", hint="static or dynamic")


def _place(text: str) -> Clock | Literal["oldest"] | None:
    return OLDEST if text == OLDEST else Clock.parse(text)


def _changes(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:20]) <= changes_per_batch_max:
        raise BadInput(
            f"{text[:60]!r} is not a number of changes",
            hint=f"a whole number from 1 to {changes_per_batch_max}",
        )
    return int(text)


def _cursor(text: str) -> str | None:
    if not 0 < len(text) <= cursor_name_length_max or text.startswith(PIPELINES):
        raise BadInput(
            f"{text[:60]!r} is not a name for a cursor",
            hint=f"1 to {cursor_name_length_max} characters that do not begin with {PIPELINES}",
        )
    return text


def _token(text: str) -> str:
    if not 0 < len(text) <= name_length_max:
        raise BadInput(f"a token has 1 to {name_length_max} characters, not {len(text)}")
    return text
