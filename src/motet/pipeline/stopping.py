"""How a pipeline that runs is told to stop: by an event, or by ^C and SIGTERM."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stopping(given: threading.Event | None) -> Iterator[threading.Event]:
    """The event that was given; else one that ^C and SIGTERM set, where signals can be had at all."""
    stop = threading.Event() if given is None else given
    if given is not None or threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
