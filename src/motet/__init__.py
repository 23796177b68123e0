"""Motet: a change-data store whose changes are read back in causal order.

The public names are those in ``__all__``; each is imported when it is first used, so that ``import motet``
costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from motet.version import __version__

if TYPE_CHECKING:
    from motet import aio
    from motet.client.clock_visibility import ClockOff
    from motet.client.sync import Database, connect
    from motet.core.clock.hlc import Clock
    from motet.core.clock.writer_step import WriterStep
    from motet.core.mergetree.version import Version
    from motet.embedded import open  # noqa: A004
    from motet.errors import Conflict, MotetError, OutcomeUnknown


__all__ = [
    "Clock",
    "ClockOff",
    "Conflict",
    "Database",
    "MotetError",
    "OutcomeUnknown",
    "Version",
    "WriterStep",
    "__version__",
    "aio",
    "connect",
    "open",
]

_HOMES = {
    "Clock": "motet.core.clock.hlc",
    "ClockOff": "motet.client.clock_visibility",
    "Conflict": "motet.errors",
    "Database": "motet.client.sync",
    "MotetError": "motet.errors",
    "OutcomeUnknown": "motet.errors",
    "Version": "motet.core.mergetree.version",
    "WriterStep": "motet.core.clock.writer_step",
    "connect": "motet.client.sync",
    "open": "motet.embedded",
}


def __getattr__(name: str) -> object:
    if name == "aio":
        return import_module("motet.aio")
    if name not in _HOMES:
        raise AttributeError(f"module 'motet' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
