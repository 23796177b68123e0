"""Versions: moments of the keeper, which name a state of all tables.

A version is the pair of an incarnation and a zxid, printed ``500@a1b2``. The zxid orders the writes of one
keeper. The incarnation is drawn when a keeper is formatted or restored: a restored keeper counts on from an
older zxid, so without it the same number would name two states (T1). Versions of one incarnation are ordered;
those of two cannot be compared.
"""

from __future__ import annotations

import re

import msgspec

from motet.errors import BadInput
from motet.ids import Zxid

_TEXT = re.compile(r"(0|[1-9][0-9]{0,18})@([0-9a-f]{4,16})")


class Version(msgspec.Struct, frozen=True, array_like=True):
    """A state of all tables."""

    incarnation: str
    zxid: Zxid

    def __str__(self) -> str:
        return f"{self.zxid}@{self.incarnation}"

    def __lt__(self, other: Version) -> bool:
        self._check(other)
        return self.zxid < other.zxid

    def __le__(self, other: Version) -> bool:
        self._check(other)
        return self.zxid <= other.zxid

    def __gt__(self, other: Version) -> bool:
        return other < self

    def __ge__(self, other: Version) -> bool:
        return other <= self

    def _check(self, other: Version) -> None:
        if self.incarnation != other.incarnation:
            raise BadInput(
                f"versions {self} and {other} are of different incarnations and have no order",
                hint="the keeper was restored in between: read the table again",
            )


def parse_version(text: str) -> Version:
    """Read a version back; ``BadInput`` when it is none."""
    match = _TEXT.fullmatch(text)
    if match is None:
        raise BadInput(f"{text[:60]!r} is not a version", hint="a version looks like 500@a1b2")
    return Version(match[2], Zxid(int(match[1])))
