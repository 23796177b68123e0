"""A client of replicated tables in golden scripts, and the keeper that it and the replicas talk to."""

from __future__ import annotations

from motet.core.machine import Message
from motet.core.mergetree.entries import PartHeader
from motet.core.mergetree.messages import NodeAnswer, PartBytes, TableAnswer
from motet.core.mergetree.paths import ShardPaths
from motet.core.metadata.messages import METADATA
from motet.ids import Address, PartId, RequestId, TableId
from motet.testing.bench_part import BenchPart
from motet.testing.scripts.mergetree_bench import MergeTreeBench, WatchedKeeper

CLIENT = Address("client")
TABLE = TableId("t")
TABLES = "tuv"
KEY = (TABLE, 0)
PATHS = ShardPaths(*KEY)


class MergeTreeClient(BenchPart):
    """What commands about tables need."""

    def __init__(self) -> None:
        self.bench: MergeTreeBench = MergeTreeBench()
        self.requests = 0

    def keeper(self) -> WatchedKeeper:
        """It runs."""
        keeper = self.bench.node(str(METADATA)).running()
        assert isinstance(keeper, WatchedKeeper)
        return keeper

    def below(self, path: str, cut: int) -> list[str]:
        """The nodes below one, with their data."""
        keeper, lines = self.keeper(), []
        for name in keeper.tree.names(path):
            child = f"{path}/{name}"
            data = (keeper.get(child) or (b"", 0))[0].decode()
            lines.append(f"{child[cut:]} {data}".rstrip())
            lines += self.below(child, cut)
        return lines

    def request(self) -> RequestId:
        """The number of the next request."""
        self.requests += 1
        return RequestId(self.requests)

    def ask(self, node: str, message: Message, wait: bool) -> list[str]:
        """Ask a node, and let time pass until it has answered."""
        lines = self.bench.receive(node, CLIENT, message)
        request = getattr(message, "request", 0)

        def is_answered() -> bool:
            return any(
                isinstance(each, TableAnswer | NodeAnswer) and each.request == request
                for each in self.bench.received.get(CLIENT, [])
            )

        return [*lines, *self.bench.run_ms(30_000 if wait else 0, until=is_answered)]


def block_of(header: PartHeader) -> PartBytes:
    """The bytes of a part as they travel within a message."""
    return PartBytes("parquet", b"manifest", bytes(header.size_bytes))


def header_of(part: str, rows: str | None, partition: str) -> PartHeader:
    """A part that is named by a word, with its rows."""
    content = part if rows is None else rows
    return PartHeader(PartId(part), partition, 1, 100, f"hash of {content}")
