"""From the first event to serving: which database this is, what its log says, and leading it.

::

    identifying ──▶ founding ─────────▶ serving      a new database
        │
        └─────▶ reading ──────────────▶ serving      an old one
        └──────────┴──────▶ broken                   damage: nothing is served from it, nothing is changed

The log is read and folded into the index by the shard log's own recovery, which cuts a torn tail and tells
damage. Then the machine is the operator of its log: it fences it with the next epoch, and has it lead an
ensemble of one. It serves when the first entry of that epoch is applied. That needs a little room on the
disk; an old database is served without it, and takes writes when there is room.

The identity is written when all else is there. So an identity without a log, and a log with anything in it
without an identity, are each a database that has lost something, and never a new one.

Two small files are beside the log. The identity says which database it is, and by its kind in which format
the log is; the bound of the clock is written after it.
"""

from __future__ import annotations

from motet.core.clock.hlc import ZERO, Clock
from motet.core.clock.reservation import Reservation, decode_bound
from motet.core.machine import Effect, Note, Now, ReadBack, Replace, Send
from motet.core.onelog.context import DATABASE, OWN, Core, Phase
from motet.core.shardlog.messages import BecomeLeaderRequest, FenceRequest
from motet.core.shardlog.replica import ShardReplica
from motet.errors import BadRecord, MotetError
from motet.format.journal import scan
from motet.format.record import encode_record
from motet.ids import Address, Epoch, FileName, WriteId

OPERATOR = Address(OWN)
"""Whom the log answers: nobody listens, what has come of it is looked at."""


def take(core: Core, event: ReadBack) -> list[Effect]:
    """A file that the start depends on has been read; ``MotetError`` if it cannot be used."""
    state = core.state
    state.start_read = None
    if state.start_file == IDENTITY_FILE:
        state.database = decode_identity(event.data) if event.data else 0
        state.phase = Phase.READING if state.database else Phase.FOUNDING
        return [core.read_to_start(BOUND_FILE)]
    state.bound = decode_clock_bound(event.data)
    if not state.database and event.data:
        # A bound is written after the identity: this is a database that has lost its name.
        raise BadRecord(f"there is a {BOUND_FILE} and no {IDENTITY_FILE}")
    return core.shards.start(event.now, state.nonce)


def go_on(core: Core, now: Now) -> list[Effect]:
    """What can be done now that something has happened to the log."""
    state, shards = core.state, core.shards
    try:
        if shards.state.broken is not None:
            raise BadRecord(shards.state.broken)
        if not shards.is_started:
            return []
        replica = core.replica
        _check(core, replica)
    except MotetError as error:
        return core.break_down(error)
    if replica is not None and replica.is_serving:
        return _leads(core, now)
    if shards.is_writing or state.is_retry_set:
        return []
    if not state.has_elected:
        return elect(core, now)
    note = Note("streams_no_room", "to lead the log")
    if state.phase is Phase.FOUNDING:
        return [note, *core.retry()]
    return [note, *_serve(core, now)]


def _check(core: Core, replica: ShardReplica | None) -> None:
    """``MotetError`` for a log that cannot be served."""
    state, index = core.state, core.index
    if replica is not None and replica.is_damaged:
        raise BadRecord(replica.damage)
    if index.damage is not None:
        what, advice = index.damage
        raise BadRecord(what, hint=advice)
    # The identity is written when the first entry of the log is durable.
    if state.database and (replica is None or not replica.is_member or not index.places.stop):
        raise BadRecord(f"there is an {IDENTITY_FILE} and no log")
    if not state.database and index.records:
        raise BadRecord(f"there is a log and no {IDENTITY_FILE}")
    if index.records and (state.bound is None or state.bound < index.newest_record):
        newest = index.newest_record
        raise BadRecord(f"{BOUND_FILE} is behind the log: {state.bound}, the log is at {newest}")


def elect(core: Core, now: Now) -> list[Effect]:
    """Have the log lead an ensemble of one, in the next epoch."""
    state, shards = core.state, core.shards
    state.has_elected = True
    replica = core.replica
    epoch = Epoch(1 if replica is None else replica.epoch + 1)
    is_founded = state.phase is Phase.FOUNDING
    fence = FenceRequest(DATABASE, epoch, shards.incarnation, is_founded)
    effects = shards.on_message(OPERATOR, fence, now)
    effects += shards.on_message(OPERATOR, BecomeLeaderRequest(DATABASE, epoch, 1, ()), now)
    return without_answers(effects)


def without_answers(effects: list[Effect]) -> list[Effect]:
    """What the log says to its operator is not sent."""
    return [each for each in effects if not isinstance(each, Send) or each.to != OPERATOR]


def _leads(core: Core, now: Now) -> list[Effect]:
    """The log can be written to."""
    state = core.state
    if state.phase is not Phase.FOUNDING:
        return _serve(core, now)
    if state.identity_write is not None or state.is_retry_set:
        return []
    state.identity_write = core.shards.new_write()
    return [Replace(state.identity_write, IDENTITY_FILE, encode_identity(state.nonce))]


def identity_written(core: Core, write: WriteId, now: Now) -> list[Effect]:
    """The database has its name; nothing if it was something else."""
    state = core.state
    if write != state.identity_write:
        return []
    state.identity_write, state.database = None, state.nonce
    return [Note("streams_founded", f"{state.database:x}"), *_serve(core, now)]


def identity_failed(core: Core, write: WriteId, why: str) -> list[Effect]:
    """There was no room for it, try again; nothing if it was something else."""
    if write != core.state.identity_write:
        return []
    core.state.identity_write = None
    return [Note("streams_no_room", why), *core.retry()]


def _serve(core: Core, now: Now) -> list[Effect]:
    state = core.state
    # Above all that is in the log, also the entry by which this epoch began.
    floor = max(state.bound or ZERO, core.log.last_clock)
    state.clock = Reservation.recover(floor, now.wall_ms)
    state.phase, state.segments = Phase.SERVING, core.log.segments
    core.index.forget(core.log.first_offset - 1)  # the log was trimmed since it was put on disk
    state.is_clearing_due = True  # a crash may have come in between
    records = core.index.records
    return [Note("streams_recovered", f"{records} records")] if records else []


IDENTITY_FILE = FileName("identity")
BOUND_FILE = FileName("clock-bound")
IDENTITY_KIND = 2
OLDER_KINDS = (1,)
"""Kind 1 had a log of its own format."""

IDENTITY_SALT = 0x6D6F7465745F6462


def encode_identity(database: int) -> bytes:
    """The file that says which database this is."""
    return encode_record(IDENTITY_SALT, 0, IDENTITY_KIND, database.to_bytes(8, "big"))


def decode_identity(data: bytes) -> int:
    """The database's number; ``BadRecord`` when the file is damaged, or the log is of another format."""
    found = scan(data, IDENTITY_SALT)
    if len(found.records) != 1 or len(found.records[0].body) != 8:
        raise BadRecord(f"{IDENTITY_FILE} is damaged")
    kind = found.records[0].kind
    if kind != IDENTITY_KIND:
        when = "an earlier development" if kind in OLDER_KINDS else "a newer"
        raise BadRecord(
            f"the log is of another format, that of {when} version",
            hint="open it with that version, or begin anew in another folder",
        )
    return int.from_bytes(found.records[0].body, "big")


def decode_clock_bound(data: bytes) -> Clock | None:
    """The bound of the clock; None when there is no file."""
    return decode_bound(data) if data else None
