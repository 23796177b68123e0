"""What an operator asks of the metadata store, and the answers.

The store is the keeper. An operator reaches it through its own node, at the address ``STORE``: in a process
that is an adapter around a keeper client, in the simulator an actor with the same promises. Every write names
the version that it replaces; the outcome of a write can be *unknown*, and then the operator reads again.
"""

from __future__ import annotations

import msgspec

from motet.core.machine import Message
from motet.ids import Address, NodeId, RequestId

STORE = Address("store")


class StoreMessage(Message, frozen=True, tag=lambda name: f"store.{name}"):
    """Above all messages between an operator and its store."""


class StoreRequest(StoreMessage, frozen=True):
    """Above all that is asked of it."""

    request: RequestId


class ReadAll(StoreRequest, frozen=True):
    """Everything at and below these paths, linearizable, at one moment; a path that is not there is fine."""

    paths: tuple[str, ...]


class Put(StoreRequest, frozen=True):
    """Write a node if it has this version; None creates it."""

    path: str
    data: bytes
    version: int | None


class Delete(StoreRequest, frozen=True):
    """Delete a node if it has this version."""

    path: str
    version: int


class StoredNode(msgspec.Struct, frozen=True, array_like=True):
    """A node of the store."""

    path: str
    data: bytes
    version: int


class AllRead(StoreMessage, frozen=True):
    """The nodes, sorted by their paths."""

    request: RequestId
    nodes: tuple[StoredNode, ...]


class Done(StoreMessage, frozen=True):
    """Written; this is the version now (-1: deleted)."""

    request: RequestId
    version: int


class VersionConflict(StoreMessage, frozen=True):
    """Nothing was written: somebody else has been there."""

    request: RequestId


class OutcomeIsUnknown(StoreMessage, frozen=True):
    """It may have been written, or may be written yet; read again."""

    request: RequestId


class StoreFailed(StoreMessage, frozen=True):
    """The store could not be reached, or refused; nothing was written."""

    request: RequestId
    what: str


class Elected(StoreMessage, frozen=True):
    """This operator is the active one from now on. Others may still believe the same of themselves."""


class Deposed(StoreMessage, frozen=True):
    """It no longer is, or another one is now."""

    active: NodeId | None = None


class Changed(StoreMessage, frozen=True):
    """Something below one of the paths has changed: read again when convenient."""

    path: str


REFERENCE: tuple[tuple[type[StoreMessage], str, str], ...] = (
    (ReadAll, "operator", "store"),
    (AllRead, "store", "operator"),
    (Put, "operator", "store"),
    (Delete, "operator", "store"),
    (Done, "store", "operator"),
    (VersionConflict, "store", "operator"),
    (OutcomeIsUnknown, "store", "operator"),
    (StoreFailed, "store", "operator"),
    (Elected, "store", "operator"),
    (Deposed, "store", "operator"),
    (Changed, "store", "operator"),
)
"""Who says what to whom."""
