"""The incarnation of the keeper, which versions name beside their zxid.

N1  ``/motet/database`` is written by the first node that finds none, with an incarnation drawn from the
    randomness of its process. It is written anew when a keeper is restored, and by a person (T1, T38).
N2  A node reads it with each session before its replicas and services do anything under it, and again when
    it changes.
N3  A watch that the keeper has not set is asked for again: else replicas of an older copy would never hear
    that a new incarnation was drawn.
"""

from __future__ import annotations

import msgspec

from motet.core.mergetree.context import NodeContext
from motet.core.mergetree.service import NodeService
from motet.core.metadata.definitions import (
    DatabaseIdentity,
    decode_database_identity,
    drawn_incarnation,
    encode_database_identity,
)
from motet.core.metadata.messages import (
    Changed,
    Conflict,
    Create,
    Found,
    Get,
    MetadataAnswer,
    ReadDone,
    ReadResult,
    Watching,
    WatchOf,
    Written,
)
from motet.core.metadata.paths import DATABASE
from motet.errors import BadRecord
from motet.ids import RequestId


class DatabaseMemory(msgspec.Struct):
    """What is under way."""

    #: a read, or the write that makes the node
    asked: RequestId | None = None
    #: the request that sets the watch, answered or not; None: it has not been set
    watching: RequestId | None = None
    #: it has changed since that was asked
    is_wanted: bool = False
    #: what stands there and cannot be read: it is noted once
    bad: bytes = b""


class DatabaseService(NodeService):
    """Learns the incarnation."""

    name = "database"

    def __init__(self, node: NodeContext) -> None:
        super().__init__(node)
        self.memory: DatabaseMemory = DatabaseMemory()

    def on_session(self) -> None:
        self.memory.asked = None
        self._watch()
        self._read()

    def on_changed(self, changed: Changed) -> None:
        if changed.path == DATABASE:
            self._read()

    def on_tick(self) -> None:
        """The keeper could not say, or what it said was no identity."""
        memory = self.node.memory
        if memory.session and self.memory.watching is None:
            self._watch()
        is_unknown = self.memory.is_wanted or self.memory.bad or not memory.incarnation
        if memory.session and is_unknown:
            self._read()

    def on_answer(self, request: RequestId, answer: MetadataAnswer) -> None:
        memory = self.memory
        if request == memory.watching:
            if isinstance(answer, Watching):
                self._read()  # what came before the watch is told by nobody
            else:
                memory.watching = None  # N3: with the next tick
            return
        if request != memory.asked:
            return
        memory.asked = None
        if isinstance(answer, ReadDone):
            self._take(answer.results[0])
        else:
            memory.is_wanted = True
            if not isinstance(answer, Written | Conflict):
                return  # the next tick reads it
        if memory.is_wanted:
            self._read()

    def _watch(self) -> None:
        self.memory.watching = self.watch(DATABASE, WatchOf.NODE)

    def _read(self) -> None:
        memory = self.memory
        memory.is_wanted = memory.asked is not None
        if memory.asked is None:
            memory.asked = self.read(Get(DATABASE))

    def _take(self, found: ReadResult) -> None:
        node, memory = self.node.memory, self.memory
        if not isinstance(found, Found):
            made = DatabaseIdentity(drawn_incarnation(node.nonce))
            memory.asked = self.write(Create(DATABASE, encode_database_identity(made)))  # N1
            return
        try:
            incarnation = decode_database_identity(found.data).incarnation
        except BadRecord as error:
            if found.data != memory.bad:
                self.node.note("bad_database", error.what)
            memory.bad = found.data
            return
        memory.bad = b""
        if node.incarnation and node.incarnation != incarnation:
            self.node.note("other_incarnation", f"{incarnation}, not {node.incarnation}")
        node.incarnation = incarnation
