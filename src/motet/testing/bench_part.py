"""Commands for parts whose machines stand on a workbench; a part adds its cluster and its requests.

::

    class CounterPart(BenchPart):
        name = "counter"

        @verb
        def cluster(self, *, nodes: int = 1) -> list[str]:
            "Put counters on the bench and start them."
            for number in range(1, nodes + 1):
                self.bench.add(f"n{number}", Counter)
            return self.start()

        @verb
        def add(self, node: str, amount: int) -> list[str]:
            "A client asks a node to add an amount."
            return self.bench.receive(node, "client", Add(request=1, amount=amount))
"""

from __future__ import annotations

from typing import Literal

from motet.errors import BadScenario
from motet.ids import FileName, WriteId
from motet.testing.bench_network import KINDS, Kind
from motet.testing.part import VerbPart, verb
from motet.testing.workbench import Workbench


class BenchPart(VerbPart):
    """A part with a workbench and a command for each of its operations."""

    def __init__(self) -> None:
        self.bench = Workbench()

    @verb
    def show(self, *kinds: str) -> list[str]:
        """Tell only lines of these kinds (event, send, disk, timer, note); without any, all."""
        chosen: tuple[Kind, ...] = tuple(kind for kind in KINDS if kind in kinds)
        unknown = [kind for kind in kinds if kind not in KINDS]
        if unknown:
            raise BadScenario(f"no kind {unknown[0]!r}; there are {', '.join(KINDS)}")
        self.bench.show = chosen or KINDS
        return []

    # Nodes

    @verb
    def start(self, *nodes: str) -> list[str]:
        """Start nodes; without a name, all that are down."""
        down = [node.name for node in self.bench.nodes.values() if node.machine is None]
        return [line for name in nodes or down for line in self.bench.start(name)]

    @verb
    def crash(
        self, node: str | None = None, *, keep: str | None = None, torn: str | None = None
    ) -> list[str]:
        """Stop a node dead; of its pending writes keep=1,2 (or all) survive, torn=3:10 with 10 bytes."""
        name = self.named(node)
        pending = [change.id for change in self.bench.node(name).disk.pending]
        try:
            kept = pending if keep == "all" else _numbers(keep, ",")
            cut = _numbers(torn, ":")
        except ValueError:
            raise BadScenario("expected keep=WRITE,WRITE… and torn=WRITE:BYTES") from None
        if len(cut) not in (0, 2):
            raise BadScenario("expected torn=WRITE:BYTES")
        return self.bench.crash(name, keep=kept, torn=(cut[0], cut[1]) if cut else None)

    @verb
    def restart(self, node: str | None = None) -> list[str]:
        """Crash a node, if it runs, and start it."""
        return self.bench.restart(self.named(node))

    # Messages

    @verb
    def deliver(
        self,
        to: str | None = None,
        *,
        from_: str | None = None,
        kind: str | None = None,
        nth: int | None = None,
    ) -> list[str]:
        """Deliver what is in flight, or the nth of it, but not the answers to it."""
        return self.bench.deliver(to, sender=from_, kind=kind, nth=nth)

    @verb
    def drop(
        self,
        to: str | None = None,
        *,
        from_: str | None = None,
        kind: str | None = None,
        nth: int | None = None,
    ) -> list[str]:
        """Lose what is in flight."""
        return self.bench.drop(to, sender=from_, kind=kind, nth=nth)

    @verb
    def repeat(
        self,
        to: str | None = None,
        *,
        from_: str | None = None,
        kind: str | None = None,
        nth: int | None = None,
    ) -> list[str]:
        """Send what is in flight once more."""
        return self.bench.repeat(to, sender=from_, kind=kind, nth=nth)

    @verb
    def late(
        self, kind: str, to: str, *, from_: str | None = None, nth: int | None = None
    ) -> list[str]:
        """Deliver once more a message that was sent before, the newest or the nth of its kind."""
        return self.bench.deliver_copy(to, sender=from_, kind=kind, nth=nth)

    @verb
    def settle(self) -> list[str]:
        """Deliver until nothing is in flight."""
        return self.bench.settle()

    @verb
    def messages(self) -> list[str]:
        """List what is in flight."""
        return self.bench.told_in_flight() or ["nothing in flight"]

    @verb
    def cut(self, source: str, target: str) -> list[str]:
        """Lose what one node sends to another from now on, in this direction."""
        self.bench.cut(source, target)
        return []

    @verb
    def isolate(self, node: str) -> list[str]:
        """Cut a node off from all others, both ways."""
        self.bench.isolate(node)
        return []

    @verb
    def heal(self) -> list[str]:
        """Heal all links."""
        self.bench.heal()
        return []

    # Disks

    @verb
    def hold_sync(self, held: bool, node: str | None = None) -> list[str]:
        """Hold a node's syncs back, or let them go again."""
        return self.bench.hold_sync(self.named(node), held=held)

    @verb
    def sync(self, node: str | None = None, *, file: str | None = None) -> list[str]:
        """Make what is pending durable, on one file or on all."""
        return self.bench.sync(self.named(node), file)

    @verb
    def disk(self, state: Literal["full", "ok"], node: str | None = None) -> list[str]:
        """Fill a disk up; or make room, and fix what could not be read."""
        disk = self.bench.node(self.named(node)).disk
        disk.full = state == "full"
        if state == "ok":
            disk.unreadable.clear()
        return []

    @verb
    def unreadable(self, file: str, node: str | None = None) -> list[str]:
        """Have every read of a file fail."""
        self.bench.node(self.named(node)).disk.unreadable[FileName(file)] = "bad sector"
        return []

    @verb
    def files(self, node: str | None = None) -> list[str]:
        """List a node's files: their size, and the size of what is durable of them."""
        disk = self.bench.node(self.named(node)).disk
        durable = {file: len(data) for file, data in disk.durable.items()}
        listed = [
            f"{file} {len(data)} bytes, {durable.get(file, 0)} durable"
            for file, data in disk.files().items()
        ]
        return listed or ["no files"]

    # Time

    @verb
    def wall(self, ms: int, node: str | None = None) -> list[str]:
        """Set the wall clock of a node, or of all."""
        self.bench.set_wall(ms, node)
        return []

    @verb
    def advance(self, ms: int) -> list[str]:
        """Let time pass; timers fire when they are due."""
        return self.bench.advance(ms)

    @verb
    def fire(self, timer: str, node: str | None = None) -> list[str]:
        """Fire one timer, moving time to where it is due."""
        return self.bench.fire(self.named(node), timer)

    @verb
    def timers(self, node: str | None = None) -> list[str]:
        """List a node's timers and how long they still run."""
        return self.bench.told_timers(self.named(node)) or ["no timers"]

    def named(self, node: str | None) -> str:
        """The node a command is about: the only one there is, if it names none."""
        return self.bench.only_node() if node is None else node


def _numbers(text: str | None, separator: str) -> list[WriteId]:
    return [WriteId(int(word)) for word in text.split(separator)] if text else []
