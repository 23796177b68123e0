"""Inserting through this replica, and dropping partitions.

I1  The bytes are synced here before anything is asked of the keeper (E3 of machines).
I2  One multi commits an insert: own ``host`` and the definition are checked, the token is made, the part is
    registered, with a quorum its status is made with this replica in it, and the entry is appended, whose
    number the keeper draws. Nothing else makes the insert visible.
I3  Without a quorum it is answered when the multi is done. With one it is answered by what the log says:
    ``done`` or ``failed``, never because a node has vanished (T21).
I4  A token that is there is a retry: with other content it is refused; else it is acknowledged when its block
    is visible, waits while that is open, and is inserted anew when it has failed (T22).
I5  Fewer active replicas than the quorum: refused at once, and nothing is logged.
I6  What became of a multi that the keeper did not answer for is found out by a write and a read under the
    same session, or after ``host`` was raised under another one. Until then its part stays (R4).
"""

from __future__ import annotations

import msgspec

from motet.core.machine import NS_PER_MS
from motet.core.mergetree import executing, pulling
from motet.core.mergetree.context import Core
from motet.core.mergetree.entries import (
    DropEntry,
    InsertEntry,
    PartHeader,
    QuorumStatus,
    encode_entry,
    encode_header,
    encode_status,
)
from motet.core.mergetree.messages import (
    BlockInserted,
    DropPartitions,
    InsertBlock,
    PartitionsDropped,
)
from motet.core.mergetree.names import Block, PartName, of_block
from motet.core.mergetree.paths import entry_number
from motet.core.mergetree.state import (
    CommitDrop,
    CommitInsert,
    Dropping,
    Insert,
    InsertStep,
    OwnPart,
    Phase,
    ReadForInsert,
    SettleRead,
    SettleWrite,
)
from motet.core.mergetree.work import NOBODY, Forget, Keep
from motet.core.metadata.messages import (
    ANY_VERSION,
    Check,
    Conflict,
    Create,
    Failed,
    Found,
    Get,
    MetadataAnswer,
    ReadDone,
    ReadOperation,
    Set,
    Unknown,
    WriteOperation,
    Written,
)
from motet.errors import BadInput, MotetError, NodeError, OutcomeUnknown, error_of
from motet.errors.tables import QuorumFailed, TableReadOnly, TokenReused, TooFewReplicas
from motet.ids import Address, PartId, Zxid


class TokenUse(msgspec.Struct, frozen=True):
    """The data of a token's node."""

    part: PartId
    content: str


_encode_token = msgspec.json.Encoder().encode
_decode_token = msgspec.json.Decoder(TokenUse).decode


def take(core: Core, client: Address, message: InsertBlock) -> None:
    """A client asks for an insert; the bytes of its part have arrived here."""
    state = core.state
    try:
        _check(core, message)
    except MotetError as error:
        core.refuse(client, message, error)
        return
    number = state.next_insert
    state.next_insert += 1
    state.inserts[number] = Insert(client, message, core.now_ns, part=message.part.id)
    core.work(Keep(*core.key, message.part), message.part.id)


def _check(core: Core, message: InsertBlock) -> None:
    if not core.is_active:
        raise TableReadOnly(f"this replica {core.state.why or 'is starting'}")
    replicas = len(core.state.replicas)
    if not 1 <= message.quorum <= replicas:
        what = f"quorum={message.quorum} is not between 1 and the {replicas} replicas of the table"
        raise BadInput(what, hint="ask for fewer, or add replicas")
    known = core.state.parts.get(message.part.id)
    is_registered = known is not None and known.is_registered
    # A copy of an insert may come when its block has long failed: an id is committed once.
    is_named = core.state.history.of_part(message.part.id) is not None
    if core.insert_of(message.part.id) is not None or is_registered or is_named:
        what = f"part {message.part.id} is there already"
        raise BadInput(what, hint="mint an id for each attempt")


def on_kept(core: Core, number: int) -> None:
    """I1: its bytes are synced."""
    insert = core.state.inserts[number]
    header = insert.message.part
    core.state.parts[header.id] = OwnPart(header, is_stored=True)
    _read(core, number)


def on_not_kept(core: Core, number: int, why: str) -> None:
    insert = core.state.inserts.pop(number)
    core.refuse(insert.client, insert.message, NodeError(f"its bytes are not here: {why}"))


def _read(core: Core, number: int) -> None:
    """Read what decides about the insert, all at one moment."""
    insert = core.state.inserts[number]
    insert.step = InsertStep.READING
    reads: list[ReadOperation] = [
        Get(core.paths.token(insert.message.token)),
        Get(core.paths.definition),
    ]
    if insert.message.quorum > 1:
        for node in core.state.replicas:
            paths = core.paths.replica(node)
            reads += [Get(paths.is_active), Get(paths.is_lost)]
    core.read(ReadForInsert(number), *reads)


