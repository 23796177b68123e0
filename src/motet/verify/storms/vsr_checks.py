"""What must hold of a cluster, watched after every step of every replica.

K1   there is one order: the op that a replica executes is the one that all others execute there, in every
     incarnation, and its header follows the one before
K2   replicas that have executed the same ops have the same state, sessions included
K3   what a client was told is in that order, and stays there
K4   a request is executed at most once, and only one that its client has sent
K6   replicas at one checkpoint have the same checkpoint, and its blocks and replies are on their disks
K7   what a replica has promised in a view, it never falls back behind, however often it restarts
K9   a client that is told that it has no session had one taken away
K10  what a replica has acknowledged, it does not deny: not in a view change of the very log it was for

K5, that what clients see is linearizable, is judged in the end; K8 is the way there (``vsr_calm``).
"""

from __future__ import annotations

import msgspec

from motet.core.machine import Effect, Event, Note, Send
from motet.core.vsr.client import Replied
from motet.core.vsr.context import GRID, REPLIES, Core
from motet.core.vsr.grid import block_offset, decode_block
from motet.core.vsr.header import OPERATION_MIN, REGISTER, Checksum, Header, root_header
from motet.core.vsr.messages import DoViewChange, PrepareOk, Request, StartView
from motet.core.vsr.replica import Replica
from motet.core.vsr.replies import decode_reply, reply_offset, reply_slot_bytes
from motet.core.vsr.state import Status
from motet.ids import Address, ClientId, ClusterId, Op
from motet.sim.host import Host
from motet.sim.world import World
from motet.verify.storms.vsr_atlas import ReplicaDamage

compare_every_ops = 2
"""States are compared at every so many ops, as it comes."""

acknowledged_ops = 32
"""So many of the newest are remembered of each replica."""

SESSION_GONE = ("no_session", "session_too_low")
"""The second if a late copy of the register has made another session of it."""


class Seen(msgspec.Struct):
    """How far a replica was when it was last looked at."""

    incarnation: int = 0
    commit_min: Op = Op(0)
    checkpoint_op: Op = Op(0)
    compared_op: Op = Op(0)
    is_syncing: bool = False
    #: promised, in any incarnation
    view: int = 0
    log_view: int = 0
    #: acknowledged, in any incarnation, in this view and no other
    acknowledged_view: int = 0
    acknowledged: dict[Op, Checksum] = {}


