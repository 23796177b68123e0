"""The commands of the protocol, one type each, under the names of its source text.

Replicas say in which view they are; a command of an older view is out of date, one of a newer view says
that something was missed. Whoever sends a command may be wrong, late or lying: a receiver checks what it
relies on, and drops the rest with a counted reason.

Later writings call some of them otherwise: see ``ALIASES``.
"""

from __future__ import annotations

import re

import msgspec

from motet.core.machine import Message
from motet.core.vsr.block_ref import BlockRef
from motet.core.vsr.header import Checksum, Header, checksum
from motet.core.vsr.superblock import Checkpoint
from motet.ids import ClientId, ClusterId, Op, ReplicaIndex, View

ALIASES = {
    "start_view_change": "exit_view",
    "do_view_change": "join_view",
    "start_view": "view",
    "request_start_view": "get_view",
    "request_headers": "get_headers",
    "request_prepare": "get_prepare",
    "request_reply": "get_reply",
    "request_blocks": "get_blocks",
}
"""What the same commands are called elsewhere."""

_encode = msgspec.msgpack.Encoder().encode


def command_name(kind: type[Message] | str) -> str:
    """``PrepareOk`` is the command ``prepare_ok``."""
    name = kind if isinstance(kind, str) else kind.__name__
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


class VsrMessage(Message, frozen=True, tag=lambda name: f"vsr.{command_name(name)}"):
    """Above all commands."""

    cluster: ClusterId


class ReplicaMessage(VsrMessage, frozen=True):
    """Above all that a replica says."""

    replica: ReplicaIndex
    view: View


# Clocks and clients finding the view


class Ping(ReplicaMessage, frozen=True):
    """What time is it where you are? Also: here is my checkpoint."""

    nonce: int
    sent_monotonic_ns: int
    checkpoint_op: Op
    checkpoint_id: Checksum


class Pong(ReplicaMessage, frozen=True):
    """A replica's time of day, between the ping's sending and this pong's arrival."""

    nonce: int
    sent_monotonic_ns: int
    wall_ns: int


class PingClient(VsrMessage, frozen=True):
    """A client asks which view it is."""

    client: ClientId


class PongClient(ReplicaMessage, frozen=True):
    """It is this view."""


# Normal operation


class Request(VsrMessage, frozen=True):
    """A client wants an operation done. Make one with ``sealed_request``."""

    client: ClientId
    #: the newest view it has heard of
    view: View
    #: the op that registered it, 0 to register
    session: int
    #: counts up by one; 0 registers
    request: int
    #: checksum of the reply before: requests and replies are one chain
    parent: Checksum
    release: int
    operation: int
    body: bytes
    #: over all that the operation is, but not over the view
    checksum: Checksum = b""


class Prepare(ReplicaMessage, frozen=True):
    """An operation in its place. It is written, passed on along the route, and acknowledged."""

    header: Header
    body: bytes
    #: who gets it next, in order
    route: tuple[ReplicaIndex, ...] = ()


class PrepareOk(ReplicaMessage, frozen=True):
    """I have it on disk, and will not forget it."""

    op: Op
    prepare: Checksum
    checkpoint_op: Op
    checkpoint_id: Checksum
    #: somebody at this replica waits for whatever is committed next
    awaits_commit: bool = False


class Reply(ReplicaMessage, frozen=True):
    """The operation was committed, and this came of it."""

    client: ClientId
    request: int
    op: Op
    body: bytes
    checksum: Checksum


class Commit(ReplicaMessage, frozen=True):
    """The primary's heartbeat, and news for who awaits it: everything up to this op is committed."""

    commit: Op
    #: of the header of that op
    commit_checksum: Checksum
    checkpoint_op: Op
    checkpoint_id: Checksum


# Changing the view


class StartViewChange(ReplicaMessage, frozen=True):
    """I would rather leave this view."""


class DoViewChange(ReplicaMessage, frozen=True):
    """My log, for whoever leads this view. Bit i of the sets is about headers[i]."""

    log_view: View
    #: the head of the log; headers[i] is op - i
    op: Op
    commit_max: Op
    checkpoint_op: Op
    headers: tuple[Header | None, ...]
    #: certainly not acknowledged here
    nacks: int
    #: can be had from here
    presents: int


class StartView(ReplicaMessage, frozen=True):
    """The log of this view: its newest headers from the head down, then those of checkpoints."""

    #: of the request it answers, 0 if none was asked
    nonce: int
    op: Op
    commit_max: Op
    checkpoint: Checkpoint
    headers: tuple[Header, ...]


class RequestStartView(ReplicaMessage, frozen=True):
    """What is the log of this view?"""

    nonce: int


# Repair


class RequestHeaders(ReplicaMessage, frozen=True):
    """Headers from ``op_min`` to ``op_max``, please."""

    op_min: Op
    op_max: Op


class Headers(ReplicaMessage, frozen=True):
    """Some headers, the highest op first."""

    headers: tuple[Header, ...]


class RequestPrepare(ReplicaMessage, frozen=True):
    """This very prepare, please; who does not have it says nothing."""

    op: Op
    prepare: Checksum


class RequestReply(ReplicaMessage, frozen=True):
    """This very reply, please."""

    client: ClientId
    reply: Checksum


class RequestBlocks(ReplicaMessage, frozen=True):
    """These very blocks of a checkpoint, please."""

    refs: tuple[BlockRef, ...]


class Block(ReplicaMessage, frozen=True):
    """A block as it is on disk."""

    ref: BlockRef
    data: bytes


class Eviction(ReplicaMessage, frozen=True):
    """This client has no session any more, or cannot have one."""

    client: ClientId
    reason: str


# Reading without writing


class ReadBarrier(VsrMessage, frozen=True):
    """Up to where must a state be, to be read now?"""

    request: int


class ConfirmView(ReplicaMessage, frozen=True):
    """Is this still the view? Asked by its primary, after a read has arrived."""

    round: int
    #: as far as the primary knows: whoever asked may be about to read from a backup
    commit: Op


class ViewConfirmed(ReplicaMessage, frozen=True):
    """It is, for me."""

    round: int


class ReadPoint(ReplicaMessage, frozen=True):
    """A state that has applied this op is as new as the question."""

    request: int
    op: Op


VsrCall = (
    Ping
    | Pong
    | PingClient
    | PongClient
    | Request
    | Prepare
    | PrepareOk
    | Reply
    | Commit
    | StartViewChange
    | DoViewChange
    | StartView
    | RequestStartView
    | RequestHeaders
    | Headers
    | RequestPrepare
    | RequestReply
    | RequestBlocks
    | Block
    | Eviction
    | ReadBarrier
    | ConfirmView
    | ViewConfirmed
    | ReadPoint
)
"""Everything that is said in the protocol."""


def request_checksum(request: Request, body_checksum: Checksum | None = None) -> Checksum:
    """What the operation is, whoever carries it. Who knows the checksum of its body already, says so."""
    return checksum(
        _encode(
            (
                request.cluster,
                request.client,
                request.session,
                request.request,
                request.parent,
                request.release,
                request.operation,
                body_checksum or checksum(request.body),
            )
        )
    )


def sealed_request(request: Request) -> Request:
    """The same with its checksum."""
    return msgspec.structs.replace(request, checksum=request_checksum(request))
