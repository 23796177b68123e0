"""What a request must be like to be taken at all, and the parts of a transaction."""

from __future__ import annotations

from typing import Protocol

from motet.core.streams.change import OPS, Branch
from motet.core.streams.messages import (
    AbortTransaction,
    CloseShard,
    CommitTransaction,
    OrderShard,
    PrepareTransaction,
)
from motet.core.streams.orders import check_order
from motet.errors import BadInput, TooLarge
from motet.ids import ShardName
from motet.limits import (
    key_bytes_max,
    row_bytes_max,
    transaction_bytes_max,
    transaction_changes_max,
    transaction_id_length_max,
    transaction_participants_max,
)


def check_request(
    message: PrepareTransaction | CommitTransaction | AbortTransaction | CloseShard | OrderShard,
) -> None:
    """``BadInput`` or ``TooLarge`` for what cannot be taken."""
    if isinstance(message, CloseShard):
        return
    if isinstance(message, OrderShard):
        check_order(message.order)
        return
    if message.participants:
        _check_participants(message.shard, message.participants)
    if isinstance(message, AbortTransaction):
        check_transaction_id(message.transaction)
        return
    branch = message.branch
    check_transaction_id(branch.transaction)
    count = len(branch.changes) + len(message.reads)
    check_transaction_count(count)
    _check_changes(branch)
    for read in message.reads:
        check_key(read.key)
    if isinstance(message, CommitTransaction):
        if len(message.votes) != len(message.participants):  # X7
            counts = f"{len(message.votes)} votes of {len(message.participants)} participants"
            raise BadInput(f"a commit of {branch.transaction} with {counts}")
        return
    if isinstance(message, PrepareTransaction):
        is_home = message.shard == message.home
        if is_home == (message.shard in message.participants) or (
            message.home in message.participants
        ):
            raise BadInput("a prepare is for a participant or the home shard, which is none")
        if not count:
            raise BadInput("a shard without reads and changes has no part in a transaction")


def _check_participants(shard: ShardName, participants: tuple[ShardName, ...]) -> None:
    count = len(participants)
    if count >= transaction_participants_max:
        raise TooLarge(f"a transaction has at most {transaction_participants_max} shards")
    if len(dict.fromkeys(participants)) != count:
        raise BadInput(f"a transaction of {shard} names a participant twice")


def check_transaction_id(name: str) -> None:
    if not 0 < len(name) <= transaction_id_length_max:
        raise BadInput(f"a transaction id has 1 to {transaction_id_length_max} characters")


def _check_changes(branch: Branch) -> None:
    total_bytes, last, count = 0, -1, branch.count
    if not 0 <= count <= transaction_changes_max:
        raise TooLarge(f"{count} changes exceed the limit of {transaction_changes_max}")
    for change in branch.changes:
        if not last < change.index < count:
            raise BadInput("the changes of a transaction are numbered from 0, and rise")
        last = change.index
        total_bytes += check_change(change)
    check_transaction_bytes(total_bytes)


def check_transaction_count(count: int) -> None:
    """Of reads and changes."""
    if count > transaction_changes_max:
        raise TooLarge(
            f"a transaction of {count} reads and changes exceeds the limit of {transaction_changes_max}"
        )


def check_transaction_bytes(total_bytes: int) -> None:
    if total_bytes > transaction_bytes_max:
        raise TooLarge(
            f"a transaction of {total_bytes} bytes exceeds the limit of {transaction_bytes_max}"
        )


class WantedChange(Protocol):
    """What somebody wants to make of the row of a key."""

    @property
    def key(self) -> bytes: ...
    @property
    def op(self) -> str: ...
    @property
    def row(self) -> bytes | None: ...
    @property
    def before(self) -> bytes | None: ...


def check_change(change: WantedChange) -> int:
    """Its size in bytes."""
    key, op, row, before = change.key, change.op, change.row, change.before
    check_key(key)
    if op not in OPS:
        raise BadInput(f"{op!r} is no change of a row", hint="insert, update or delete")
    if (row is None) != (op == "delete"):
        raise BadInput(f"{op} of a key {'without' if row is None else 'with'} a row")
    return len(key) + check_row(row or b"") + check_row(before or b"")


def check_row(row: bytes) -> int:
    """Its size in bytes."""
    if len(row) > row_bytes_max:
        raise TooLarge(f"a row of {len(row)} bytes exceeds the limit of {row_bytes_max}")
    return len(row)


def check_key(key: bytes) -> None:
    if not key:
        raise BadInput("a key cannot be empty")
    if len(key) > key_bytes_max:
        raise TooLarge(f"a key of {len(key)} bytes exceeds the limit of {key_bytes_max}")
