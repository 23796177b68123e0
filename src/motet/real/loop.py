"""Which event loop a process runs on: uvloop when it is installed, else the one of Python."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

objects_between_collections = 200_000

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def loop_factory() -> LoopFactory | None:
    """What makes the loop; None for Python's own choice."""
    if importlib.util.find_spec("uvloop") is None:
        return None
    import uvloop

    factory: LoopFactory = uvloop.new_event_loop
    return factory


def collect_rarely() -> None:
    """For a process that does nothing but serve: let Python look for garbage in cycles only now and then.

    We make none to speak of, and looking means to walk over everything that is kept: with a million values
    that is a quarter of a second, in which nobody is answered. What is dropped otherwise is freed at once.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(objects_between_collections, 100, 100)


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a program's main coroutine to its end, on the quickest loop there is."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(main)
