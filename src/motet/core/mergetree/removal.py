"""Removing trees of the keeper, in as many reads and multis as it takes.

First all names below the roots are read, then the nodes are deleted, children before their parents. Somebody
else may delete them too, or add to them meanwhile: then it begins anew. It is done when the roots are gone,
or nothing is left but one of them that is to be kept.
"""

from __future__ import annotations

import msgspec

from motet.core.metadata.messages import (
    ANY_VERSION,
    Absent,
    Children,
    Conflict,
    Delete,
    Failed,
    MetadataAnswer,
    Names,
    ReadDone,
    ReadOperation,
    WriteOperation,
    Written,
)

reads_max = 200
"""Nodes whose names are read at a time; fewer when they were too much for one answer."""

deletes_max = 100


class TreeRemoval(msgspec.Struct):
    """How far it is."""

    roots: tuple[str, ...]
    #: whose children have not been read
    unread: list[str]
    #: whose have been, parents first
    found: list[str] = msgspec.field(default_factory=list)
    reads_max: int = reads_max
    #: a root that stays
    kept: str = ""

    @classmethod
    def of(cls, *roots: str, kept: str = "") -> TreeRemoval:
        return cls(roots, list(roots), kept=kept)

    @property
    def reads(self) -> tuple[ReadOperation, ...]:
        """What to read next; nothing: all names are known."""
        return tuple(Children(path) for path in self.unread[: self.reads_max])

    @property
    def writes(self) -> tuple[WriteOperation, ...]:
        """What to delete next, if there is nothing to read; nothing: the trees are gone."""
        return tuple(Delete(path, ANY_VERSION) for path in self.found[: -deletes_max - 1 : -1])

    def take(self, answer: MetadataAnswer) -> bool:
        """What came of the next read or write; False: the keeper could not say, ask once more later."""
        if isinstance(answer, ReadDone):
            self._take_names(answer)
        elif isinstance(answer, Written):
            del self.found[-deletes_max:]
        else:
            self.unread, self.found = list(self.roots), []
            if isinstance(answer, Failed):
                self.reads_max = max(1, self.reads_max // 2)
        return isinstance(answer, ReadDone | Written | Conflict)

    def _take_names(self, answer: ReadDone) -> None:
        del self.unread[: len(answer.results)]
        for result in answer.results:
            if isinstance(result, Names):
                self.found += [result.path] if result.path != self.kept else []
                self.unread += [f"{result.path}/{name}" for name in result.names]
            else:
                assert isinstance(result, Absent), "names were asked for"
