"""The processes that the demo starts, and waiting for what they do: for conditions, never for time.

A wait ends with an error when a process has ended that should not have, or when the whole demo takes far
longer than any machine should need.

A child can be killed or told to finish, and is gone when the demo is. It leads a process group of its own:
^C in the terminal is for the demo alone, and killing the group takes Spark's Java along. What the children
write into temporary folders is in the folder of the demo. A reaper ends them even if the demo itself is
killed with -9.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from motet.client.publication import WriterInfo
from motet.client.sync import Database
from motet.demos.shop.chart import Sample
from motet.demos.shop.writer import ORDERS, PIPELINE, STOCK
from motet.errors import MotetError
from motet.real.process import RealTime
from motet.testing.reaper import Reaper

QUICK_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""A Java that lives for half a minute: starting soon matters more than being quick after a while."""

tail_lines = 12
"""How much of a child's log an error shows."""


class Child:
    """One process; what it prints and what it complains of are in two files."""

    def __init__(
        self, name: str, process: subprocess.Popen[bytes], output: Path, log: Path
    ) -> None:
        self.name = name
        self.output = output
        self.log = log
        self._process = process
        #: what it may end with; nothing as long as nobody has told it to end
        self.codes: tuple[int, ...] = ()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def code(self) -> int | None:
        """What it ended with; None while it runs."""
        return self._process.poll()

    def kill(self) -> None:
        """``kill -9``, for it and for all it has started in its group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def finish(self) -> None:
        """Its input ends: a writer then ends by itself."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def terminate(self) -> None:
        """SIGTERM: a pipeline finishes its batch and ends."""
        self._process.terminate()

    def failure(self) -> MotetError:
        """That it ended and should not have, with the end of its log."""
        lines = [*_lines(self.output), *_lines(self.log)]
        last = lines[-tail_lines:]
        said = "\n  ".join(last) or "nothing"
        return MotetError(
            f"the {self.name} ended with {self.code}; it said\n  {said}\n",
            hint="run the demo again with --keep, and read the logs in its folder",
        )


class Children:
    """All processes of one run, as a ``with`` block: none is left at its end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._reaper = Reaper()
        self._alive: list[Child] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for child in [*self._alive]:
            self.kill(child)
        self._reaper.close()

    def start(
        self, name: str, module: str, *arguments: str, environment: Mapping[str, str] | None = None
    ) -> Child:
        """Start ``python -m module arguments`` in the folder of the demo."""
        output, log = (self._folder / f"{name.replace(' ', '-')}.{end}" for end in ("out", "log"))
        with output.open("wb") as out, log.open("wb") as err:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=err,
                cwd=self._folder,
                env={**os.environ, **self._temporary_places(), **(environment or {})},
                start_new_session=True,
            )
        self._reaper.started(process.pid)
        child = Child(name, process, output, log)
        self._alive.append(child)
        return child

    def kill(self, child: Child) -> None:
        """``kill -9``."""
        child.kill()
        self.ended(child)

    def dismiss(self, child: Child, codes: tuple[int, ...] = (0,)) -> None:
        """From here on it may end, with one of these codes."""
        child.codes = codes

    def ended(self, child: Child) -> None:
        """It is gone."""
        assert child.code is not None
        child.finish()
        self._alive.remove(child)
        self._reaper.ended(child.pid)

    def check(self) -> None:
        """None has ended that nobody has told to, or in a way that it should not."""
        for child in self._alive:
            if child.code is not None and child.code not in child.codes:
                raise child.failure()

    def _temporary_places(self) -> Mapping[str, str]:
        """A process that is killed leaves its temporary files behind: here they go with the folder."""
        place = self._folder / "temporary"
        place.mkdir(exist_ok=True)
        return {
            "TMPDIR": str(place),
            "SPARK_LOCAL_DIRS": str(place),
            "JAVA_TOOL_OPTIONS": f'-Djava.io.tmpdir="{place}" {QUICK_JAVA}',
        }


def _lines(path: Path) -> list[str]:
    return path.read_text(errors="replace").splitlines()


look_seconds = 0.1
deadline_seconds = 600.0
"""A machine that needs longer is not slow, but stuck."""


class Watch:
    """Looks at a database and at the processes around it."""

    def __init__(
        self,
        db: Database,
        children: Children,
        seconds: float = deadline_seconds,
    ) -> None:
        self._db = db
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
        return self._db.writer(PIPELINE)

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
