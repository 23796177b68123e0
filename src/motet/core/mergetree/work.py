"""What a replica has done with the bytes of parts, which it never sees itself.

Each replica has four folders: *stored* parts are promised, *staged* ones are held for a publication (T4, T5),
those that have *arrived* are streamed ahead and promise nothing (T25), *detached* ones wait for a person.
Whatever ends a task well is synced. Tasks about one part are done in the order in which they are asked for.
"""

from __future__ import annotations

from motet.core.machine import Message
from motet.core.mergetree.entries import PartHeader
from motet.core.mergetree.messages import PartBytes
from motet.errors import DiskFull, MotetError, NodeError
from motet.ids import NodeId, PartId, TableId

NOBODY = PartId("")
"""Instead of a part, for work that is not about one part."""


def said_by(error: MotetError) -> str:
    """Why a task has failed, as a replica is told: a disk without room says so."""
    return f"{error.code} {error.what}" if isinstance(error, DiskFull) else error.what


def not_here(why: str) -> MotetError:
    """What a client is told whose bytes a task could not store."""
    code, _, what = why.partition(" ")
    return DiskFull(what) if code == DiskFull.code else NodeError(f"its bytes are not here: {why}")


class Task(Message, frozen=True, tag=lambda name: f"tables.work.{name}"):
    """Above all tasks. Each names the replica whose folders are meant: a node may have several."""

    table: TableId
    shard: int


class LookAtDisk(Task, frozen=True):
    """Say what is on disk."""


class Arrive(Task, frozen=True):
    """Write bytes that were sent ahead to the arrived ones."""

    part: PartHeader
    block: PartBytes


class Keep(Task, frozen=True):
    """Store a part: from these bytes, or one that is staged, has arrived, or was detached with this hash; one
    that is stored and whole is fine, one that is damaged is replaced."""

    part: PartHeader
    block: PartBytes | None = None


class Hold(Task, frozen=True):
    """Have a part among the staged ones: from these bytes, or one that is here in any folder with this hash,
    or from another replica."""

    part: PartHeader
    block: PartBytes | None = None
    source: NodeId | None = None


class Release(Task, frozen=True):
    """Remove a part that was staged, or that has arrived."""

    part: PartId


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


class Clear(Task, frozen=True):
    """Remove all folders of a replica whose table is dropped."""


class TaskResult(Message, frozen=True, tag=lambda name: f"tables.work.{name}"):
    """Above what tasks find."""


class Looked(TaskResult, frozen=True):
    """What is on disk."""

    #: whole, as far as their manifests say
    stored: tuple[PartHeader, ...]
    #: arrived, or detached: bytes that may be stored again (T24)
    aside: tuple[PartHeader, ...]
    #: held for publications
    staged: tuple[PartHeader, ...] = ()
    #: among the stored ones, and not what was written: the file, or its manifest, is missing or damaged
    broken: tuple[PartId, ...] = ()