class Watch:
    """The one who knows the order that all replicas must agree on."""

    def __init__(self, world: World, cluster: ClusterId) -> None:
        self._world = world
        #: [op] is the header that was executed there
        self.order: list[Header] = [root_header(cluster)]
        self._states: dict[Op, tuple[bytes, bytes]] = {}
        self._checkpoints: dict[Op, Checksum] = {}
        self._requests: dict[tuple[ClientId, int], Op] = {}
        #: what clients have sent: (client, request) -> its checksum
        self._sent: dict[tuple[ClientId, int], Checksum] = {}
        self._seen: dict[Address, Seen] = {}
        self._evicted: dict[str, None] = {}
        #: the highest op that a client was told of
        self.acknowledged = Op(0)

    def saw(self, host: Host, _event: Event, effects: list[Effect]) -> None:
        """A step was taken."""
        replica = host.machine
        if not isinstance(replica, Replica):
            self._note_requests(effects)
            return
        seen = self._seen.get(host.node.address)
        if seen is None:
            seen = self._seen[host.node.address] = Seen()
        if seen.incarnation != host.node.incarnation:
            seen.incarnation = host.node.incarnation
            seen.commit_min = seen.checkpoint_op = seen.compared_op = Op(0)
            seen.is_syncing = False
        self._note_promises(host, seen, effects)
        self._look(host, replica.core, seen)

    def _look(self, host: Host, core: Core, seen: Seen) -> None:
        state = core.state
        is_named = core.checkpoint_op != seen.checkpoint_op
        if state.commit_min != seen.commit_min:
            self._check_order(host, core, seen, is_jump=is_named)
        if is_named or seen.is_syncing != core.is_syncing:
            seen.checkpoint_op, seen.is_syncing = core.checkpoint_op, core.is_syncing
            self._check_checkpoint(host, core)
        if not state.is_started or state.status is Status.REFUSED:
            return
        if state.commit_min != seen.compared_op and state.restore is None:
            seen.compared_op = state.commit_min
            self._compare_states(host, core)
        if state.view < seen.view or state.log_view < seen.log_view:
            what = f"view {state.view} of log {state.log_view}"
            self._violated("K7", host, f"{what} after promising {seen.view} and {seen.log_view}")

    def _violated(self, rule: str, host: Host, what: str) -> None:
        self._world.violated(rule, f"{host.label}: {what}")

    # What was promised and sent

    def _note_promises(self, host: Host, seen: Seen, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                message = effect.message
                if isinstance(message, PrepareOk | StartView):
                    seen.view = max(seen.view, message.view)
                    seen.log_view = max(seen.log_view, message.view)
                    if isinstance(message, PrepareOk):
                        _acknowledge(seen, message)
                elif isinstance(message, DoViewChange):
                    seen.view = max(seen.view, message.view)
                    seen.log_view = max(seen.log_view, message.log_view)
                    self._check_denials(host, seen, message)
            elif isinstance(effect, Note) and effect.what == "vsr_session_evicted":
                self._evicted[effect.detail] = None

    def _check_denials(self, host: Host, seen: Seen, log: DoViewChange) -> None:
        if log.log_view != seen.acknowledged_view:
            return  # another log has taken its place since
        for op, digest in seen.acknowledged.items():
            if op <= log.commit_max:
                continue  # what is committed is not up for denial
            index = log.op - op
            header = log.headers[index] if 0 <= index < len(log.headers) else None
            is_other = header is not None and header.checksum != digest
            if index < 0 or is_other or (index < len(log.headers) and log.nacks >> index & 1):
                self._violated("K10", host, f"acknowledged op {op} and denies it")

    def _note_requests(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send) and isinstance(effect.message, Request):
                request = effect.message
                self._sent[request.client, request.request] = request.checksum

    # K1, K4: one order

    def _check_order(self, host: Host, core: Core, seen: Seen, *, is_jump: bool) -> None:
        state = core.state
        before, after = seen.commit_min, state.commit_min
        seen.commit_min = after
        if is_jump and after == core.checkpoint_op:
            superblock = state.superblock
            assert superblock is not None
            self._check_op(host, Op(after), superblock.checkpoint.header)
            return
        if after < before:
            self._violated("K1", host, f"went back from op {before} to {after}")
        for op in range(before + 1, after + 1):
            self._check_op(host, Op(op), state.journal.header(Op(op)))

    def _check_op(self, host: Host, op: Op, header: Header | None) -> None:
        if header is None:
            self._violated("K1", host, f"executed op {op} and does not know what it was")
        elif op < len(self.order):
            if self.order[op].checksum != header.checksum:
                self._violated("K1", host, f"executed another op {op} than others did")
        elif op > len(self.order):
            self._violated("K1", host, f"executed op {op} before op {len(self.order)}")
        elif header.parent != self.order[-1].checksum:
            self._violated("K1", host, f"op {op} does not follow the op before it")
        else:
            self.order.append(header)
            self._check_request(host, header)

    def _check_request(self, host: Host, header: Header) -> None:
        if header.operation < OPERATION_MIN and header.operation != REGISTER:
            return
        key = (header.client, header.request)
        if self._sent.get(key) != header.request_checksum:
            self._violated("K4", host, f"op {header.op} is a request that nobody has sent")
        # A register that comes twice, the second time after an eviction, is a session twice.
        if header.operation != REGISTER and key in self._requests:
            self._violated("K4", host, f"ops {self._requests[key]} and {header.op} are one request")
        self._requests[key] = header.op

    # K2: one state

    def _compare_states(self, host: Host, core: Core) -> None:
        op = core.state.commit_min
        if op % compare_every_ops and op != core.checkpoint_op:
            return
        state = (core.machine.fingerprint(), core.state.sessions.encode())
        known = self._states.setdefault(op, state)
        if known != state:
            what = "state" if known[0] != state[0] else "table of sessions"
            self._violated("K2", host, f"has another {what} after op {op} than others had")

    # K3, K9: what clients were told

    def replied(self, name: str, client: ClientId, reply: Replied) -> None:
        """A client got a reply."""
        self.acknowledged = Op(max(self.acknowledged, reply.op))
        header = self.order[reply.op] if reply.op < len(self.order) else None
        if header is None or (header.client, header.request) != (client, reply.request):
            what = f"was told that op {reply.op} is its request {reply.request}"
            self._world.violated("K3", f"{name} {what}, and it is not")

    def evicted(self, name: str, client: ClientId, reason: str) -> None:
        """A client was told that it has no session."""
        self._world.mark("client_evicted")
        if reason not in SESSION_GONE or str(client) not in self._evicted:
            self._world.violated("K9", f"{name} lost its session for no reason: {reason}")

    # K6: one checkpoint

    def _check_checkpoint(self, host: Host, core: Core) -> None:
        superblock = core.state.superblock
        if superblock is None or superblock.checkpoint.op == 0:
            return
        checkpoint = superblock.checkpoint
        if self._checkpoints.setdefault(checkpoint.op, checkpoint.id) != checkpoint.id:
            self._violated("K6", host, f"has another checkpoint at op {checkpoint.op} than others")
        elif self.is_checkpoint_settled(core):
            self._check_blocks(host, core)
            self._check_replies(host, core)

    @staticmethod
    def is_checkpoint_settled(core: Core) -> bool:
        """The table is the one of the checkpoint on disk, and nothing of it is on its way."""
        state = core.state
        is_whole = state.is_started and state.restore is None and state.checkpointing is None
        return is_whole and not core.is_syncing and not (state.other_writes or state.block_writes)

    def _check_blocks(self, host: Host, core: Core) -> None:
        damage = host.disk.damage
        assert isinstance(damage, ReplicaDamage)
        block_bytes = core.config.block_bytes
        for ref in core.state.table.refs():
            if ref in core.state.blocks_faulty or ref.index in damage.damaged_blocks:
                continue
            raw = host.disk.durable(GRID, block_offset(ref.index, block_bytes), block_bytes)
            if decode_block(raw, ref) is None:
                what = f"block {ref.index} of checkpoint {core.checkpoint_op}"
                self._violated("K6", host, f"{what} is not on disk")

    def _check_replies(self, host: Host, core: Core) -> None:
        if "rot" in self._world.marks:
            return
        config, state = core.config, core.state
        for session in state.sessions.by_client.values():
            if session.last_op > core.checkpoint_op or session.client in state.replies_faulty:
                continue
            offset = reply_offset(config, session.slot)
            reply = decode_reply(host.disk.durable(REPLIES, offset, reply_slot_bytes(config)))
            if reply is None or reply.checksum != session.reply_checksum:
                what = f"the reply of op {session.last_op} is not on disk"
                self._violated("K6", host, f"{what} at checkpoint {core.checkpoint_op}")


def _acknowledge(seen: Seen, ok: PrepareOk) -> None:
    if ok.view > seen.acknowledged_view:
        seen.acknowledged_view, seen.acknowledged = ok.view, {}
    if ok.view == seen.acknowledged_view:
        seen.acknowledged.pop(Op(ok.op - acknowledged_ops), None)
        seen.acknowledged[ok.op] = ok.prepare
