"""What is being forgotten by ``windows``, as plain data."""

from __future__ import annotations

import msgspec

from motet.ids import Zxid


class Remembered(msgspec.Struct, frozen=True, order=True, array_like=True):
    """A token, a producer or a hash, and when it was used last."""

    mzxid: Zxid
    mtime_ms: int
    path: str
    version: int


class Sweep(msgspec.Struct):
    """Forgetting what is out of a window."""

    parent: str
    #: so many stay, and all that are not so old
    window: int
    age_ms: int
    #: of the node above them, when they were listed
    version: int = 0
    #: the newest time of the keeper that was seen
    now_ms: int = 0
    #: to be read
    names: tuple[str, ...] = ()
    reads_max: int = 128
    #: read; then those that go, the oldest last
    found: list[Remembered] = msgspec.field(default_factory=list)
