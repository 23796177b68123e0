"""Golden scripts about replicas that agree on one order of operations: ``r0``, ``r1`` … and clients.

Replica i leads the views v with v % replicas == i; a new cluster begins with view 1. Time stands still but
for ``run`` and for commands that wait for an answer. What is told are the notes of replicas, answers to
clients, and sends of the commands that are traced. ``*`` marks a replica that leads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from motet.core.machine import NS_PER_MS
from motet.core.vsr.config import Timeouts, VsrConfig
from motet.core.vsr.context import GRID
from motet.core.vsr.formatting import file_sizes, format_files
from motet.core.vsr.quorums import quorums
from motet.core.vsr.replica import Replica
from motet.core.vsr.state import Status
from motet.core.vsr.view_change_quorum import Verdict, decide
from motet.errors import BadScenario
from motet.ids import Address, ClusterId, Op, ReplicaIndex
from motet.testing.bench_node import BenchNode
from motet.testing.part import verb
from motet.testing.register import Register
from motet.testing.scripts.vsr_bench import told_log, told_replica
from motet.testing.scripts.vsr_damage import Lies, flip, hand_made_log, torn_write
from motet.testing.scripts.vsr_requests import START_WALL_MS
from motet.testing.workbench import Lost

pipeline_max = 4


class VsrStorm(Lies):
    """Commands for a cluster."""

    name = "vsr"

    def __init__(self) -> None:
        super().__init__()
        self.logs: list[tuple[str, ...]] = []

    # The cluster

    @verb
    def cluster(
        self, *, replicas: int = 3, clients_max: int = 4, release: int = 1, start: bool = True
    ) -> list[str]:
        """Put formatted replicas on the bench; start them, and wait until the first view is under way."""
        self.config = small_config(replicas, clients_max, release)
        for index in range(replicas):
            self._add_replica(ReplicaIndex(index))
        if start:
            self.start()
            self.bench.run_ms(1_000)
        return []

    def _add_replica(self, own: ReplicaIndex) -> None:
        config = self.config
        make = _replica_factory(config, own)
        node = self.bench.add(config.replicas[own], make, wall_ms=START_WALL_MS)
        for file, size_bytes in file_sizes(config):
            node.disk.durable[file] = bytes(size_bytes)
        for file, offset, data in format_files(config, own):
            content = node.disk.durable.get(file, b"").ljust(offset + len(data), b"\0")
            node.disk.durable[file] = content[:offset] + data + content[offset + len(data) :]

    @verb
    def run_(self, ms: int) -> list[str]:
        """Let time pass."""
        return self.bench.run_ms(ms)

    @verb
    def converge(self, *, ms: int = 20_000) -> list[str]:
        """Let time pass until all replicas that run are in one view and have executed the same."""
        lines = self.bench.run_ms(ms, until=self._has_converged)
        return lines if self._has_converged() else [*lines, "no agreement:", *self.state()]

    def _has_converged(self) -> bool:
        running = [replica.core for _, replica in self._running()]
        places = [(core.state.view, core.state.op, core.state.commit_min) for core in running]
        is_one = all(place == places[0] for place in places)
        is_normal = all(core.state.status is Status.NORMAL for core in running)
        is_whole = all(
            core.state.commit_min == core.state.commit_max and core.is_view_durable
            for core in running
        )
        return is_one and is_normal and is_whole

    # Links, beyond cutting and isolating

    @verb
    def send_only(self, node: str) -> list[str]:
        """A replica that is heard and hears nobody."""
        for other in self.bench.nodes:
            if other != node:
                self.bench.cut(other, node)
        return []

    @verb
    def receive_only(self, node: str) -> list[str]:
        """A replica that hears and is heard by nobody."""
        for other in self.bench.nodes:
            if other != node:
                self.bench.cut(node, other)
        return []

    @verb
    def lose(self, command: str, *, from_: str | None = None, to: str | None = None) -> list[str]:
        """Lose a command, or ``all``, from now on; ``heal`` ends it."""
        self.bench.lost.append(Lost(command, from_, to))
        return []

    @verb
    def trace(self, *commands: str) -> list[str]:
        """Tell the sends of these commands, and of no others."""
        self.bench.traced = commands
        return []

    @verb
    def await_(self, node: str, *, is_so: bool = True) -> list[str]:
        """Somebody beside a replica waits for what is executed next; or nobody any more."""
        self._replica(node).await_commits(is_so=is_so)
        return []

    @verb
    def mute(self, *notes: str) -> list[str]:
        """Do not tell these notes any more."""
        self.bench.muted.update(dict.fromkeys(f"vsr_{note}" for note in notes))
        return []

    # Disks and clocks

    @verb
    def corrupt(
        self,
        node: str,
        what: Literal["prepare", "header", "reply", "block", "superblock"],
        *at: str,
    ) -> list[str]:
        """Flip a bit of a prepare or header of an op, a client's reply, a block, or a copy."""
        for place in at:
            number = self._slot_of(node, place) if what == "reply" else int(place)
            flip(self.config, self.bench.node(node).disk, what, number)
        return []

    def _slot_of(self, node: str, client: str) -> int:
        sessions = self._replica(node).core.state.sessions.by_client
        return sessions[self._client(client).client.state.client].slot

    @verb
    def blocks(self, node: str) -> list[str]:
        """How many blocks the checkpoint of a replica has."""
        table = self._replica(node).core.state.table
        return [" ".join(str(ref.index) for ref in sorted(table.refs(), key=lambda r: r.index))]

    @verb
    def tear(self, node: str, op: int, *, sectors: int = 1) -> list[str]:
        """Stop a replica dead while it writes a prepare, of which the first sectors are on disk."""
        torn = torn_write(self.config, self.bench.node(node).disk, Op(op), sectors)
        return self.bench.crash(node, torn=torn)

    @verb
    def clock(self, node: str, seconds: int) -> list[str]:
        """Let the wall clock of a replica jump by so much."""
        self.bench.node(node).wall_ns += seconds * 1_000 * NS_PER_MS
        return []

    # Looking

    @verb
    def state(self, *nodes: str) -> list[str]:
        """Where replicas are, a line each."""
        names = nodes or self.config.replicas
        return [told_replica(name, _as_replica(self.bench.node(name))) for name in names]

    @verb
    def log(self, node: str) -> list[str]:
        """A replica's log above its checkpoint: op, view, and what is wrong with it."""
        return [f"{node} {told_log(self._replica(node))}"]

    @verb
    def times(self, node: str) -> list[str]:
        """When the ops of a log were prepared, in seconds since the cluster was made."""
        core = self._replica(node).core
        told = []
        for op in range(core.checkpoint_op + 1, core.state.op + 1):
            header = core.state.journal.header(Op(op))
            if header is not None:
                since_ms = header.timestamp // NS_PER_MS - START_WALL_MS
                told.append(f"{op}@{since_ms // 1_000}s")
        return [" ".join(told)]

    @verb
    def counts(self, node: str) -> list[str]:
        """What a replica has dropped, and why."""
        counts = self._replica(node).core.state.counts
        return [f"{node} {why} {counts[why]}" for why in sorted(counts)]

    @verb
    def stores(self) -> list[str]:
        """Which replicas have the same state, and the same blocks of the same checkpoint."""
        states = {name: each.core.machine.fingerprint() for name, each in self._running()}
        grids = {name: self._grid(name, each) for name, each in self._running()}
        return [f"state: {_groups(states)}", f"blocks: {_groups(grids)}"]

    def _grid(self, name: str, replica: Replica) -> bytes:
        size_bytes = self.config.block_bytes
        refs = sorted(ref.index for ref in replica.core.state.table.refs())
        grid = self.bench.node(name).disk.files().get(GRID, b"")
        pieces = [grid[index * size_bytes : (index + 1) * size_bytes] for index in refs]
        return replica.core.checkpoint_op.to_bytes(8, "little") + b"".join(pieces)

    # Deciding about hand-made logs

    @verb
    def dvc(self, replica: int, *words: str, log_view: int, commit: int = 0) -> list[str]:
        """A log for the next ``decide``, from the head down: OP[letter]:present|missing|corrupt|…"""
        self.logs.append((str(replica), str(log_view), str(commit), *words))
        return []

    @verb
    def decide_(self, *, replicas: int = 3) -> list[str]:
        """What a new primary makes of the logs so far; they are forgotten."""
        logs = [
            hand_made_log(
                int(replica),
                tuple(words),
                view=9,
                log_view=int(log_view),
                commit=int(commit),
                pipeline=pipeline_max,
            )
            for replica, log_view, commit, *words in self.logs
        ]
        self.logs = []
        made = decide(logs, quorums(replicas), pipeline_max)
        if made.verdict is not Verdict.COMPLETE_VALID:
            return [made.verdict.value]
        log = f"log of view {made.log_view}, head {made.op_head}, committed {made.commit_max}"
        return [f"{made.verdict.value}: {log}, {made.cut} cut"]

    # How

    def _replica(self, name: str) -> Replica:
        replica = _as_replica(self.bench.node(name))
        if replica is None:
            raise BadScenario(f"{name} is no replica that runs")
        return replica

    def _running(self) -> list[tuple[str, Replica]]:
        found = [(name, _as_replica(self.bench.node(name))) for name in self.config.replicas]
        return [(name, replica) for name, replica in found if replica is not None]


def small_config(replicas: int, clients_max: int, release: int) -> VsrConfig:
    """A cluster in which checkpoints, laps of the ring and evictions come soon."""
    return VsrConfig(
        cluster=ClusterId(7),
        replicas=tuple(Address(f"r{index}") for index in range(replicas)),
        slots=32,
        pipeline_max=pipeline_max,
        queue_max=8,
        checkpoint_ops=12,
        body_bytes_max=2_000,
        clients_max=clients_max,
        reserved_max=1,
        block_bytes=192,
        blocks_max=1 << 16,
        release=release,
        timeouts=Timeouts(),
    )


def _replica_factory(config: VsrConfig, own: ReplicaIndex) -> Callable[[], Replica]:
    return lambda: Replica(config, own, Register())


def _as_replica(node: BenchNode) -> Replica | None:
    return node.machine if isinstance(node.machine, Replica) else None


def _groups(contents: dict[str, bytes]) -> str:
    """Names with equal content together."""
    groups: dict[bytes, list[str]] = {}
    for name, content in contents.items():
        groups.setdefault(content, []).append(name)
    return " | ".join(" ".join(names) for names in groups.values())
