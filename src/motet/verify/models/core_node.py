"""A node of the shard log as a thing that can be explored: the core itself, and a disk that never fails.

One local step is a message or a request, with everything the disk has to say to it: what is written is
durable at once. So a node between two steps is a value, and what a step makes of it is a function. Each
step of each such value is taken once, on a clone, and remembered: an exploration of a cluster meets the
same value of a node in very many states of the others.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import msgspec

from motet.core.clock import hlc
from motet.core.fingerprint import fingerprint
from motet.core.machine import (
    NS_PER_MS,
    Effect,
    Message,
    Now,
    Preallocate,
    Read,
    Remove,
    Replace,
    Send,
    Truncate,
    Write,
)
from motet.core.shardlog.context import ShardlogConfig
from motet.core.shardlog.entry import Entry, EntryKind
from motet.core.shardlog.messages import ShardMessage
from motet.core.shardlog.replica import ShardReplica
from motet.core.shardlog.shards import Shards
from motet.errors import MotetError
from motet.ids import Address, FileName, LogName, NodeId, ShardName

SHARD = LogName(ShardName("s"))
NOW = Now(0, 1_000 * NS_PER_MS)


class Applied:
    """A state machine that is the list of what was applied."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, int, bytes]] = []

    def apply(self, entry: Entry) -> None:
        body = entry.body if entry.kind == EntryKind.RECORDS else b""
        self.entries.append((entry.id.epoch, entry.id.offset, body))

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(self.entries)

    def restore(self, data: bytes) -> None:
        self.entries = msgspec.msgpack.decode(data, type=list[tuple[int, int, bytes]])

    def clone(self) -> Self:
        twin = type(self)()
        twin.entries = list(self.entries)
        return twin

    def fingerprint(self) -> bytes:
        return fingerprint(self.entries)


class Outgoing(NamedTuple):
    """A message that leaves a node."""

    to: Address
    message: Message


class CoreNode:
    """The replicas of a node, and its files."""

    def __init__(self, own: NodeId) -> None:
        self.shards = Shards(own, ShardlogConfig(), lambda _: Applied())
        self.files: dict[FileName, bytes] = {}

    @property
    def replica(self) -> ShardReplica | None:
        """The replica of the one shard, once there is one."""
        return self.shards.replica(SHARD)

    @property
    def applied(self) -> list[tuple[int, int, bytes]]:
        """What its state machine was given."""
        replica = self.replica
        machine: Any = None if replica is None else replica.machine
        return [] if machine is None else machine.entries

    def start(self) -> None:
        """Begin, with empty files."""
        self._settle(self.shards.start(NOW, 1))

    def hear(self, sender: Address, message: ShardMessage) -> list[Outgoing]:
        """A message comes in; answers with what goes out."""
        return self._settle(self.shards.on_message(sender, message, NOW))

    def append(self, value: bytes) -> list[Outgoing] | None:
        """A client writes; ``None`` if it is refused."""
        replica = self.replica
        if replica is None or not replica.is_serving:
            return None
        clock = hlc.tick(max(self.shards.clock, replica.last_clock), NOW.wall_ms)
        try:
            _, effects = replica.append(EntryKind.RECORDS, clock, value, NOW)
        except MotetError:
            return None
        return self._settle(effects)

    def _settle(self, effects: list[Effect]) -> list[Outgoing]:
        """Let the disk do and say all it has to."""
        out: list[Outgoing] = []
        queue = list(effects)
        while queue:
            effect = queue.pop(0)
            match effect:
                case Send(to=to, message=message):
                    out.append(Outgoing(to, message))
                case Read(id=read, file=file, offset=offset, size_bytes=size_bytes):
                    data = self.files.get(file, b"")[offset:]
                    found = data if size_bytes is None else data[:size_bytes]
                    queue += self.shards.on_read_back(read, found, NOW)
                case Write() | Replace() | Truncate() | Preallocate() | Remove():
                    self._change(effect)
                    queue += self.shards.on_written(effect.id, NOW)
        return out

    def _change(self, effect: Write | Replace | Truncate | Preallocate | Remove) -> None:
        before = self.files.get(effect.file, b"")
        match effect:
            case Write(offset=offset, data=data):
                padded = before.ljust(offset, b"\0")
                self.files[effect.file] = padded[:offset] + data + padded[offset + len(data) :]
            case Replace(data=data):
                self.files[effect.file] = data
            case Truncate(size_bytes=size_bytes):
                self.files[effect.file] = before[:size_bytes]
            case Preallocate():
                pass
            case Remove():
                self.files.pop(effect.file, None)

    def clone(self) -> CoreNode:
        """An independent copy."""
        twin = CoreNode(self.shards.own)
        twin.shards = self.shards.clone()
        twin.files = dict(self.files)
        return twin

    def fingerprint(self) -> bytes:
        """Equal exactly for equal nodes."""
        return fingerprint((self.shards.fingerprint(), self.files))
