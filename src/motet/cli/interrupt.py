"""^C ends every command in a line, within two seconds, and never in a traceback.

When the signal comes, the command has ``patience_seconds`` to end in good order: by ``KeyboardInterrupt``, or
by a handler that it has set. Then the process ends, wherever it is: in a query, in a batch, in a join of
threads. Nothing is lost that was acknowledged, for everything here survives ``kill -9``. Processes that the
command has started end with it: see ``testing.reaper``; Spark's Java ends with its pipe.

The signal is seen by a thread, through Python's wakeup descriptor. So it does not matter who has set another
handler since.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

patience_seconds = 1.2
"""How long a command may take to end in good order; what follows takes a moment, too."""

INTERRUPTED = 128 + signal.SIGINT


class Interrupts:
    """Whether ^C was seen, and what is said when a command does not end by itself."""

    def __init__(self) -> None:
        self.is_seen = False
        self.farewell: Callable[[], str] = lambda: "interrupted"
        self.code = INTERRUPTED
        self._lock = threading.Lock()
        self._is_said = False

    def interrupt(self, *_: object) -> NoReturn:
        """Like Python's own handler; and what is logged from here on is about the interrupt."""
        self.is_seen = True
        logging.disable()
        raise KeyboardInterrupt

    def say_last(self, line: str | None) -> None:
        """The last line of the command; None: it has said one by itself. There is no other after it."""
        with self._lock:
            if not self._is_said and line is not None:
                with suppress(OSError, ValueError):  # nobody reads it any more
                    print(line, file=sys.stderr, flush=True)
            self._is_said = True

    def end(self, code: int) -> NoReturn:
        """End the process, now."""
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)

    def follow(self, received: int) -> None:
        """Wait for ^C, and then for the command."""
        while signal.SIGINT not in (seen := os.read(received, 64)):
            if not seen:
                return
        self.is_seen = True
        threading.Event().wait(patience_seconds)
        self.say_last(self.farewell())
        self.end(self.code)


_current: list[Interrupts] = []


def on_interrupt(farewell: Callable[[], str], code: int) -> None:
    """What is said, and the exit code, if the command that runs has not ended in time after ^C."""
    for each in _current:
        each.farewell, each.code = farewell, code


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """Look out for ^C while a command runs; in the main thread alone, where signals come."""
    found = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield found
        return
    received, sent = os.pipe()
    os.set_blocking(sent, False)
    before = signal.set_wakeup_fd(sent, warn_on_full_buffer=False)
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, found.interrupt)
    thread = threading.Thread(target=found.follow, args=(received,), name="^C", daemon=True)
    thread.start()
    _current.append(found)
    try:
        yield found
    finally:
        _current.remove(found)
        signal.signal(signal.SIGINT, handler)
        signal.set_wakeup_fd(before)
        if not found.is_seen:  # else the end of the process is looked after as well
            os.close(sent)  # the thread sees it
            thread.join()
            os.close(received)
