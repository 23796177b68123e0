"""The processes that the demo starts: each can be killed, told to finish, and is gone when the demo is.

A child leads a process group of its own: ^C in the terminal is for the demo alone, and killing the group
takes Spark's Java along. What the children write into temporary folders is in the folder of the demo. A
reaper ends them even if the demo itself is killed with -9.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from motet.errors import MotetError
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
