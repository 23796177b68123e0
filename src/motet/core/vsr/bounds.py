"""What a message may say: the door of a replica, before any protocol looks at it.

Whoever sends a message may be wrong, or lie. What it says is compared with what is near our own state, number
by number (the reasons for each bound are in :mod:`motet.limits`), and a message with anything
beyond is dropped as a whole, counted and noted. So no protocol ever sees a number that it could not count on
from, and nothing is written that a file has no room for.

A message that passes may still be a lie: that a view has begun, that an operation is committed. Replicas
trust each other to follow the protocol; the door keeps out what no replica can say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from motet.core.machine import Message
from motet.core.vsr.block_ref import BlockRef
from motet.core.vsr.context import Core
from motet.core.vsr.header import NO_CHECKSUM, Checksum, Header, is_sealed
from motet.core.vsr.messages import (
    Block,
    Commit,
    ConfirmView,
    DoViewChange,
    Headers,
    Ping,
    Pong,
    Prepare,
    PrepareOk,
    ReadPoint,
    ReplicaMessage,
    Reply,
    RequestBlocks,
    RequestHeaders,
    RequestPrepare,
    StartView,
    ViewConfirmed,
    VsrMessage,
    command_name,
)
from motet.core.vsr.superblock import Checkpoint, Superblock
from motet.ids import Op, View
from motet.limits import counter_max, op_step_max, timestamp_ns_max, view_step_max

checksum_bytes = len(NO_CHECKSUM)

Problem = str | None
"""Which field is beyond its bound; None if none is."""


def problem_with(core: Core, message: VsrMessage) -> Problem:
    """What of a message no replica or client can mean."""
    if not isinstance(message, ReplicaMessage):
        return None  # requests are looked at by ``sessions``; what else they say is only said back
    if not is_view_near(core, message.view):
        return "view"
    check = _CHECKS.get(type(message))
    return None if check is None else check(core, message)


def refuse(core: Core, message: VsrMessage, problem: str) -> None:
    """Drop it. Who says nonsense may say much of it, so ever fewer of them get a line."""
    count = core.drop(f"out_of_bounds_{problem}")
    if count & (count - 1) == 0:
        said = getattr(message, problem, "")
        what = f"{command_name(type(message))}: {problem} {str(said)[:100]}"
        core.note("out_of_bounds", f"{what}, {count} so far")


# Numbers


def is_view_near(core: Core, view: View) -> bool:
    """Can there be such a view? Before a replica has read its files it does not know what is near."""
    if not core.state.is_started:
        return 0 <= view <= counter_max
    return 0 <= view <= min(core.state.view + view_step_max, counter_max)


def is_op_near(core: Core, op: Op) -> bool:
    if not core.state.is_started:
        return 0 <= op <= counter_max
    return 0 <= op <= min(core.state.op + op_step_max, counter_max)


def may_enter(view: View) -> bool:
    """Whether there is a next view after this one, for as long as anybody will ask."""
    return view <= counter_max


def _is_counter(number: int) -> bool:
    return 0 <= number <= counter_max


def _is_checksum(checksum: Checksum) -> bool:
    return len(checksum) == checksum_bytes


# What is in messages


def is_header_possible(core: Core, header: Header) -> bool:
    """Can a primary have made it? Whether it belongs to the log is seen by its checksum alone."""
    return (
        is_op_near(core, header.op)
        and is_view_near(core, header.view)
        and (0 <= header.commit < header.op or header.op == header.commit == 0)
        and 0 <= header.timestamp <= timestamp_ns_max
        and 0 <= header.body_bytes <= core.config.body_bytes_max
        and 0 <= header.epoch <= counter_max
        and 0 <= header.session <= counter_max
        and 0 <= header.request <= counter_max
        and header.client >= 0 <= header.operation
        and header.release >= 0
        and len(header.parent)
        == len(header.request_checksum)
        == len(header.body_checksum)
        == len(header.checkpoint_id)
        == len(header.checksum)
        == checksum_bytes
    )


def _is_ref(core: Core, ref: BlockRef) -> bool:
    return 0 <= ref.index < core.config.blocks_max and _is_checksum(ref.checksum)


def is_checkpoint_possible(core: Core, checkpoint: Checkpoint) -> bool:
    """Can a replica have taken it?"""
    header = checkpoint.header
    return (
        checkpoint.op == header.op
        and checkpoint.op % core.config.checkpoint_ops == 0
        and is_header_possible(core, header)
        and header.cluster == core.config.cluster
        and is_sealed(header)
        and _is_ref(core, checkpoint.root)
        and _is_checksum(checkpoint.parent_id)
        and _is_checksum(checkpoint.grandparent_id)
    )


# Messages


def _witness(core: Core, message: Ping | PrepareOk | Commit) -> Problem:
    if not is_op_near(core, message.checkpoint_op):
        return "checkpoint_op"
    return None if _is_checksum(message.checkpoint_id) else "checkpoint_id"


def _pong(_core: Core, message: Pong) -> Problem:
    return None if 0 <= message.wall_ns <= timestamp_ns_max else "wall_ns"


def _prepare(core: Core, message: Prepare) -> Problem:
    header = message.header
    return None if is_header_possible(core, header) and header.op > 0 else "header"


def _prepare_ok(core: Core, message: PrepareOk) -> Problem:
    return _witness(core, message) if is_op_near(core, message.op) else "op"


def _commit(core: Core, message: Commit) -> Problem:
    if not is_op_near(core, message.commit):
        return "commit"
    if not _is_checksum(message.commit_checksum):
        return "commit_checksum"
    return _witness(core, message)


def _reply(core: Core, message: Reply) -> Problem:
    if not is_op_near(core, message.op):
        return "op"
    if len(message.body) > core.config.body_bytes_max:
        return "body"
    return None if _is_counter(message.request) else "request"


def _do_view_change(core: Core, message: DoViewChange) -> Problem:
    if not is_view_near(core, message.log_view):
        return "log_view"
    for name in ("op", "commit_max", "checkpoint_op"):
        if not is_op_near(core, getattr(message, name)):
            return name
    if any(each and not is_header_possible(core, each) for each in message.headers):
        return "headers"
    for name in ("nacks", "presents"):
        if not 0 <= getattr(message, name) < 1 << len(message.headers):
            return name
    return None


def _start_view(core: Core, message: StartView) -> Problem:
    for name in ("op", "commit_max"):
        if not is_op_near(core, getattr(message, name)):
            return name
    checkpoint = message.checkpoint
    if checkpoint.op > message.op or not is_checkpoint_possible(core, checkpoint):
        return "checkpoint"
    return None if _are_headers(core, message.headers) else "headers"


def _are_headers(core: Core, headers: tuple[Header, ...]) -> bool:
    return all(is_header_possible(core, each) for each in headers)


def _headers(core: Core, message: Headers) -> Problem:
    return None if _are_headers(core, message.headers) else "headers"


def _request_headers(core: Core, message: RequestHeaders) -> Problem:
    for name in ("op_min", "op_max"):
        if not is_op_near(core, getattr(message, name)):
            return name
    return None


def _request_prepare(core: Core, message: RequestPrepare) -> Problem:
    return None if is_op_near(core, message.op) else "op"


def _request_blocks(core: Core, message: RequestBlocks) -> Problem:
    return None if all(_is_ref(core, ref) for ref in message.refs) else "refs"


def _block(core: Core, message: Block) -> Problem:
    return None if _is_ref(core, message.ref) else "ref"


def _confirm_view(core: Core, message: ConfirmView) -> Problem:
    if not is_op_near(core, message.commit):
        return "commit"
    return None if _is_counter(message.round) else "round"


def _view_confirmed(_core: Core, message: ViewConfirmed) -> Problem:
    return None if _is_counter(message.round) else "round"


def _read_point(core: Core, message: ReadPoint) -> Problem:
    return None if is_op_near(core, message.op) else "op"


_CHECKS: dict[type[Message], Callable[[Core, Any], Problem]] = {
    Ping: _witness,
    Pong: _pong,
    Prepare: _prepare,
    PrepareOk: _prepare_ok,
    Reply: _reply,
    Commit: _commit,
    DoViewChange: _do_view_change,
    StartView: _start_view,
    RequestHeaders: _request_headers,
    Headers: _headers,
    RequestPrepare: _request_prepare,
    RequestBlocks: _request_blocks,
    Block: _block,
    ConfirmView: _confirm_view,
    ViewConfirmed: _view_confirmed,
    ReadPoint: _read_point,
}
"""What is looked at besides the view; a nonce is only compared or said back."""


# Files


def problem_of_superblock(superblock: Superblock) -> Problem:
    """What a replica must not go on from, in a sentence: its next step would have no number."""
    promised = {
        "view": superblock.view,
        "log view": superblock.log_view,
        "commit": superblock.commit_max,
        "checkpoint": superblock.checkpoint.op,
        "sequence": superblock.sequence,
    }
    for name, number in promised.items():
        if not _is_counter(number):
            return (
                f"the superblock holds {name} {number}, which no cluster reaches: a wrong number was"
                " once believed and written down. Keep the files. The other replicas go on without this"
                " one while they are enough; else restore the cluster from a backup"
            )
    return None
