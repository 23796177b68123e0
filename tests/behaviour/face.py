"""What users call, and which case shows it.

``@covers("Stream.append")`` says that a case shows what ``append`` of a stream does. ``test_face.py``
compares what is said with what there is, found by reflection: a call without a case fails there.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TypeVar

import motet
import motet.aio
from motet.client.change import Change, Entry, OwnChange, Position
from motet.client.cluster.database import AsyncClusterDatabase
from motet.client.cursors import NamedCursor
from motet.client.feed import Page
from motet.client.feed_face import FeedPlan
from motet.client.feed_status import (
    FeedStatus,
    IncompleteTransaction,
    NodeStanding,
    ShardStanding,
)
from motet.client.publication import (
    Publication,
    ShownPart,
    Snapshot,
    TableInfo,
    TablePart,
    TableSnapshot,
    WriterInfo,
)
from motet.client.stream import AsyncStream
from motet.client.sync import Stream, Table, Transaction
from motet.client.table import AsyncTable
from motet.client.transaction import AsyncTransaction, TransactionStatus
from motet.core.mergetree.messages import PublishedStep
from motet.core.mergetree.version import Version
from motet.core.onelog.messages import FeedSplit, StreamInfo

F = TypeVar("F", bound=Callable[..., object])

COVERS = "behaviour_covers"

CLASSES: dict[str, type] = {
    # A cluster's has all that every database has, and more.
    "Database": AsyncClusterDatabase,
    "Stream": AsyncStream,
    "Transaction": AsyncTransaction,
    "Table": AsyncTable,
    "Page": Page,
    "Snapshot": Snapshot,
    "TableSnapshot": TableSnapshot,
    "sync.Database": motet.Database,
    "sync.Stream": Stream,
    "sync.Transaction": Transaction,
    "sync.Table": Table,
}

VALUES: tuple[type, ...] = (
    Change,
    Entry,
    FeedPlan,
    FeedSplit,
    FeedStatus,
    IncompleteTransaction,
    NamedCursor,
    NodeStanding,
    OwnChange,
    Position,
    Publication,
    PublishedStep,
    ShardStanding,
    ShownPart,
    StreamInfo,
    TableInfo,
    TablePart,
    TransactionStatus,
    Version,
    WriterInfo,
)
"""What calls answer with."""

MODULES = {"aio": motet.aio, "sync": motet}

NOT_FOR_USERS = {
    "Database.attempts": "what ``transact`` is made of",
    "Database.follow": "what a tail is made of",
    "Database.next_transaction_id": "what a transaction is named by",
    "Database.pause": "how long whoever waits for the database waits",
    "Stream.follow": "what a tail is made of",
    "Stream.is_closing": "asked by a tail",
    "Stream.pause": "asked by a tail",
    "Transaction.abort": "the end of its block",
    "Transaction.begin": "the beginning of its block",
    "Transaction.commit": "the end of its block",
    "Transaction.is_new": "asked by the face without an event loop",
    "Transaction.look_for": "asked by the face without an event loop",
    "sync.Database.made": "how it is made",
    "Page.raw": "what a mirror repeats",
    "Page.runs": "what a page was sent as",
    "FeedSplit.request": "what it answers",
    "StreamInfo.firsts": "``stats`` of a stream says it",
    "TablePart.staged": "what nodes say of it",
    "TablePart.definition_version": "what nodes check when it is published",
    "ShownPart.location": "where Spark finds the file",
}
"""Public by name alone."""


def covers(*calls: str) -> Callable[[F], F]:
    """Say which calls a case shows."""

    def mark(case: F) -> F:
        setattr(case, COVERS, calls)
        return case

    return mark


def fields() -> set[str]:
    """All that users read in what calls answer with."""
    found = set()
    for kind in VALUES:
        names = (*dir(kind), *getattr(kind, "__struct_fields__", ()))
        found |= {f"{kind.__name__}.{name}" for name in names if not name.startswith("_")}
    return found - set(NOT_FOR_USERS)


def face() -> set[str]:
    """All calls and properties that users have."""
    found = {
        f"{name}.{attribute}"
        for name, kind in CLASSES.items()
        for attribute in dir(kind)
        if not attribute.startswith("_")
    }
    for name, module in MODULES.items():
        for attribute in module.__all__:
            if inspect.isfunction(getattr(module, attribute)):
                found.add(f"{name}.{attribute}")
    return found - set(NOT_FOR_USERS)
