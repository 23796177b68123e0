"""Tells how the demo goes on: one line per phase, rewritten in place on a terminal, else printed once."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

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