def on_read(core: Core, call: ReadForInsert, answer: MetadataAnswer) -> None:
    """I4, I5, and then I2."""
    insert = core.state.inserts.get(call.insert)
    if insert is None:
        return
    if not isinstance(answer, ReadDone):
        _refuse(core, call.insert, _failure(answer))
        return
    token, definition, *activity = answer.results
    message = insert.message
    if isinstance(token, Found):
        use = _decode_token(token.data)
        if use.content != message.content:
            error = TokenReused(f"token {message.token!r} was used for other rows")
            _refuse(core, call.insert, error)
            return
        insert.step, insert.part, insert.is_duplicate = InsertStep.WAITING, use.part, True
        insert.version = answer.zxid
        pulling.pull(core)
        return
    if not isinstance(definition, Found):
        _refuse(core, call.insert, BadInput("the table is dropped"))
        return
    if core.state.history.of_part(message.part.id) is not None:
        insert.step, insert.part = InsertStep.WAITING, message.part.id
        return  # it was committed meanwhile: the log says what became of it
    each = iter(activity)
    active = sum(
        isinstance(is_active, Found) and isinstance(is_lost, Found) and is_lost.data != b"1"
        for is_active, is_lost in zip(each, each, strict=True)
    )
    if message.quorum > 1 and active < message.quorum:
        what = f"quorum={message.quorum}, and {active} of {len(core.state.replicas)} replicas are active"
        _refuse(core, call.insert, TooFewReplicas(what))
        return
    _commit(core, call.insert, definition.stat.version)


def _commit(core: Core, number: int, definition_version: int) -> None:
    """I2."""
    insert, paths = core.state.inserts[number], core.paths
    message, header = insert.message, insert.message.part
    insert.step, insert.part, insert.is_duplicate = InsertStep.COMMITTING, header.id, False
    insert.host_version = core.state.host_version
    entry = InsertEntry(header, core.own, message.quorum, message.token)
    operations: list[WriteOperation] = [
        Check(core.own_paths.host, insert.host_version),
        Check(paths.definition, definition_version),
        Create(paths.token(message.token), _encode_token(TokenUse(header.id, message.content))),
        Create(core.own_paths.part(header.id), encode_header(header)),
    ]
    if message.quorum > 1:
        status = QuorumStatus(message.quorum, (core.own,))
        operations.append(Create(paths.status(header.id), encode_status(status)))
    if message.name_path:
        operations.append(Check(message.name_path, message.name_version))
    operations.append(Create(paths.new_entry, encode_entry(entry), sequential=True))
    core.write(CommitInsert(number), *operations)


def on_committed(core: Core, call: CommitInsert, answer: MetadataAnswer) -> None:
    insert = core.state.inserts.get(call.insert)
    if insert is None:
        return
    if isinstance(answer, Written):
        path = answer.results[-1]
        assert isinstance(path, str), "the entry is the last operation"
        _is_committed(core, insert)
        number = entry_number(path)
        executing.tell_others(core, number)
        if insert.message.quorum == 1:
            header = insert.message.part
            _answer(core, call.insert, of_block(header.partition, Block(number)), answer.zxid)
        pulling.pull(core)
    elif isinstance(answer, Conflict):
        _on_conflict(core, call.insert, answer.index)
    elif isinstance(answer, Unknown):
        _settle(core, call.insert)
    else:
        _refuse(core, call.insert, _failure(answer))


def _is_committed(core: Core, insert: Insert) -> None:
    header = insert.message.part
    core.state.parts.setdefault(header.id, OwnPart(header, is_stored=True))
    executing.is_registered(core, header.id)
    insert.step = InsertStep.WAITING


def _on_conflict(core: Core, number: int, index: int) -> None:
    """Nothing was done. The token, the definition or the name has changed, or the host was raised."""
    insert = core.state.inserts[number]
    if index == 0:
        core.state.phase, core.state.why = Phase.WAITING, "is started by another process"
        _refuse(core, number, TableReadOnly("this replica is starting"))
    elif insert.message.name_path and index == (5 if insert.message.quorum > 1 else 4):
        _refuse(core, number, BadInput("the table has another name now", hint="look it up again"))
    else:
        _read(core, number)


# Unknown outcomes


def _settle(core: Core, number: int) -> None:
    """I6: writes of a session take effect in their order, so after this one the other is settled."""
    core.state.inserts[number].step = InsertStep.SETTLING
    core.write(SettleWrite(number), Check(core.own_paths.host, core.state.host_version))


def on_settled(core: Core, call: SettleWrite, answer: MetadataAnswer) -> None:
    insert = core.state.inserts.get(call.insert)
    if insert is None:
        return
    if isinstance(answer, Written):
        core.read(SettleRead(call.insert), Get(core.own_paths.part(insert.message.part.id)))
    elif isinstance(answer, Conflict):
        core.state.phase, core.state.why = Phase.WAITING, "is started by another process"
        _unknown(core, call.insert)


