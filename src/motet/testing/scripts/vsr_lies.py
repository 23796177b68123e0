"""Commands for golden scripts in which somebody says what is not so, in the name of a replica."""

from __future__ import annotations

import msgspec

from motet.core.machine import Message
from motet.core.vsr.context import SUPERBLOCK, Core
from motet.core.vsr.header import checksum
from motet.core.vsr.messages import Commit, Ping, PongClient, StartViewChange
from motet.core.vsr.replica import Replica
from motet.core.vsr.superblock import copies, copy_offset, encode_copy, read_superblock
from motet.errors import BadScenario
from motet.ids import Op, View
from motet.testing.part import verb
from motet.testing.scripts.vsr_requests import ClientCommands


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
