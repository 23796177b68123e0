"""Dropping partitions: one entry, and everything with a lower number is dropped.

D1  The entry decides: blocks below it are gone from its version on, open ones too (T32). It names no parts,
    so it checks no host; it checks the definition, and the name if the table was addressed by it (T27).
D2  Drops set ``log``, whose data version merges check (T30).
"""

from __future__ import annotations

from motet.core.mergetree import checks, pulling
from motet.core.mergetree.context import Core
from motet.core.mergetree.entries import DropEntry, encode_entry
from motet.core.mergetree.inserting import failure
from motet.core.mergetree.messages import DropPartitions, PartitionsDropped
from motet.core.mergetree.paths import entry_number
from motet.core.mergetree.state import CommitDrop, Dropping
from motet.core.metadata.messages import (
    ANY_VERSION,
    Check,
    Conflict,
    Create,
    MetadataAnswer,
    Set,
    Unknown,
    WriteOperation,
    Written,
)
from motet.errors import MotetError, NodeError, NoSuchTable, OutcomeUnknown
from motet.errors.tables import TableMoved
from motet.ids import Address


def drop(core: Core, client: Address, message: DropPartitions) -> None:
    """One entry: everything with a lower number is dropped."""
    try:
        checks.check_drop(core, message)
    except MotetError as error:
        core.refuse(client, message, error)
        return
    state = core.state
    number = state.next_insert
    state.next_insert += 1
    state.drops[number] = Dropping(client, message)
    operations: list[WriteOperation] = [Check(core.paths.definition, ANY_VERSION)]
    if message.name_path:
        operations.append(Check(message.name_path, message.name_version))
    entry = encode_entry(DropEntry(message.partitions))
    operations.append(Set(core.paths.log, b"", ANY_VERSION))
    operations.append(Create(core.paths.new_entry, entry, sequential=True))
    core.write(CommitDrop(number), *operations)


def on_dropped(core: Core, call: CommitDrop, answer: MetadataAnswer) -> None:
    dropping = core.state.drops.pop(call.drop, None)
    if dropping is None:
        return
    if isinstance(answer, Written):
        path = answer.results[-1]
        assert isinstance(path, str), "the entry is the last operation"
        table, shard = core.key
        done = PartitionsDropped(table, shard, dropping.message.request, answer.zxid)
        core.send(dropping.client, done)
        core.tell_others(entry_number(path))
        pulling.pull(core)
    elif isinstance(answer, Conflict):
        core.refuse(
            dropping.client, dropping.message, failure_of(answer, dropping.message.name_path)
        )
    elif isinstance(answer, Unknown):
        error = OutcomeUnknown("the drop may have been done")
        core.refuse(dropping.client, dropping.message, error)
    else:
        core.refuse(dropping.client, dropping.message, failure(answer))


def failure_of(conflict: Conflict, name_path: str) -> MotetError:
    """Nothing was done: what is in the way."""
    if conflict.index == 0:
        return NoSuchTable("the table is dropped")
    if conflict.index == 1 and name_path:
        return TableMoved("the table has another name now")
    return NodeError("the keeper refused the drop", hint="try again in a moment")
