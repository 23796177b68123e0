"""What travels: a request is a batch of operations, its reply one outcome for each, in their order.

A front end gathers what its clients sent into one batch. One operation that fails is its own affair: the
others of the batch are done. Only a body that is no batch at all is refused as a whole.

B1  A body is a batch only in the one encoding this module makes of it. Whoever descends into what he does
    not know finds out how deep he can, and that is not the same on every replica.
B2  The operation of a client names its session and the generation that speaks for it.
B3  ``Outcome.zxid`` is that of the write, or of the last one before: what a client has seen.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from motet.core.keeper.ids import Generation
from motet.core.vsr.header import OPERATION_MIN
from motet.errors import BadRecord
from motet.format.zookeeper import sizes
from motet.format.zookeeper.messages import AnyResult, Failed, Result, WriteRequest
from motet.ids import SessionId, View, Zxid

BATCH = OPERATION_MIN
"""The one operation: the body is a batch."""


class Operation(msgspec.Struct, frozen=True, array_like=True, tag=0, forbid_unknown_fields=True):
    """Above all operations."""


class Write(Operation, frozen=True, tag=1):
    """Change the tree, in the name of a session."""

    session: SessionId
    generation: Generation
    request: WriteRequest


class OpenSession(Operation, frozen=True, tag=2):
    """Answered ``Attached``. The password is drawn by the front end: there is no chance in here."""

    timeout_ms: int
    password: bytes


class Reattach(Operation, frozen=True, tag=3):
    """A client of another connection is back; answered ``Attached``, with timeout 0 if he is too late."""

    session: SessionId
    password: bytes


class EndSession(Operation, frozen=True, tag=4):
    """The client has said goodbye."""

    session: SessionId
    generation: Generation


class AddIdentity(Operation, frozen=True, tag=5):
    """The client has proved who he is: ``acl.identity_of`` tells the front end what."""

    session: SessionId
    generation: Generation
    scheme: str
    id: str


class Touch(Operation, frozen=True, tag=6):
    """These have been heard of; answered ``Touched``."""

    sessions: tuple[tuple[SessionId, Generation], ...]


class Pulse(Operation, frozen=True, tag=7):
    """The primary of this view says that so much time has passed since its last pulse."""

    elapsed_ms: int
    view: View


class Piece(Operation, frozen=True, tag=8):
    """A part of a write that is too large for one request; the last is answered as the write (``pieces``)."""

    session: SessionId
    generation: Generation
    #: counts from 0
    number: int
    is_last: bool
    data: bytes


class EndSessions(Operation, frozen=True, tag=9):
    """The one process in which all clients live has begun anew: every session that there is ends."""


WholeOperation = (
    Write | OpenSession | Reattach | EndSession | AddIdentity | Touch | Pulse | EndSessions
)
AnyOperation = WholeOperation | Piece
Batch = list[AnyOperation]


class Attached(Result, frozen=True, tag=32):
    """Of a session that was opened or attached again. Timeout 0: there is no such session any more."""

    session: SessionId
    generation: Generation
    timeout_ms: int


class Touched(Result, frozen=True, tag=33):
    """Which of them may no longer be spoken for, each with the error that says why."""

    refused: tuple[tuple[SessionId, int], ...]


class Outcome(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """What became of one operation; with an error other than 0 the result is ``Failed`` with the same."""

    zxid: Zxid
    error: int
    result: AnyResult | Attached | Touched


class Outcomes(msgspec.Struct, frozen=True, array_like=True, tag=0, forbid_unknown_fields=True):
    """One for each operation."""

    outcomes: list[Outcome]


class Refused(msgspec.Struct, frozen=True, array_like=True, tag=1, forbid_unknown_fields=True):
    """Nothing of the batch was done."""

    why: str


_encode = msgspec.msgpack.Encoder().encode
_decode_batch = msgspec.msgpack.Decoder(Batch).decode
_reply_decoder: msgspec.msgpack.Decoder[Outcomes | Refused] = msgspec.msgpack.Decoder(
    Outcomes | Refused
)


def encode_batch(operations: Sequence[AnyOperation]) -> bytes:
    """The body of a request."""
    return _encode(operations)


def decode_batch(body: bytes) -> Batch | None:
    """What a body asks for; None if it is no batch (B1)."""
    try:
        batch = _decode_batch(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return batch if _encode(batch) == body else None


def encode_reply(reply: Outcomes | Refused) -> bytes:
    return _encode(reply)


def decode_reply(body: bytes) -> Outcomes | Refused:
    """What a reply's body says; ``BadRecord`` if it is none."""
    try:
        return _reply_decoder.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadRecord("the reply is not a list of outcomes") from error


# How large a reply can be


def answer_bytes(operation: AnyOperation) -> int:
    """How much longer a reply can get by this operation's answer, on top of ``empty_reply_bytes``."""
    if isinstance(operation, Write):
        return sizes.answer_bytes(operation.request)
    if isinstance(operation, Touch):
        return 16 * len(operation.sessions)
    return sizes.result_bytes_max


def failed(zxid: Zxid, error: int) -> Outcome:
    return Outcome(zxid, error, Failed(error))
