"""Damage to the files of a replica, for scripts: a flipped bit, a write that was cut short.

Hand-made logs for a new primary to decide about, as a script writes them.

::

    r0 11a:present 10:missing 9:corrupt log_view=5 commit=7

From the head down. An op may have a letter: ``10a`` and ``10b`` are two prepares of one op. What is said
of it is what its replica knows:

========= =============================================== ============ =======
present   the prepare is there                            header       present
missing   the header is known, the prepare never came     header       nack
corrupt   the header is known, the prepare is damaged     header
blank     nothing ever came                               none         nack
fault     something may have come, and is damaged         none
========= =============================================== ============ =======

What is not mentioned, down to the lowest op of a pipeline, is present.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from motet.core.machine import Message, Write
from motet.core.vsr.config import VsrConfig
from motet.core.vsr.context import GRID, REPLIES, SUPERBLOCK, WAL, Core
from motet.core.vsr.grid import block_offset
from motet.core.vsr.header import NO_CHECKSUM, OPERATION_MIN, Header, checksum, root_header, sealed
from motet.core.vsr.messages import Commit, DoViewChange, Ping, PongClient, StartViewChange
from motet.core.vsr.replica import Replica
from motet.core.vsr.replies import reply_offset
from motet.core.vsr.sectors import sector_bytes
from motet.core.vsr.superblock import copies, copy_offset, encode_copy, read_superblock
from motet.core.vsr.wal_layout import WalLayout
from motet.errors import BadScenario
from motet.ids import ClusterId, FileName, Op, ReplicaIndex, View, WriteId
from motet.testing.bench_node import BenchDisk
from motet.testing.part import verb
from motet.testing.scripts.vsr_requests import ClientCommands

What = Literal["prepare", "header", "reply", "block", "superblock"]
inside_bytes = 30
"""How far from its beginning a thing is damaged."""


def flip(config: VsrConfig, disk: BenchDisk, what: What, number: int) -> None:
    """Flip a bit of the prepare or header of an op, of the reply in a slot, of a block or a copy."""
    file, offset = _place(config, what, number)
    content = bytearray(disk.durable.get(file, b""))
    if len(content) <= offset + inside_bytes:
        raise BadScenario(f"there is no {what} {number} to damage")
    content[offset + inside_bytes] ^= 1
    disk.durable[file] = bytes(content)


def _place(config: VsrConfig, what: What, number: int) -> tuple[FileName, int]:
    layout = WalLayout.of(config)
    match what:
        case "prepare":
            return WAL, layout.prepare_offset(layout.slot_of(Op(number)))
        case "header":
            return WAL, layout.header_offset(layout.slot_of(Op(number)))
        case "reply":
            return REPLIES, reply_offset(config, number)
        case "block":
            return GRID, block_offset(number, config.block_bytes)
        case "superblock":
            return SUPERBLOCK, copy_offset(number)


def torn_write(config: VsrConfig, disk: BenchDisk, op: Op, sectors: int) -> tuple[WriteId, int]:
    """The write of this op's prepare that is pending, and how many of its bytes are to survive."""
    layout = WalLayout.of(config)
    offset = layout.prepare_offset(layout.slot_of(op))
    for change in disk.pending:
        if isinstance(change, Write) and (change.file, change.offset) == (WAL, offset):
            return change.id, sectors * sector_bytes
    raise BadScenario(f"no prepare of op {op} is being written", hint="hold-sync on first")


# Commands for golden scripts in which somebody says what is not so, in the name of a replica.


class Lies(ClientCommands):
    """What a replica never says, and what a file never holds."""

    @verb
    def say(
        self,
        replica: str,
        command: str,
        *to: str,
        view: int | None = None,
        op: int | None = None,
        checkpoint: str | None = None,
    ) -> list[str]:
        """Say ``start_view_change``, ``commit``, ``ping`` or ``pong_client`` in the name of a replica."""
        core = self._core_of(replica)
        message = _lie(core, command, view, op, checkpoint)
        return [line for each in to for line in self.bench.receive(each, replica, message)]

    @verb
    def superblock(self, node: str, *, view: int) -> list[str]:
        """Let the superblock of a replica that is down have this view."""
        disk = self.bench.node(node).disk
        content = bytearray(disk.durable[SUPERBLOCK])
        old = read_superblock(bytes(content))
        data = encode_copy(msgspec.structs.replace(old, view=View(view)))
        for number in range(copies):
            content[copy_offset(number) : copy_offset(number) + len(data)] = data
        disk.durable[SUPERBLOCK] = bytes(content)
        return []

    def _core_of(self, name: str) -> Core:
        machine = self.bench.node(name).machine
        if not isinstance(machine, Replica):
            raise BadScenario(f"{name} is no replica that runs")
        return machine.core


def _lie(
    core: Core, command: str, view: int | None, op: int | None, checkpoint: str | None
) -> Message:
    state = core.state
    cluster, own = core.config.cluster, core.own
    said = View(state.view if view is None else view)
    here = core.checkpoint_op
    name = core.checkpoint_id if checkpoint is None else checksum(checkpoint.encode())
    match command:
        case "start_view_change":
            return StartViewChange(cluster, own, said)
        case "commit":
            commit = Op(state.commit_max if op is None else op)
            return Commit(cluster, own, said, commit, checksum(b"another"), here, name)
        case "ping":
            return Ping(cluster, own, said, 0, 0, Op(here if op is None else op), name)
        case "pong_client":
            return PongClient(cluster, own, said)
    raise BadScenario(f"nobody says {command} here")


CLUSTER = ClusterId(7)
KINDS = ("present", "missing", "corrupt", "blank", "fault")
_WORD = re.compile(r"(\d+)([a-z]?)(?::([a-z]+))?")


def prepare_header(op: int, letter: str = "") -> Header:
    """A header that differs with its letter."""
    if op == 0:
        return root_header(CLUSTER)
    return sealed(
        msgspec.structs.replace(
            root_header(CLUSTER),
            op=Op(op),
            operation=OPERATION_MIN,
            body_checksum=checksum(letter.encode()),
            checksum=NO_CHECKSUM,
        )
    )


def hand_made_log(
    replica: int, words: tuple[str, ...], *, view: int, log_view: int, commit: int, pipeline: int
) -> DoViewChange:
    """The do_view_change that these words describe."""
    said = dict(_parsed(word) for word in words)
    if not said:
        raise BadScenario("a log has a head at least", hint="such as 5:present")
    head = max(said)
    headers: list[Header | None] = []
    nacks = presents = 0
    for index, op in enumerate(range(head, max(head - pipeline, 0) - 1, -1)):
        letter, kind = said.get(op, ("", "present"))
        headers.append(None if kind in ("blank", "fault") else prepare_header(op, letter))
        nacks |= (kind in ("missing", "blank")) << index
        presents |= (kind == "present") << index
    return DoViewChange(
        CLUSTER,
        ReplicaIndex(replica),
        View(view),
        View(log_view),
        Op(head),
        Op(commit),
        Op(0),
        tuple(headers),
        nacks,
        presents,
    )


def _parsed(word: str) -> tuple[int, tuple[str, str]]:
    match = _WORD.fullmatch(word)
    if match is None or (match[3] or "present") not in KINDS:
        raise BadScenario(f"{word!r} is no op of a log", hint=f"OP:{'|'.join(KINDS)}")
    return int(match[1]), (match[2], match[3] or "present")
