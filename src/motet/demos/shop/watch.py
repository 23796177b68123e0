"""Waits for conditions, never for time; meanwhile notes how far feed and tables are, and says so.

A wait ends with an error when a process has ended that should not have, or when the whole demo takes far
longer than any machine should need.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from motet.client.sync import Database
from motet.core.tables.messages import WriterInfo
from motet.demos.shop.chart import Sample
from motet.demos.shop.children import Children
from motet.demos.shop.journal import ORDERS, PIPELINE, STOCK
from motet.errors import MotetError
from motet.real.process import RealTime

look_seconds = 0.1
deadline_seconds = 600.0
"""A machine that needs longer is not slow, but stuck."""


class Watch:
    """Looks at a database and at the processes around it; ``books`` has the tables, if they are elsewhere."""

    def __init__(
        self,
        db: Database,
        children: Children,
        seconds: float = deadline_seconds,
        books: Database | None = None,
    ) -> None:
        self._db = db
        self._books = books or db
        self._children = children
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds
        self._never = threading.Event()
        self._time = RealTime()
        self.samples: list[Sample] = []

    def until(self, what: str, holds: Callable[[], bool]) -> None:
        """Come back when it holds; ``what`` says in an error what was waited for."""
        while True:
            self._children.check()
            self._sample()
            if holds():
                return
            if time.monotonic() > self._deadline:
                raise MotetError(
                    f"the demo waited for {what}, and gave up {self._seconds:g} s after its start",
                    hint="run it again with --keep, and read the logs in its folder",
                )
            self._never.wait(look_seconds)

    def now_ms(self) -> float:
        """The time of day, in milliseconds since 1970."""
        return self._time.now().wall_ns / 1e6

    def pipeline(self) -> WriterInfo | None:
        """How far the pipeline is."""
        return self._books.writer(PIPELINE)

    def steps(self) -> int:
        """How many steps the pipeline has published."""
        info = self.pipeline()
        return 0 if info is None else info.steps

    def is_behind(self) -> bool:
        """Whether there are changes that the tables do not reflect yet."""
        info = self.pipeline()
        done = None if info is None or info.step is None else info.step.through
        return self._db.split_feed(ORDERS, STOCK, after=done).changes > 0

    def _sample(self) -> None:
        info = self.pipeline()
        tables = None if info is None or info.step is None else float(info.step.through.logical)
        try:
            feed = self._db.visible_clock(ORDERS, STOCK)
        except MotetError:
            return  # a shard has no leader, or there are no streams yet
        self.samples.append(Sample(self.now_ms(), feed.logical, tables))


rewrite_seconds = 0.5
"""How often the line is rewritten at most."""

WIDTH = 78


class Progress:
    """The phases of a run, and how long each took."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stdout if stream is None else stream
        self._is_terminal = self._stream.isatty()
        self._headline = ""
        self._note = ""
        self._rewritten = 0.0
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str, headline: str) -> Iterator[None]:
        """One phase; its line stays when it is over."""
        began = time.monotonic()
        self._headline, self._note = headline, ""
        self._rewrite()
        yield
        self.seconds[name] = round(time.monotonic() - began, 2)
        self._say(f"{self.seconds[name]:6.1f} s  {self._text()}", ends=True)

    def note(self, text: str) -> None:
        """What is to be seen of the phase just now."""
        self._note = text
        if time.monotonic() - self._rewritten >= rewrite_seconds:
            self._rewrite()

    def _text(self) -> str:
        return f"{self._headline}: {self._note}" if self._note else self._headline

    def _rewrite(self) -> None:
        self._rewritten = time.monotonic()
        if self._is_terminal:
            self._say(f"     ...  {self._text()}", ends=False)

    def _say(self, line: str, *, ends: bool) -> None:
        text = line[:WIDTH].ljust(WIDTH) if self._is_terminal else line
        self._stream.write(("\r" if self._is_terminal else "") + text + ("\n" if ends else ""))
        self._stream.flush()


def is_batch_under_way(checkpoint: Path) -> bool:
    """A batch has begun, and is not over."""
    return _last(checkpoint / "offsets") > _last(checkpoint / "commits")


def _last(folder: Path) -> int:
    """The highest number that a file is called; other files are on their way, or not Spark's notes."""
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return max((int(name) for name in names if name.isdecimal()), default=-1)
