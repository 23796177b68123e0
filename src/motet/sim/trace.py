"""The trace of a simulated run: one dense line per thing that happened, and a digest of all lines.

Columns::

    12.345 n1.notes  < c1 Remember request=3 value=v3
    │      │         │ └─ what: a message, a file and its bytes, a note, a fault
    │      │         └─── glyph
    │      └───────────── node and machine
    └──────────────────── virtual milliseconds

    ^ started    < received    > sent        w write begun    W durable     F write failed
    r read back  t timer fired * note        ! fault          x crashed     ~ held until durable
"""

from __future__ import annotations

import hashlib

STARTED, RECEIVED, SENT, HELD = "^", "<", ">", "~"
WRITING, DURABLE, WRITE_FAILED, READ = "w", "W", "F", "r"
FIRED, NOTED, FAULT, CRASHED = "t", "*", "!", "x"

GLYPHS = STARTED + RECEIVED + SENT + HELD + WRITING + DURABLE + WRITE_FAILED + READ + FIRED
GLYPHS += NOTED + FAULT + CRASHED


class Trace:
    """Collects lines; keeps all of them, or only the newest when told how many."""

    def __init__(self, lines_max: int | None = None) -> None:
        self._lines: list[str] = []
        self._lines_max = lines_max
        self._digest = hashlib.blake2b(digest_size=16)
        self.count = 0

    def add(self, elapsed_ns: int, who: str, glyph: str, what: str) -> None:
        """One more line, whatever is in it."""
        if "\n" in what:
            what = what.replace("\n", "\\n")
        line = f"{elapsed_ns // 1_000 / 1_000:10.3f} {who:<10} {glyph} {what}"
        self.count += 1
        self._digest.update(line.encode())
        self._digest.update(b"\n")
        self._lines.append(line)
        if self._lines_max is not None and len(self._lines) > 2 * self._lines_max:
            del self._lines[: -self._lines_max]

    @property
    def lines(self) -> list[str]:
        """The lines kept, oldest first."""
        return self._lines if self._lines_max is None else self._lines[-self._lines_max :]

    def digest(self) -> str:
        """Equal for equal traces, all lines counted whether kept or not."""
        return self._digest.hexdigest()
