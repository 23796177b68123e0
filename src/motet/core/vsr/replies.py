"""Replies on disk, one place per session, and how a lost one is had back from a peer.

The table of sessions in a checkpoint says which reply belongs into each place. After a restart a place that
holds something else is *faulty*, until the log is replayed beyond it or a peer sends the reply. If no
replica has it any more the cluster lives on, and only that client waits in vain.
"""

from __future__ import annotations

import msgspec

from motet.core.vsr.config import VsrConfig
from motet.core.vsr.context import REPLIES, Core
from motet.core.vsr.header import checksum
from motet.core.vsr.messages import Reply, RequestReply
from motet.core.vsr.sessions import reply_checksum
from motet.core.vsr.state import PendingRead
from motet.core.vsr.wal_layout import page_bytes
from motet.ids import ClientId

REPLY = "reply"
overhead_bytes = 512

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Reply).decode


def reply_slot_bytes(config: VsrConfig) -> int:
    """Room for the largest reply."""
    return -(-(config.body_bytes_max + overhead_bytes) // page_bytes) * page_bytes


def reply_offset(config: VsrConfig, slot: int) -> int:
    return slot * reply_slot_bytes(config)


def encode_reply(reply: Reply) -> bytes:
    """As on disk: checksum, length, reply. Who replied and in which view is left out: it differs."""
    neutral = msgspec.structs.replace(reply, replica=0, view=0)
    body = _encode(neutral)
    data = len(body).to_bytes(4, "little") + body
    return checksum(data) + data


def decode_reply(data: bytes) -> Reply | None:
    """The reply in these bytes; None if they are not one, whole and unchanged."""
    size_bytes = int.from_bytes(data[16:20], "little")
    if checksum(data[16 : 20 + size_bytes]) != data[:16]:
        return None
    try:
        return _decode(data[20 : 20 + size_bytes])
    except msgspec.MsgspecError:
        return None


def read_replies(core: Core) -> None:
    """Read what the sessions of a checkpoint were told last."""
    for session in core.state.sessions.by_client.values():
        core.state.replies_faulty[session.client] = session.reply_checksum
        offset = reply_offset(core.config, session.slot)
        size_bytes = reply_slot_bytes(core.config)
        core.read(PendingRead(REPLY, client=session.client), REPLIES, offset, size_bytes)


def on_reply_read(core: Core, _why: PendingRead, data: bytes | None) -> None:
    reply = None if data is None else decode_reply(data)
    if reply is None or not _take(core, reply):
        core.note("reply_corrupt")


def request_replies(core: Core) -> None:
    """Ask a peer for what is faulty."""
    state = core.state
    for client, wanted in list(state.replies_faulty.items())[: core.config.pipeline_max]:
        request = RequestReply(core.config.cluster, core.own, state.view, client, wanted)
        core.send(core.next_peer(), request)


def on_request_reply(core: Core, message: RequestReply) -> None:
    """The reply that is asked for, or nothing."""
    reply = core.state.replies.get(message.client)
    if reply is not None and reply.checksum == message.reply:
        core.send(message.replica, reply)


def repair_reply(core: Core, message: Reply) -> bool:
    """A reply from a peer: True if it was one that we lack."""
    if not _take(core, message):
        return False
    core.note("reply_repaired")
    session = core.state.sessions.by_client[message.client]
    write = core.write(REPLIES, reply_offset(core.config, session.slot), encode_reply(message))
    core.state.other_writes[write] = None
    return True


def _take(core: Core, reply: Reply) -> bool:
    """Keep it if it is what is missing."""
    state = core.state
    digest = reply_checksum(reply.client, reply.request, reply.op, reply.body)
    if state.replies_faulty.get(reply.client) != digest or reply.checksum != digest:
        return False
    del state.replies_faulty[reply.client]
    state.replies[ClientId(reply.client)] = reply
    return True
