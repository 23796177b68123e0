"""Motet: a change-data store whose changes are read back in causal order.

The public names are those in ``__all__``; each is imported when it is first used, so that ``import motet``
costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from motet.core.clock.hlc import Clock
    from motet.errors import MotetError, OutcomeUnknown

__version__ = "0.1.0"

__all__ = ["Clock", "MotetError", "OutcomeUnknown", "__version__"]

_HOMES = {
    "Clock": "motet.core.clock.hlc",
    "MotetError": "motet.errors",
    "OutcomeUnknown": "motet.errors",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'motet' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
