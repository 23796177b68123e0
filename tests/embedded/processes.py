"""Other Python processes for tests: each runs a text of code and says on stdout what it did."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def run_python(code: str, *arguments: str | Path) -> str:
    """What the code prints; it has to end well."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def python_running(code: str, *arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
    """A process that is killed with -9 at the end of the block, if it still runs."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def line_of(process: subprocess.Popen[str]) -> str:
    """The next line it prints."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, "the process has ended"
    return line.strip()