def on_settle_read(core: Core, call: SettleRead, answer: MetadataAnswer) -> None:
    insert = core.state.inserts.get(call.insert)
    if insert is None or not isinstance(answer, ReadDone):
        return
    if isinstance(answer.results[0], Found):
        _is_committed(core, insert)
        pulling.pull(core)
    else:
        _read(core, call.insert)


# Answers


def look(core: Core) -> None:
    """Answer inserts whose block the log has decided about, and those that have waited too long."""
    state = core.state
    for number, insert in list(state.inserts.items()):
        is_late = core.now_ns - insert.since_ns >= core.config.wait_ms * NS_PER_MS
        if insert.step is InsertStep.WAITING and insert.part is not None:
            block = state.history.of_part(insert.part)
            if block is not None and block.visible is not None:
                version = max(block.visible, insert.version)
                _answer(core, number, block.name, version)
                continue
            if block is not None and block.has_failed:
                if insert.is_duplicate:
                    insert.is_duplicate, insert.version = False, Zxid(0)
                    _read(core, number)
                else:
                    what = "the quorum of this block has failed: nothing of it is visible"
                    _refuse(core, number, QuorumFailed(what))
                continue
        if is_late and insert.step in (InsertStep.WAITING, InsertStep.SETTLING):
            _unknown(core, number)


def on_tick(core: Core) -> None:
    """Ask once more what became of commits that the keeper has not answered for."""
    asked = {
        call.insert
        for call in core.state.calls.values()
        if isinstance(call, SettleWrite | SettleRead)
    }
    for number, insert in core.state.inserts.items():
        if insert.step is InsertStep.SETTLING and number not in asked and core.is_active:
            _settle(core, number)


def on_session_end(core: Core) -> None:
    """What was not sent was not done; of what was sent nobody knows until ``host`` was raised (I6)."""
    for number, insert in list(core.state.inserts.items()):
        if insert.step in (InsertStep.COMMITTING, InsertStep.SETTLING):
            _unknown(core, number)
        elif insert.step is InsertStep.READING:
            _refuse(core, number, TableReadOnly("this replica has lost its session"))
    for drop in list(core.state.drops):
        dropping = core.state.drops.pop(drop)
        core.refuse(
            dropping.client, dropping.message, OutcomeUnknown("the drop may have been done")
        )


def _answer(core: Core, number: int, name: PartName, version: Zxid) -> None:
    insert = core.state.inserts.pop(number)
    table, shard = core.key
    message = insert.message
    done = BlockInserted(table, shard, message.request, str(name), version, insert.is_duplicate)
    core.send(insert.client, done)
    if insert.is_duplicate:
        _forget(core, message.part)


def _refuse(core: Core, number: int, error: MotetError) -> None:
    insert = core.state.inserts.pop(number)
    core.refuse(insert.client, insert.message, error)
    _forget(core, insert.message.part)


def _unknown(core: Core, number: int) -> None:
    """The part stays: it may be committed."""
    insert = core.state.inserts.pop(number)
    what = "it is not known whether the block is inserted"
    core.refuse(
        insert.client,
        insert.message,
        OutcomeUnknown(what, hint="insert it again with the same token"),
    )


def _forget(core: Core, header: PartHeader) -> None:
    """Remove bytes that no multi names, and no entry."""
    own = core.state.parts.get(header.id)
    is_named = core.state.history.of_part(header.id) is not None
    if own is not None and not own.is_registered and not is_named:
        del core.state.parts[header.id]
        core.work(Forget(*core.key, header.id), NOBODY)


def _failure(answer: MetadataAnswer) -> MotetError:
    if isinstance(answer, Failed):
        return error_of(answer.code, answer.what, answer.advice)
    return NodeError("the keeper did not answer", hint="try again in a moment")


# Drops


def drop(core: Core, client: Address, message: DropPartitions) -> None:
    """One entry: everything with a lower number is dropped."""
    if not core.is_active:
        core.refuse(client, message, TableReadOnly(f"this replica {core.state.why}"))
        return
    state = core.state
    number = state.next_insert
    state.next_insert += 1
    state.drops[number] = Dropping(client, message)
    core.write(
        CommitDrop(number),
        Check(core.paths.definition, ANY_VERSION),
        Set(core.paths.log, b"", ANY_VERSION),
        Create(core.paths.new_entry, encode_entry(DropEntry(message.partitions)), sequential=True),
    )


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
        executing.tell_others(core, entry_number(path))
        pulling.pull(core)
    elif isinstance(answer, Unknown):
        error = OutcomeUnknown("the drop may have been done")
        core.refuse(dropping.client, dropping.message, error)
    else:
        core.refuse(dropping.client, dropping.message, _failure(answer))
