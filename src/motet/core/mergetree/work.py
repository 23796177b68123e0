"""What a replica has done with the bytes of parts, which it never sees itself.

A node keeps parts in three folders: *stored* ones are promised, those that have *arrived* are streamed ahead
and promise nothing (T25), *detached* ones wait for a person. Whatever ends a task well is synced.
"""

from __future__ import annotations

from motet.core.machine import Message
from motet.core.mergetree.entries import PartHeader
from motet.ids import NodeId, PartId


class Task(Message, frozen=True, tag=lambda name: f"tables.work.{name}"):
    """Above all tasks."""


class Look(Task, frozen=True):
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
