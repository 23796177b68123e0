"""Dropping partitions: one entry, and everything with a lower number is dropped.

D1  The entry decides: blocks below it are gone from its version on, open ones too (T32). It names no parts,
    so it checks no host; it checks the definition, and the name if the table was addressed by it (T27).
D2  Drops set ``log``, whose data version merges check (T30).
"""

from __future__ import annotations

from motet.core.mergetree import addressing, checks, pulling
from motet.core.mergetree.context import Core
from motet.core.mergetree.entries import DropEntry, encode_entry
from motet.core.mergetree.inserting import failure
from motet.core.mergetree.messages import DropPartitions, PartitionsDropped
from motet.core.mergetree.paths import entry_number
from motet.core.mergetree.state import CommitDrop, Dropping, ReadForDrop
from motet.core.metadata.messages import (
    ANY_VERSION,
    Check,
    Conflict,
    Create,
    Get,
    MetadataAnswer,
    ReadDone,
    Set,
    Unknown,
    WriteOperation,
    Written,
)
from motet.errors import MotetError, NoSuchTable, OutcomeUnknown
from motet.ids import Address

NAME = 1
"""Where the name is in the multi, if the table was addressed by one; before it is the definition."""


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
    if message.name_path:
        _read(core, number)
    else:
        _commit(core, number, ANY_VERSION)


def _read(core: Core, number: int) -> None:
    name = core.state.drops[number].message.name_path
    core.read(ReadForDrop(number), Get(core.paths.definition), Get(name))


def on_read(core: Core, call: ReadForDrop, answer: MetadataAnswer) -> None:
    """D1."""
    dropping = core.state.drops.get(call.drop)
    if dropping is None:
        return
    message = dropping.message
    try:
        if not isinstance(answer, ReadDone):
            raise failure(answer)
        definition, *name = answer.results
        version = addressing.definition_version(definition)
        addressing.check_named(core.key[0], name, message.name_version)
    except MotetError as error:
        del core.state.drops[call.drop]
        core.refuse(dropping.client, message, error)
        return
    _commit(core, call.drop, version)


def _commit(core: Core, number: int, definition_version: int) -> None:
    message = core.state.drops[number].message
    operations: list[WriteOperation] = [Check(core.paths.definition, definition_version)]
    if message.name_path:
        operations.append(Check(message.name_path, message.name_version))
    entry = encode_entry(DropEntry(message.partitions))
    operations.append(Set(core.paths.log, b"", ANY_VERSION))
    operations.append(Create(core.paths.new_entry, entry, sequential=True))
    core.write(CommitDrop(number), *operations)


def on_dropped(core: Core, call: CommitDrop, answer: MetadataAnswer) -> None:
    dropping = core.state.drops.get(call.drop)
    if dropping is None:
        return
    if isinstance(answer, Conflict) and dropping.message.name_path and answer.index <= NAME:
        _read(core, call.drop)  # it tells what is in the way
        return
    del core.state.drops[call.drop]
    if isinstance(answer, Written):
        path = answer.results[-1]
        assert isinstance(path, str), "the entry is the last operation"
        table, shard = core.key
        done = PartitionsDropped(table, shard, dropping.message.request, answer.zxid)
        core.send(dropping.client, done)
        core.tell_others(entry_number(path))
        pulling.pull(core)
    elif isinstance(answer, Conflict):
        error: MotetError = NoSuchTable("the table is dropped")
        core.refuse(dropping.client, dropping.message, error)
    elif isinstance(answer, Unknown):
        error = OutcomeUnknown("the drop may have been done")
        core.refuse(dropping.client, dropping.message, error)
    else:
        core.refuse(dropping.client, dropping.message, failure(answer))
