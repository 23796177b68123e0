"""A node's log: stdlib logging, one event per line, its facts as fields.

The message is a name (``node_started``), the facts are in ``extra={"fields": {...}}``. As text a line
is ``time level name key=value ...``; as JSON it is one object. Nothing is logged per message of a
protocol: whatever a peer can cause at will is counted, and complained about ever more rarely.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal, TextIO

import msgspec

from motet.errors import NodeError

logger = logging.getLogger("motet.node")

LogFormat = Literal["text", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]


_WARNINGS = frozenset(
    {
        "shard_damaged",
        "shard_disk_full",
        "shards_disk_full",
        "shards_broken",
        "streams_no_room",
        "streams_broken",
        "streams_write_failed",
        "streams_unreadable",
        "streams_bound_failed",
        "data_broken",
        "data_unreadable",
        "data_bound_failed",
        "data_clock_drift",
        "clock_drifted_backwards",
        "catalog_broken",
        "catalog_unreadable",
        "table_bad_database",
        "table_bad_definition",
        "table_bad_entry",
        "table_bad_part",
        "table_bad_status",
        "table_entry_trimmed",
        "table_log_not_written",
        "table_not_cleared",
        "table_not_hosted",
        "table_other_incarnation",
        "table_part_broken",
        "table_part_damaged_everywhere",
        "table_part_missing",
        "table_read_only",
        "time_on_its_own",
        "operator_node_drifts",
        "operator_node_dead",
        "operator_node_restarted",
        "operator_shard_is_gone",
        "shard_still_damaged",
        "shard_unreadable",
        "shard_rotten_read",
        "shard_state_not_written",
        "vsr_disk_full",
        "vsr_diverged",
        "vsr_refused",
        "vsr_prepare_corrupt",
        "vsr_view_change_undecidable",
    }
)
"""Notes of machines that somebody should look at."""

_ROUTINE = frozenset(
    {
        "vsr_clock_agreed",
        "time_agreed",
        "time_held",
        "shard_state_on_disk",
        "vsr_checkpoint",
        "vsr_checkpoint_durable",
        "compacted_change_read",
        "transaction_batch",
        "streams_segment",
        "table_executed",
        "table_part_registered",
        "table_part_waits",
    }
)
"""Notes of machines in good order, which come all the time."""


def level_of(note: str) -> int:
    """How severe a note of a machine is."""
    if note in _WARNINGS:
        return logging.WARNING
    return logging.DEBUG if note in _ROUTINE else logging.INFO


def complain(count: int, what: str, **fields: object) -> None:
    """Warn about the 1st, 2nd, 4th, 8th … case, so that a flood of cases is not a flood of lines."""
    if count & (count - 1) == 0:
        logger.warning(what, extra={"fields": {**fields, "count": count}})


def set_up(
    level: LogLevel, form: LogFormat, context: Mapping[str, object], out: TextIO | None = None
) -> None:
    """Send everything under ``motet`` to stderr in this form, with the context on every line."""
    handler = logging.StreamHandler(sys.stderr if out is None else out)
    handler.setFormatter(_Json(context) if form == "json" else _Text(context))
    root = logging.getLogger("motet")
    root.handlers = [handler]
    root.setLevel(level.upper())
    root.propagate = False


class _Line(logging.Formatter):
    """What both forms share: which facts a line has."""

    def __init__(self, context: Mapping[str, object]) -> None:
        super().__init__()
        self._context = dict(context)

    def facts(self, record: logging.LogRecord) -> dict[str, object]:
        facts: dict[str, object] = {**self._context, **getattr(record, "fields", {})}
        if record.exc_info:
            facts["traceback"] = self.formatException(record.exc_info)
        return facts


class _Text(_Line):
    def format(self, record: logging.LogRecord) -> str:
        facts = self.facts(record)
        traceback = facts.pop("traceback", None)
        pairs = [f"{key}={_quoted(value)}" for key, value in facts.items() if value != ""]
        head = [_time(record), record.levelname.lower(), record.getMessage()]
        line = " ".join(head + pairs)
        return line if traceback is None else f"{line}\n{traceback}"


class _Json(_Line):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "what": record.getMessage(),
            **self.facts(record),
        }
        return msgspec.json.encode(line, enc_hook=str).decode()


def _time(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created, tz=UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _quoted(value: object) -> str:
    text = str(value)
    if text and not any(character in text for character in ' "=\n'):
        return text
    return msgspec.json.encode(text).decode()


def cannot_listen(what: str, host: str, port: int, error: OSError) -> NodeError:
    """The error for a port that cannot be had."""
    return NodeError(
        f"cannot listen at {host}:{port} for {what}: {os.strerror(error.errno or 0)}",
        hint="stop what runs there, or choose another node.port",
    )


_failures: dict[str, int] = {}


def accept_failed(port: str, error: OSError) -> None:
    """A connection could not be accepted; the port goes on after a moment."""
    _failures[port] = _failures.get(port, 0) + 1
    why = os.strerror(error.errno or 0)
    complain(_failures[port], "accept_failed", port=port, why=why)
