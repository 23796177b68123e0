"""What a replica has done with the bytes of parts, which it never sees itself.

Each replica has three folders: *stored* parts are promised, those that have *arrived* are streamed ahead and
promise nothing (T25), *detached* ones wait for a person. Whatever ends a task well is synced. Tasks about one
part are done in the order in which they are asked for.
"""

from __future__ import annotations

from motet.core.machine import Message
from motet.core.mergetree.entries import PartHeader
from motet.ids import NodeId, PartId, TableId

NOBODY = PartId("")
"""Instead of a part, for work that is not about one part."""


class Task(Message, frozen=True, tag=lambda name: f"tables.work.{name}"):
    """Above all tasks. Each names the replica whose folders are meant: a node may have several."""

    table: TableId
    shard: int


class LookAtDisk(Task, frozen=True):
    """Say what is on disk."""


class Keep(Task, frozen=True):
    """Store a part that has arrived, or was detached with this hash; one that is stored is fine."""

    part: PartHeader


class Fetch(Task, frozen=True):
    """Get a part from another replica, check its hash, and store it."""

    part: PartHeader
    source: NodeId


class Forget(Task, frozen=True):
    """Remove a part that was stored and not registered."""

    part: PartId


class Detach(Task, frozen=True):
    """Put a part aside, and say why."""

    part: PartId
    why: str


class TaskResult(Message, frozen=True, tag=lambda name: f"tables.work.{name}"):
    """Above what tasks find."""


class Looked(TaskResult, frozen=True):
    """What is on disk, whole."""

    stored: tuple[PartHeader, ...]
    #: arrived, or detached: bytes that may be stored again (T24)
    aside: tuple[PartHeader, ...]
