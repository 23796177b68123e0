"""Inserting through this replica.

I1  The bytes are synced here before the commit is sent (E3 of machines). What decides about the insert is
    read while they are written; whatever has changed since is refused by the commit.
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
I7  Quorum 0 is the majority of the shard's replicas, active or not.
"""

from __future__ import annotations

import msgspec

from motet.core.machine import NS_PER_MS
from motet.core.mergetree import (
    addressing,
    checks,
    dedup,
    ending,
    executing,
    pulling,
    pushing,
    tokens,
)
from motet.core.mergetree.context import Core
from motet.core.mergetree.entries import (
    InsertEntry,
    QuorumStatus,
    encode_entry,
    encode_header,
    encode_status,
)
from motet.core.mergetree.messages import BlockInserted, InsertBlock
from motet.core.mergetree.names import Block, PartName, of_block
from motet.core.mergetree.paths import entry_number
from motet.core.mergetree.state import (
    CommitInsert,
    Insert,
    InsertStep,
    OwnPart,
    ReadForInsert,
    SettleRead,
    SettleWrite,
)
from motet.core.mergetree.tokens import NumberUse, UsedToken
from motet.core.mergetree.work import Forget, Keep, not_here
from motet.core.metadata.messages import (
    Check,
    Conflict,
    Create,
    Failed,
    Found,
    Get,
    MetadataAnswer,
    ReadDone,
    ReadOperation,
    ReadResult,
    Refusal,
    Unknown,
    WriteOperation,
    Written,
)
from motet.errors import BadInput, MotetError, NodeError, NoSuchTable, OutcomeUnknown, error_of
from motet.errors.tables import QuorumFailed, TableBusy, TableMoved, TableReadOnly, TooFewReplicas
from motet.ids import Address, Zxid

HOST, DEFINITION, NAME = range(3)
"""What the first operations of a commit check, if it names a name: their places say what was refused."""

conflicts_max = 200
"""How often a commit is tried: more than producers are pipelined. What never fits is not tried in a loop."""


def take(core: Core, client: Address, message: InsertBlock) -> None:
    """A client asks for an insert; the bytes of its part have arrived here."""
    state = core.state
    try:
        checks.check_insert(core, message)
    except MotetError as error:
        core.refuse(client, message, error)
        return
    number = state.next_insert
    state.next_insert += 1
    block = message.block
    quorum = message.quorum or core.majority
    message = msgspec.structs.replace(message, quorum=quorum, block=None)
    insert = Insert(client, message, core.now_ns, part=message.part.id)
    state.inserts[number] = insert
    own = state.parts.get(message.part.id)
    if own is not None and own.is_stored and own.header.hash == message.part.hash:
        _read(core, number)  # a copy of a request of which nobody knows what became of it
    else:
        insert.work = core.work_on_block(Keep(*core.key, message.part, block))
        pushing.push(core, message.part, block)
        if core.is_active:
            _read(core, number)


def on_kept(core: Core, number: int) -> None:
    """I1: its bytes are synced."""
    insert = core.state.inserts[number]
    header = insert.message.part
    insert.work = None
    for known in (core.state.aside, core.state.coming, core.state.pushed):
        known.pop(header.id, None)
    core.state.parts[header.id] = OwnPart(header, is_stored=True)
    if insert.step is InsertStep.READ and insert.answer is not None:
        answer, insert.answer = insert.answer, None
        _decide(core, number, answer, is_early=True)
    elif insert.step is InsertStep.KEEPING:
        _read(core, number)


def on_not_kept(core: Core, number: int, why: str) -> None:
    insert = _end(core, number)
    core.refuse(insert.client, insert.message, not_here(why))


