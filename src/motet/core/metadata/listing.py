"""Reading nodes and all their children: first the names, then the nodes, so many in one read.

It is plain state for a core to hold. Each read is at one moment; the reads of a long listing are not at the
same one. A node that is gone by its read is left out, one that came after the names were read is missed: a
watch that was set before tells of both.
"""

from __future__ import annotations

import msgspec

from motet.core.metadata.messages import Children, Found, Get, Names, ReadOperation, ReadResult

nodes_max = 500
"""In one read."""


class Listing(msgspec.Struct, frozen=True):
    """The nodes at some paths and the children of each."""

    paths: tuple[str, ...]
    has_names: bool = False
    #: to be read, in order
    wanted: tuple[str, ...] = ()
    found: tuple[Found, ...] = ()

    @property
    def operations(self) -> tuple[ReadOperation, ...]:
        """What to read next; nothing when all is found."""
        if not self.has_names:
            return tuple(Children(path) for path in self.paths)
        return tuple(Get(path) for path in self.wanted[:nodes_max])

    def after(self, results: tuple[ReadResult, ...]) -> Listing:
        """The listing when its next read is done."""
        if self.has_names:
            found = tuple(each for each in results if isinstance(each, Found))
            return msgspec.structs.replace(
                self, wanted=self.wanted[nodes_max:], found=self.found + found
            )
        below = [
            f"{each.path}/{name}"
            for each in results
            if isinstance(each, Names)
            for name in each.names
        ]
        wanted = tuple(sorted(dict.fromkeys((*self.paths, *below))))
        return msgspec.structs.replace(self, has_names=True, wanted=wanted)
