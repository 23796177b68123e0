"""Who works with a table in the storm: inserters, who drops partitions, and readers."""

from __future__ import annotations

import msgspec

from motet.core.machine import Effect, Message
from motet.core.mergetree.entries import PartHeader
from motet.core.mergetree.messages import (
    BlockInserted,
    DropPartitions,
    InsertBlock,
    ListParts,
    PartBytes,
    PartitionsDropped,
    PartsListed,
    TableRefused,
)
from motet.core.mergetree.paths import ShardPaths
from motet.errors import TokenExpired
from motet.errors.tables import TokenReused
from motet.ids import Address, PartId, RequestId, TableId, Zxid
from motet.sim.world import World
from motet.verify.storms.asker import Asker
from motet.verify.storms.tables_checks import Truth
from motet.verify.storms.tables_parts import Folder, rows_of
from motet.verify.storms.tables_store import TableStore

TABLE = TableId("t")
PARTITIONS = ("a", "b", "c")
GIVEN_UP, RETRIED, READ_OLD, REFUSED = "insert_given_up", "insert_retried", "read_old", "refused"
TIMEOUT_MS = 900
PRODUCER, NUMBERS = "client-shared", 8
"""All inserters are one producer, and their numbers differ by who they are."""
ahead_ms_max = 30


class Cluster(msgspec.Struct, frozen=True):
    """What clients work with."""

    world: World
    store: TableStore
    truth: Truth
    folders: dict[Address, Folder]
    shards: int
    #: that bytes are streamed to a replica while they arrive at another
    ahead: float
    #: that the bytes of an insert come within its message
    small: float
    #: how many replicas have to have a block; picked from
    quorums: tuple[int, ...]
    #: what tells that an insert is a retry: a text token, the number of a producer, or its rows
    told_by: str = "token"

    @property
    def nodes(self) -> tuple[Address, ...]:
        return tuple(self.folders)

    def reaches(self, client: str, node: Address) -> bool:
        """Whether bytes get from a client to a node."""
        is_cut = (Address(client), node) in self.world.fabric.blocked
        return self.world.nodes[node].up and not is_cut


class TableClient(Asker):
    """Asks any replica of any shard."""

    def __init__(self, cluster: Cluster, name: str, between_ms_max: int) -> None:
        super().__init__(
            cluster.world,
            name,
            cluster.nodes[0],
            timeout_ms=TIMEOUT_MS,
            between_ms_max=between_ms_max,
        )
        self.cluster = cluster
        self.is_last_round = False
        self.is_done = False
        self._rows = 0

    def turn_to(self, node: Address) -> Address:
        """Ask this node from now on."""
        self._server = node
        return node

    def turn_to_any(self) -> Address:
        return self.turn_to(self.dice.pick(self.cluster.nodes))

    def pick_shard(self) -> int:
        return self.dice.between(0, self.cluster.shards - 1)

    def new_part(self, part: str) -> PartHeader:
        """A part with rows that nobody else has."""
        rows = []
        for _ in range(self.dice.between(1, 3)):
            self._rows += 1
            rows.append(f"{self.name}-{self._rows}")
            self.cluster.truth.asked[rows[-1]] = None
        partition = self.dice.pick(PARTITIONS)
        return PartHeader(PartId(part), partition, len(rows), 100, ",".join(rows))