def _read(core: Core, number: int) -> None:
    """Read what decides about the insert, all at one moment."""
    insert = core.state.inserts[number]
    if not core.is_active:
        _refuse(core, number, TableReadOnly(f"this replica {core.state.why}"))
        return
    if not tokens.has_turn(core.state, number):
        insert.step = InsertStep.HELD
        return
    insert.step = InsertStep.READING
    message = insert.message
    reads: list[ReadOperation] = [
        tokens.read_use(core.paths, message.token, message.producer),
        Get(core.paths.producers),
        Get(core.paths.definition),
        *dedup.reads(core.paths, message),
    ]
    if message.name_path:
        reads.append(Get(message.name_path))
    if insert.message.quorum > 1:
        for node in core.state.replicas:
            paths = core.paths.replica(node)
            reads += [Get(paths.is_active), Get(paths.is_lost)]
    core.read(ReadForInsert(number), *reads)


def on_read(core: Core, call: ReadForInsert, answer: MetadataAnswer) -> None:
    insert = core.state.inserts.get(call.insert)
    if insert is None:
        return
    if insert.work is None:
        _decide(core, call.insert, answer)
    else:  # I1
        insert.step, insert.answer = InsertStep.READ, answer


def _decide(core: Core, number: int, answer: MetadataAnswer, *, is_early: bool = False) -> None:
    """I4, I5, and then I2."""
    insert = core.state.inserts[number]
    if not isinstance(answer, ReadDone):
        _refuse(core, number, failure(answer))
        return
    message = insert.message
    if not tokens.has_turn(core.state, number):
        insert.step = InsertStep.HELD
        return
    found, producers, definition, *rest = answer.results
    found = tokens.expected(core.state, message, found)
    hashed = len(dedup.reads(core.paths, message))
    named = hashed + (1 if message.name_path else 0)
    hashes, name, activity = rest[:hashed], rest[hashed:named], rest[named:]
    try:
        use = tokens.use_of(message, found, producers)
        if use is None and hashes and dedup.is_duplicate(core, insert, hashes, answer.zxid):
            return
    except MotetError as error:
        _refuse(core, number, error)
        return
    if use is not None:
        _wait_for_use(core, number, use, answer.zxid)
        return
    try:
        version = addressing.definition_version(definition)
        addressing.check_named(core.key[0], name, message.name_version)
    except MotetError as error:
        _refuse(core, number, error)
        return
    each = iter(activity)
    active = sum(
        isinstance(is_active, Found) and isinstance(is_lost, Found) and is_lost.data != b"1"
        for is_active, is_lost in zip(each, each, strict=True)
    )
    if is_early and active < message.quorum > 1:
        _read(core, number)  # others may be active by now, and no commit would say so
        return
    if message.quorum > 1 and active < message.quorum:
        what = f"quorum={message.quorum}, and {active} of {len(core.state.replicas)} replicas are active"
        _refuse(core, number, TooFewReplicas(what))
        return
    if not core.is_active:
        _refuse(core, number, TableReadOnly(f"this replica {core.state.why}"))
        return
    known = core.state.history.of_part(message.part.id)
    if known is not None and known.header.hash == message.part.hash:
        # A copy of this insert came first: the log says what became of it.
        insert.step = InsertStep.WAITING
        return
    if known is not None:
        _refuse(core, number, BadInput(f"part {message.part.id} is there already"))
        return
    _commit(core, number, version, found, hashes)


def _wait_for_use(core: Core, number: int, use: UsedToken | NumberUse, zxid: Zxid) -> None:
    """I4; several parts of a publication were visible with its token, and have no name together."""
    insert = core.state.inserts[number]
    insert.step, insert.part, insert.is_duplicate = InsertStep.WAITING, use.part, True
    insert.version = zxid
    if use.shard == tokens.SHARED:
        _answer(core, number, "", zxid)
    else:
        pulling.pull(core)


def _commit(
    core: Core,
    number: int,
    definition_version: int,
    found: ReadResult,
    hashes: list[ReadResult],
) -> None:
    """I2."""
    insert, paths = core.state.inserts[number], core.paths
    message, header = insert.message, insert.message.part
    insert.step, insert.part, insert.is_duplicate = InsertStep.COMMITTING, header.id, False
    insert.host_version = core.state.host_version
    operations: list[WriteOperation] = [
        Check(core.own_paths.host, insert.host_version),
        Check(paths.definition, definition_version),
    ]
    if message.name_path:
        operations.append(Check(message.name_path, message.name_version))
    use = tokens.use(paths, message, found)
    operations += [use, *tokens.chain(core, message), *dedup.use(paths, message, hashes)]
    operations.append(Create(core.own_paths.part(header.id), encode_header(header)))
    if message.quorum > 1:
        status = QuorumStatus(message.quorum, (core.own,))
        operations.append(Create(paths.status(header.id), encode_status(status)))
    entry = encode_entry(_entry(core, message))
    operations.append(Create(paths.new_entry, entry, sequential=True))
    core.write(CommitInsert(number), *operations)
    tokens.begin_commit(core.state, number, use)


