"""Runs of the demo as processes, each with a temporary folder by which all that it starts can be found."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

wait_seconds_max = 120


class Run:
    """`motet demo` with these words, in a folder for all that it leaves behind."""

    def __init__(self, folder: Path, *words: str, **environment: str) -> None:
        self.folder = folder / "temporary"
        self.folder.mkdir()
        self._json = folder / "report.json"
        self._output = folder / "output"
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "motet", "demo", *words, "--json", str(self._json)],
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env={**os.environ, "TMPDIR": str(self.folder), **environment},
            )

    def code(self) -> int:
        """What it ends with."""
        return self.process.wait(wait_seconds_max)

    def output(self) -> str:
        return self._output.read_text(encoding="utf-8", errors="replace")

    def report(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._json.read_text())
        return found

    def until_started(self, word: str) -> None:
        """Wait until one of its processes has this word in its command line."""
        deadline = time.monotonic() + wait_seconds_max
        while not any(word in command for command in self.started().values()):
            assert self.process.poll() is None, self.output()
            assert time.monotonic() < deadline, self.output()
            time.sleep(0.02)

    def until_gone(self) -> None:
        """Wait until none of its processes is left."""
        deadline = time.monotonic() + wait_seconds_max
        while left := self.started():
            assert time.monotonic() < deadline, left
            time.sleep(0.05)

    def started(self) -> dict[int, str]:
        """The processes that run in its temporary folder, with their command lines."""
        found = {}
        for process in Path("/proc").glob("[0-9]*"):
            try:
                environment = (process / "environ").read_bytes()
                command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:  # it has ended, or is not ours
                continue
            if os.fsencode(self.folder) in environment and int(process.name) != self.process.pid:
                found[int(process.name)] = command
        return found

    def end(self) -> None:
        """Whatever a test has come to, nothing is left."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(wait_seconds_max)