class Inserter(TableClient):
    """Inserts blocks one after the other, and does not rest until it knows what became of each."""

    def __init__(self, cluster: Cluster, name: str, between_ms_max: int) -> None:
        super().__init__(cluster, name, between_ms_max)
        self._inserts = 0
        self._tries = 0
        self._shard = 0
        self._quorum = 1
        #: what is being inserted; the part gets another id with each attempt
        self._block: PartHeader | None = None
        #: the last one that is in the table, where rows are told apart by their content
        self._done: tuple[int, PartHeader] | None = None

    @property
    def _token(self) -> str:
        is_new = self.cluster.told_by == "content"  # by its rows alone it is known
        return f"{self.name}.{self._inserts}" + (f".{self._tries}" if is_new else "")

    def begin(self) -> list[Effect]:
        if self._block is None:
            if self.is_last_round:
                self.is_done = True
                return []
            self._inserts += 1
            self._tries = 0
            self._shard, self._quorum = self.pick_shard(), self.dice.pick(self.cluster.quorums)
            self._block = self.new_part("")
            if self._done is not None and self.dice.chance(0.3):
                self._shard, self._block = self._done  # the same rows once more
        return self._attempt(self._block)

    def _attempt(self, block: PartHeader) -> list[Effect]:
        self._tries += 1
        header = msgspec.structs.replace(block, id=PartId(f"{self._token}-{self._tries}"))
        node, cluster, shard = self.turn_to_any(), self.cluster, self._shard
        small = PartBytes("parquet", b"", bytes(header.size_bytes))
        sent = small if self.dice.chance(cluster.small) else None
        if sent is None and cluster.reaches(self.name, node):
            cluster.folders[node].take_in(header, shard)
            for other in cluster.nodes:
                is_ahead = self.dice.chance(cluster.ahead) and cluster.reaches(self.name, other)
                if other != node and is_ahead:
                    after_ms = self.dice.between(0, ahead_ms_max)
                    cluster.folders[other].arrive(header, TABLE, shard, after_ms)
        request, told_by = self.next_request(), cluster.told_by
        token = "" if told_by == "producer" else self._token
        return self.ask(
            InsertBlock(
                *(TABLE, shard, request, header, self._quorum, token, block.hash),
                block=sent,
                producer=PRODUCER if told_by == "producer" else "",
                number=self._inserts * NUMBERS + int(self.name.removeprefix("w")),
                dedup_hash=block.hash if told_by == "content" else "",
            )
        )

    def answered(self, asked: Message, answer: Message | None) -> list[Effect]:
        assert isinstance(asked, InsertBlock)
        if isinstance(answer, BlockInserted):
            self.cluster.truth.acknowledge(answer, rows_of(asked.part))
            if self.cluster.told_by == "content":
                self._done = self._shard, asked.part
            self._block = None
        else:
            if isinstance(answer, TableRefused):
                self.world.mark(f"{REFUSED}_{answer.code.lower()}")
                if answer.code == TokenReused.code:
                    self.world.violated("OnlyInserted", f"{self._token}: {answer.what}")
            self.world.mark(RETRIED)
            is_old = isinstance(answer, TableRefused) and answer.code == TokenExpired.code
            if is_old or (not self.world.fabric.healed and self.dice.chance(0.1)):
                self.world.mark(GIVEN_UP)
                self._block = None
        return self.pause()


class Dropper(TableClient):
    """Drops partitions."""

    def __init__(self, cluster: Cluster, name: str, between_ms_max: int, drops: float) -> None:
        super().__init__(cluster, name, between_ms_max)
        self._drops = drops

    def begin(self) -> list[Effect]:
        if self.is_last_round:
            self.is_done = True
            return []
        if self.dice.chance(self._drops):
            self.turn_to_any()
            partitions = tuple(self.dice.subset(PARTITIONS)) or None
            request = self.next_request()
            return self.ask(DropPartitions(TABLE, self.pick_shard(), request, partitions))
        return self.pause()

    def answered(self, asked: Message, answer: Message | None) -> list[Effect]:
        if isinstance(answer, PartitionsDropped):
            assert isinstance(asked, DropPartitions)
            self.world.mark("dropped")
        return self.pause()


class Reader(TableClient):
    """Reads shards at versions of now, and once more at older ones."""

    def __init__(self, cluster: Cluster, name: str, between_ms_max: int) -> None:
        super().__init__(cluster, name, between_ms_max)
        self._past: list[tuple[int, Zxid]] = []
        #: what was acknowledged when the read began; None: an older version is read
        self._acknowledged: Zxid | None = None
        #: what is to be read in the last round
        self._left: list[tuple[int, Address]] | None = None

    def begin(self) -> list[Effect]:
        shard = self.pick_shard()
        if self.is_last_round:
            if self._left is None:
                shards = range(self.cluster.shards)
                self._left = [(shard, node) for shard in shards for node in self.cluster.nodes]
            if not self._left:
                self.is_done = True
                return []
            shard = self._left[0][0]
            self.turn_to(self._left[0][1])
        else:
            self.turn_to_any()
        return self._read(shard)

    def _read(self, shard: int) -> list[Effect]:
        cluster = self.cluster
        head, version = cluster.store.moment(ShardPaths(TABLE, shard))
        self._acknowledged = cluster.truth.shards[shard].newest_acknowledged
        old = [each for each in self._past if each[0] == shard]
        if old and not self.is_last_round and self.dice.chance(0.3):
            self.world.mark(READ_OLD)
            version, self._acknowledged = self.dice.pick(old)[1], None
        request: RequestId = self.next_request()
        return self.ask(ListParts(TABLE, shard, request, head, version))

    def answered(self, asked: Message, answer: Message | None) -> list[Effect]:
        assert isinstance(asked, ListParts)
        if isinstance(answer, PartsListed):
            rows = [row for each in answer.parts for row in rows_of(each.header)]
            shard, version = asked.shard, asked.version
            who = f"{self.name} on {self._server}"
            self.cluster.truth.read(shard, version, rows, who, self._acknowledged)
            self._past.append((shard, version))
            if self._left:
                self._left.pop(0)
        elif isinstance(answer, TableRefused):
            self.world.mark(f"read_{REFUSED}_{answer.code.lower()}")
        return self.pause()