def _entry(core: Core, message: InsertBlock) -> InsertEntry:
    """What the log says of it."""
    producer = message.producer or None
    counted = message.number if producer else None
    token, content = message.token or None, message.dedup_hash or None
    return InsertEntry(message.part, core.own, message.quorum, token, producer, counted, content)


def on_committed(core: Core, call: CommitInsert, answer: MetadataAnswer) -> None:
    insert = core.state.inserts.get(call.insert)
    if insert is None:
        return
    if not isinstance(answer, Unknown):
        tokens.end_commit(core.state, call.insert, is_done=isinstance(answer, Written))
    if isinstance(answer, Written):
        path = answer.results[-1]
        assert isinstance(path, str), "the entry is the last operation"
        _is_committed(core, insert)
        number = entry_number(path)
        core.tell_others(number)
        if insert.message.quorum == 1:
            header = insert.message.part
            _answer(core, call.insert, of_block(header.partition, Block(number)), answer.zxid)
        pulling.on_appended(core, number, answer.zxid, _entry(core, insert.message))
    elif isinstance(answer, Conflict):
        _on_conflict(core, call.insert, answer)
    elif isinstance(answer, Unknown):
        _settle(core, call.insert)
    else:
        _refuse(core, call.insert, failure(answer))


def _is_committed(core: Core, insert: Insert) -> None:
    header = insert.message.part
    own = core.state.parts.setdefault(header.id, OwnPart(header, is_stored=True))
    own.is_registered = True
    executing.unqueue(core, header.id)
    insert.step = InsertStep.WAITING
    ending.leave_if_failed(core, header.id)


def _on_conflict(core: Core, number: int, conflict: Conflict) -> None:
    """Nothing was done. The token, the definition or the name has changed, or the host was raised."""
    insert = core.state.inserts[number]
    insert.conflicts += 1
    message = insert.message
    is_built_upon = bool(message.producer or message.dedup_hash)  # nodes that may have gone
    if conflict.index == HOST:
        if insert.host_version != core.state.host_version and core.is_active:
            _read(core, number)  # this replica has raised it meanwhile
            return
        if insert.host_version == core.state.host_version:
            core.step_back("is started by another process")
        _refuse(core, number, TableReadOnly("this replica is starting"))
    elif message.name_path and conflict.index == NAME:
        _refuse(core, number, TableMoved("the table has another name now"))
    elif conflict.index > DEFINITION and conflict.why is Refusal.NO_NODE and not is_built_upon:
        _refuse(core, number, NoSuchTable("the table is dropped"))
    elif _is_late(core, insert) or insert.conflicts >= conflicts_max:
        _refuse(core, number, TableBusy("others wrote before this insert again and again"))
    elif checks.is_taken(core, message.part.id):
        _refuse(core, number, BadInput(f"part {message.part.id} is there already"))
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
        core.step_back("is started by another process")
        _unknown(core, call.insert)


def on_settle_read(core: Core, call: SettleRead, answer: MetadataAnswer) -> None:
    insert = core.state.inserts.get(call.insert)
    if insert is None or not isinstance(answer, ReadDone):
        return
    is_there = isinstance(answer.results[0], Found)
    is_done = is_there or checks.is_taken(core, insert.message.part.id)
    tokens.end_commit(core.state, call.insert, is_done=is_done)
    if is_there:
        _is_committed(core, insert)
        pulling.pull(core)
    elif is_done:
        insert.step = InsertStep.WAITING  # it was committed, and its block has ended already
    else:
        _read(core, call.insert)


# Answers


