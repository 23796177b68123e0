"""What the log of a keeper says, done again by a model, and compared with what all replicas make of it.

Z1   whatever a replica answers to an entry, in any incarnation, is what the model answers; and now and then
     the whole tree is compared
Z2   the writes of a connection are done in its order, none of them twice, none left out
Z3   a session ends by its own wish, or when nothing was heard of it for its whole timeout: by the time of
     the world, whatever the clocks of the nodes say
Z4   in the calm no session ends whose client is there
Z5   every entry is a batch: front ends send nothing else

Where clients lie, an entry may be anything, and Z5 does not hold; Z1 still does: what is no batch is refused
by every replica alike, and the tree stays as it was.

The ledger sees each entry when the first replica applies it, and every time again.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from motet.core.keeper.config import KeeperConfig
from motet.core.keeper.machine import Keeper
from motet.core.keeper.operations import (
    BATCH,
    AnyOperation,
    EndSession,
    Outcome,
    Outcomes,
    Piece,
    Pulse,
    Reattach,
    Refused,
    Write,
    decode_batch,
    decode_reply,
)
from motet.core.machine import NS_PER_MS
from motet.core.vsr.state_machine import Entry
from motet.format.zookeeper.messages import (
    Children2,
    Data,
    ErrorCode,
    Failed,
    GetChildren2,
    GetData,
    MultiResult,
    WriteRequest,
)
from motet.format.zookeeper.records import AnyRequest
from motet.ids import Address, Op, SessionId
from motet.sim.world import World
from motet.verify.storms.keeper_model import Model, Visit

compare_every_ops = 24
"""Trees are compared at every so many ops, as it comes."""

clock_error_percent = 1
"""No clock that drifts is further off."""

calm_ms = 3_000
"""So long after the last fault all must be well again, besides two timeouts."""

STRANGER = SessionId(1 << 62)
"""A session that no replica has heard of: it may look at everything that is open to all."""

_OVER = (ErrorCode.SESSION_EXPIRED, ErrorCode.SESSION_MOVED)


class Asked(msgspec.Struct, frozen=True):
    """A request that is not answered yet."""

    xid: int
    request: AnyRequest
    #: the newest zxid that anybody had been told of when it was asked
    known_zxid: int
    asked_ns: int


class Conversation(msgspec.Struct):
    """What was said over one connection."""

    address: Address
    client: str
    #: the newest zxid that anybody had been told of when it began
    known_zxid: int
    began_ns: int
    #: as the node has it; 0 before it is known
    session: int = 0
    generation: int = 0
    asked: list[Asked] = []
    #: the writes that were asked for, and how many of them the log has done
    writes: list[WriteRequest] = []
    writes_done: int = 0
    #: (kind, path) -> the zxid of the read that has set it
    watches: dict[tuple[str, str], int] = {}
    #: of the last event
    event_zxid: int = 0
    #: events that came before the answer to set_watches
    early_events: list[tuple[int, str]] = []
    is_hung_up: bool = False
    #: answers that came, and that the node was not told of
    taken_bytes: int = 0


class Ledger:
    """The one who has read the whole log."""

    def __init__(self, world: World, config: KeeperConfig, pulse_ms: int) -> None:
        self._world = world
        self._pulse_ms = pulse_ms
        self._config = config
        self.model = Model(config)
        #: op -> its operation, its body, and the reply of whoever applied it first
        self._entries: dict[Op, tuple[int, bytes, bytes]] = {}
        self._last_op = Op(0)
        #: zxid -> the op that used it
        self.op_of: dict[int, Op] = {}
        #: session -> when it was last touched by something that was applied
        self._touched_ns: dict[int, int] = {}
        #: (session, generation) -> who speaks
        self.speakers: dict[tuple[int, int], Conversation] = {}
        #: since when the client of this session has been there without a break; None if it is not
        self.present_since: Callable[[int], int | None] = lambda _session: None
        self.calm_since_ns: int | None = None

    def applied(self, who: str, keeper: Keeper, entry: Entry, reply: bytes) -> None:
        """A replica has applied an entry."""
        if entry.op <= self._last_op:
            operation, body, told = self._entries[entry.op]
            is_same = (operation, body) == (entry.operation, entry.body)
            if is_same and told != reply:  # another entry at the same op is K1
                self._violated("Z1", f"{who} answers op {entry.op} otherwise than others did")
            return
        self._last_op = entry.op
        self._entries[entry.op] = (entry.operation, entry.body, reply)
        operations = decode_batch(entry.body) if entry.operation == BATCH else None
        if operations is None:
            self._check_refused(who, keeper, entry.op, reply)
            return
        time_ms = entry.timestamp // NS_PER_MS
        expected = [self._run(operation, time_ms, entry.op) for operation in operations]
        self._compare_outcomes(who, entry.op, operations, expected, reply)
        if entry.op % compare_every_ops == 0:
            self.compare_tree(who, keeper)

    def _violated(self, rule: str, what: str) -> None:
        self._world.violated(rule, what)

    def _run(self, operation: AnyOperation, time_ms: int, op: Op) -> Outcome:
        model, now_ns = self.model, self._world.virtual.elapsed_ns
        zxid, living = model.zxid, dict(model.sessions)
        outcome = model.run(operation, time_ms)
        for session in model.touched:
            self._touched_ns[session] = now_ns
        for number in range(zxid + 1, model.zxid + 1):
            self.op_of[number] = op
        if isinstance(operation, Write | Piece) and model.zxid > zxid:
            self._check_turn(operation.session, operation.generation)
        if len(model.sessions) < len(living):
            self._ended(operation, living)
        self._mark(operation, outcome)
        return outcome

    def _mark(self, operation: AnyOperation, outcome: Outcome) -> None:
        if isinstance(operation, Piece):
            self._world.mark("piece")
        elif isinstance(operation, Reattach) and not outcome.error:
            self._world.mark("session_moved")
        if isinstance(outcome.result, MultiResult):
            is_failed = any(isinstance(each, Failed) for each in outcome.result.results)
            self._world.mark("multi_failed" if is_failed else "multi_done")
        if isinstance(operation, Write | Piece | EndSession) and outcome.error in _OVER:
            self._world.mark("write_of_old_generation")

    # Z1

    def _compare_outcomes(
        self,
        who: str,
        op: Op,
        operations: list[AnyOperation],
        expected: list[Outcome],
        reply: bytes,
    ) -> None:
        told = decode_reply(reply)
        outcomes = told.outcomes if isinstance(told, Outcomes) else []
        if outcomes == expected:
            return
        for operation, mine, its in zip(operations, expected, outcomes, strict=False):
            if mine != its:
                self._violated("Z1", f"{who} op {op}: {operation} should be {mine}, is {its}")
                return
        self._violated("Z1", f"{who} op {op}: {told} should be {expected}")

    def _check_refused(self, who: str, keeper: Keeper, op: Op, reply: bytes) -> None:
        """Of an entry that is no batch."""
        self._violated("Z5", f"op {op} is not a batch")
        told = decode_reply(reply)
        if not isinstance(told, Refused):
            self._violated("Z1", f"{who} op {op}: {told} should be a refusal")
        self.compare_tree(who, keeper)

    def compare_tree(self, who: str, keeper: Keeper) -> None:
        """Of a replica that has come as far as the ledger."""
        paths = self.model.paths()
        if keeper.counts().nodes != len(paths):
            self._violated("Z1", f"{who} has other nodes than it should at zxid {keeper.zxid}")
        for path in paths:
            node = self.model.node(path)
            assert node is not None
            data = keeper.read(STRANGER, GetData(path, watch=False))
            children = keeper.read(STRANGER, GetChildren2(path, watch=False))
            is_same = data == (0, Data(node.data, node.stat))
            if not is_same or children != (0, Children2(node.children, node.stat)):
                self._violated("Z1", f"{who} has another {path} at zxid {keeper.zxid}: {data}")

    # Z2

    def _check_turn(self, session: int, generation: int) -> None:
        speaker = self.speakers.get((session, generation))
        if speaker is None:
            return  # a connection that was never told that it has a session asks for nothing
        done, place = self.model.done[self.model.zxid].request, speaker.writes_done
        speaker.writes_done += 1
        if place >= len(speaker.writes) or speaker.writes[place] != done:
            what = f"zxid {self.model.zxid} is not write {place} of {speaker.address}"
            self._violated("Z2", f"{what}: {done}")

    # Z3, Z4

    def _ended(self, operation: AnyOperation, living: dict[int, Visit]) -> None:
        for session, visit in living.items():
            if session in self.model.sessions:
                continue
            if isinstance(operation, Pulse):
                self._world.mark("session_expired")
                self._check_expiry(session, visit.timeout_ms)
            else:
                self._world.mark("session_closed")

    def _check_expiry(self, session: int, timeout_ms: int) -> None:
        now_ns = self._world.virtual.elapsed_ns
        silent_ms = (now_ns - self._touched_ns[session]) // NS_PER_MS
        # Of the first two pulses some may count for what was before the touch.
        least_ms = timeout_ms + self._config.grace_ms - 2 * self._pulse_ms
        least_ms -= least_ms * clock_error_percent // 100
        if silent_ms < least_ms:
            what = f"session {session} of {timeout_ms} ms has expired"
            self._violated("Z3", f"{what}, touched {silent_ms} ms ago")
        since_ns, calm_ns = self.present_since(session), self.calm_since_ns
        patience_ns = (2 * timeout_ms + calm_ms) * NS_PER_MS
        if since_ns is None or calm_ns is None:
            return
        if now_ns - max(since_ns, calm_ns) > patience_ns:
            self._violated("Z4", f"session {session} has expired, and its client is there")