def look(core: Core) -> None:
    """Answer inserts whose block the log has decided about, and those that have waited too long."""
    state = core.state
    for number, insert in list(state.inserts.items()):
        is_late = _is_late(core, insert)
        if insert.step is InsertStep.WAITING and dedup.is_to_be_read_again(core, insert):
            _read(core, number)
            continue
        is_read = state.history.next_number > insert.until
        if insert.step is InsertStep.WAITING and insert.part is not None and is_read:
            block = state.history.of_part(insert.part)
            if block is not None and block.visible is not None:
                version = max(block.visible, insert.version)
                _answer(core, number, block.name, version)
                continue
            if block is not None and block.has_failed:
                if insert.is_duplicate and insert.part != insert.message.part.id:
                    dedup.forget(insert)
                    _read(core, number)
                else:
                    what = "the quorum of this block has failed: nothing of it is visible"
                    _refuse(core, number, QuorumFailed(what))
                continue
        if is_late and insert.step in (InsertStep.WAITING, InsertStep.SETTLING):
            _unknown(core, number)
        elif insert.work is not None:
            continue
        elif is_late and insert.step is InsertStep.HELD:
            _refuse(core, number, TableBusy("other inserts of this producer came first"))
        elif is_late and insert.step is InsertStep.FORGETTING:
            _refuse(core, number, TableBusy("hashes of content are being forgotten"))
        elif _may_read(core, number):
            _read(core, number)


def _may_read(core: Core, number: int) -> bool:
    """Whether what it has waited for before it reads has come to an end."""
    state = core.state
    step = state.inserts[number].step
    if step is InsertStep.FORGETTING:
        return state.sweep is None
    return step is InsertStep.HELD and tokens.has_turn(state, number)


def _is_late(core: Core, insert: Insert) -> bool:
    return core.now_ns - insert.since_ns >= core.config.wait_ms * NS_PER_MS


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
        elif insert.work is not None:
            insert.step, insert.answer = InsertStep.KEEPING, None
        elif insert.step in (InsertStep.READING, InsertStep.HELD, InsertStep.FORGETTING):
            _refuse(core, number, TableReadOnly("this replica has lost its session"))
    for drop in list(core.state.drops):
        dropping = core.state.drops.pop(drop)
        core.refuse(
            dropping.client, dropping.message, OutcomeUnknown("the drop may have been done")
        )


def _end(core: Core, number: int) -> Insert:
    """It is not under way any more."""
    tokens.end_commit(core.state, number, is_done=False)
    return core.state.inserts.pop(number)


def _answer(core: Core, number: int, name: PartName | str, version: Zxid) -> None:
    insert = _end(core, number)
    table, shard = core.key
    message = insert.message
    done = BlockInserted(
        *(table, shard, message.request, str(name), version, insert.is_duplicate),
        incarnation=core.node.memory.incarnation,
        is_by_content=insert.is_duplicate and bool(insert.hash_zxid),
    )
    core.send(insert.client, done)
    if insert.is_duplicate:
        _forget(core, insert)


def _refuse(core: Core, number: int, error: MotetError) -> None:
    insert = _end(core, number)
    core.refuse(insert.client, insert.message, error)
    _forget(core, insert)


def _unknown(core: Core, number: int) -> None:
    """The part stays: it may be committed."""
    insert = _end(core, number)
    what = "it is not known whether the block is inserted"
    core.refuse(
        insert.client,
        insert.message,
        OutcomeUnknown(what, hint="insert it again with the same token"),
    )


def _forget(core: Core, insert: Insert) -> None:
    """Remove bytes that no multi names, and that no entry does under the same id."""
    part = insert.message.part.id
    own = core.state.parts.get(part)
    is_named = insert.is_duplicate and insert.part == part
    if own is None or own.is_registered or is_named or checks.is_known(core, part):
        return
    del core.state.parts[part]
    core.put_away(Forget(*core.key, part))


def failure(answer: MetadataAnswer) -> MotetError:
    if isinstance(answer, Failed):
        return error_of(answer.code, answer.what, answer.advice)
    return NodeError("the keeper did not answer", hint="try again in a moment")
