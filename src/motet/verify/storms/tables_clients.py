"""Who works with tables in the storm: inserters, who drops partitions, and readers."""

from __future__ import annotations

import msgspec

from motet.core.machine import Effect, Event, Message, Received
from motet.core.mergetree.context import ReplicaKey
from motet.core.mergetree.entries import PartHeader
from motet.core.mergetree.messages import (
    BlockInserted,
    DropPartitions,
    InsertBlock,
    ListParts,
    NodeRefused,
    PartBytes,
    PartitionsDropped,
    PartsListed,
    TableRefused,
)
from motet.core.mergetree.paths import ShardPaths, definition_path, name_path
from motet.core.metadata.definitions import decode_database_identity
from motet.core.metadata.messages import Found
from motet.core.metadata.paths import DATABASE
from motet.errors import NoSuchTable, TokenExpired
from motet.errors.tables import TableMoved, TokenReused
from motet.ids import Address, PartId, TableId, TableName, Zxid
from motet.sim.world import World
from motet.verify.storms.asker import Asker
from motet.verify.storms.tables_checks import Truth
from motet.verify.storms.tables_parts import Folder, rows_of
from motet.verify.storms.tables_store import TableStore

NAMES = ("t", "u")
PARTITIONS = ("a", "b", "c")
GIVEN_UP, RETRIED, READ_OLD, REFUSED = "insert_given_up", "insert_retried", "read_old", "refused"
REUSED, FOREIGN = "token_used_for_other_rows", "version_of_another_incarnation"
GONE = (TableMoved.code, NoSuchTable.code)
TIMEOUT_MS = 900
PRODUCER, NUMBERS = "~shared", 8
"""All inserters are one producer, and their numbers differ by who they are."""
ahead_ms_max = 30


class KnownTable(msgspec.Struct, frozen=True):
    """A table as a client has found it by its name."""

    id: TableId
    name: str
    name_version: int


class Cluster(msgspec.Struct, frozen=True):
    """What clients work with."""

    world: World
    store: TableStore
    truth: Truth
    folders: dict[Address, Folder]
    #: of each table
    shards: int
    #: that bytes are streamed to a replica while they arrive at another
    ahead: float
    #: that the bytes of an insert come within its message
    small: float
    #: how many replicas have to have a block; picked from
    quorums: tuple[int, ...]
    #: what tells that an insert is a retry: a text token, the number of a producer, or its rows
    told_by: str = "token"
    #: that a publication has a staging job
    jobs: float = 0.0
    #: that it has so many parts that they are listed in manifests
    large: float = 0.0
    #: that it replaces partitions
    replaces: float = 0.1

    @property
    def incarnation(self) -> str:
        """Of the keeper, now."""
        (found,) = self.store.look(DATABASE)
        return decode_database_identity(found.data).incarnation if isinstance(found, Found) else ""

    @property
    def nodes(self) -> tuple[Address, ...]:
        return tuple(self.folders)

    def reaches(self, client: str, node: Address) -> bool:
        """Whether bytes get from a client to a node."""
        is_cut = (Address(client), node) in self.world.fabric.blocked
        return self.world.nodes[node].up and not is_cut

    def look_up(self, name: str) -> KnownTable | None:
        """What a name points to."""
        (found,) = self.store.look(name_path(TableName(name)))
        if not isinstance(found, Found):
            return None
        return KnownTable(TableId(found.data.decode()), name, found.stat.version)

    def is_living(self, table: TableId) -> bool:
        """Whether it is there, and not dropped."""
        (found,) = self.store.look(definition_path(table))
        return isinstance(found, Found) and table not in self.truth.dropped

    @property
    def tables(self) -> list[TableId]:
        """Those that have a name."""
        return [known.id for name in NAMES if (known := self.look_up(name)) is not None]


class TableClient(Asker):
    """Asks any replica of any shard of any table."""

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
        #: it does nothing, and hears nothing
        self.is_muted = False
        self._rows = 0
        #: by a name that was looked up some time ago
        self._known: KnownTable | None = None

    def step(self, event: Event) -> list[Effect]:
        if self.is_muted:
            return [] if isinstance(event, Received) else self.pause()
        return super().step(event)

    def turn_to(self, node: Address) -> Address:
        """Ask this node from now on."""
        self._server = node
        return node

    def turn_to_any(self) -> Address:
        return self.turn_to(self.dice.pick(self.cluster.nodes))

    def pick_shard(self) -> int:
        return self.dice.between(0, self.cluster.shards - 1)

    def remembered(self) -> KnownTable | None:
        """A table that was found by a name, now or once; None: there is none."""
        if self._known is None or self.dice.chance(0.3):
            names = [name for name in NAMES if self.cluster.look_up(name) is not None]
            self._known = self.cluster.look_up(self.dice.pick(names)) if names else None
        return self._known

    def is_gone(self, answer: Message | None, table: TableId) -> bool:
        """Whether the table that is meant has another name, or is not there: it is to be looked up again."""
        is_refused = isinstance(answer, TableRefused | NodeRefused) and answer.code in GONE
        if is_refused or not self.cluster.is_living(table):
            self._known = None
            return True
        return False

    def new_part(self, part: str, padding: int = 0) -> PartHeader:
        """A part with rows that nobody else has."""
        rows = []
        for _ in range(self.dice.between(1, 3)):
            self._rows += 1
            rows.append(f"{self.name}-{self._rows}{'x' * padding}")
            self.cluster.truth.asked[rows[-1]] = None
        partition = self.dice.pick(PARTITIONS)
        return PartHeader(PartId(part), partition, len(rows), 100, ",".join(rows))


class Inserter(TableClient):
    """Inserts blocks one after the other, and does not rest until it knows what became of each."""

    def __init__(self, cluster: Cluster, name: str, between_ms_max: int) -> None:
        super().__init__(cluster, name, between_ms_max)
        self._inserts = 0
        self._tries = 0
        self._key: ReplicaKey = TableId(""), 0
        self._quorum = 1
        #: what is being inserted; the part gets another id with each attempt
        self._block: PartHeader | None = None
        #: it is to be committed under this name alone
        self._by_name: KnownTable | None = None
        #: the last one that is in a table, and its token
        self._done: tuple[ReplicaKey, PartHeader, str] | None = None
        #: a token that has been used is used once more, for other rows
        self._reused = ""

    @property
    def _token(self) -> str:
        if self._reused:
            return self._reused
        is_new = self.cluster.told_by == "content"  # by its rows alone it is known
        return f"{self.name}.{self._inserts}" + (f".{self._tries}" if is_new else "")

    def begin(self) -> list[Effect]:
        if self._block is None:
            if self.is_last_round:
                self.is_done = True
                return []
            if not self._draw():
                return self.pause()
        assert self._block is not None
        return self._attempt(self._block)

    def _draw(self) -> bool:
        known = self.remembered()
        if known is None:
            return False
        self._inserts += 1
        self._tries, self._reused = 0, ""
        self._key, self._quorum = (
            (known.id, self.pick_shard()),
            self.dice.pick(self.cluster.quorums),
        )
        self._by_name = known if self.dice.chance(0.5) else None
        self._block = self.new_part("")
        if self._done is not None and self.dice.chance(0.3):
            key, block, token = self._done
            if self.cluster.told_by == "content":
                self._key, self._block, self._by_name = key, block, None  # the same rows once more
            elif self.cluster.told_by == "token":
                self._key, self._by_name, self._reused = (key[0], self.pick_shard()), None, token
        return True

    def _attempt(self, block: PartHeader) -> list[Effect]:
        self._tries += 1
        name = f"{self.name}.{self._inserts}" if self._reused else self._token
        header = msgspec.structs.replace(block, id=PartId(f"{name}-{self._tries}"))
        node, cluster = self.turn_to_any(), self.cluster
        small = PartBytes("parquet", b"", bytes(header.size_bytes))
        sent = small if self.dice.chance(cluster.small) else None
        if sent is None and cluster.reaches(self.name, node):
            cluster.folders[node].take_in(header, self._key)
            for other in cluster.nodes:
                is_ahead = self.dice.chance(cluster.ahead) and cluster.reaches(self.name, other)
                if other != node and is_ahead:
                    after_ms = self.dice.between(0, ahead_ms_max)
                    cluster.folders[other].arrive(header, self._key, after_ms)
        request, told_by, by_name = self.next_request(), cluster.told_by, self._by_name
        if by_name is not None:
            cluster.truth.named[header.id] = by_name.name
        return self.ask(
            InsertBlock(
                *(*self._key, request, header, self._quorum),
                token="" if told_by == "producer" else self._token,
                content=block.hash,
                name_path="" if by_name is None else name_path(TableName(by_name.name)),
                name_version=0 if by_name is None else by_name.name_version,
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
            if self._reused:
                self.world.violated("OnlyInserted", f"token {self._reused} twice, for other rows")
            self._done = self._key, asked.part, self._token
            self._block = None
        elif isinstance(answer, TableRefused) and answer.code == TokenReused.code and self._reused:
            self.world.mark(REUSED)
            self._block = None
        else:
            self._not_inserted(asked, answer)
        return self.pause()

    def _not_inserted(self, asked: InsertBlock, answer: Message | None) -> None:
        code = answer.code if isinstance(answer, TableRefused) else ""
        if code:
            self.world.mark(f"{REFUSED}_{code.lower()}")
            if code == TokenReused.code:
                self.world.violated("OnlyInserted", f"{self._token} was used for other rows")
        self.world.mark(RETRIED)
        is_over = code == TokenExpired.code or self.is_gone(answer, asked.table)
        if is_over or (not self.world.fabric.healed and self.dice.chance(0.1)):
            self.world.mark(GIVEN_UP)
            self._block = None


class Dropper(TableClient):
    """Drops partitions."""

    def __init__(self, cluster: Cluster, name: str, between_ms_max: int, drops: float) -> None:
        super().__init__(cluster, name, between_ms_max)
        self._drops = drops

    def begin(self) -> list[Effect]:
        if self.is_last_round:
            self.is_done = True
            return []
        known = self.remembered()
        if known is None or not self.dice.chance(self._drops):
            return self.pause()
        self.turn_to_any()
        partitions = tuple(self.dice.subset(PARTITIONS)) or None
        key = known.id, self.pick_shard()
        return self.ask(DropPartitions(*key, self.next_request(), partitions))

    def answered(self, asked: Message, answer: Message | None) -> list[Effect]:
        assert isinstance(asked, DropPartitions)
        if isinstance(answer, PartitionsDropped):
            self.world.mark("dropped")
        else:
            self.is_gone(answer, asked.table)
        return self.pause()


class Reader(TableClient):
    """Reads shards at versions of now, and once more at older ones."""

    def __init__(self, cluster: Cluster, name: str, between_ms_max: int) -> None:
        super().__init__(cluster, name, between_ms_max)
        #: with the heads that they were read with
        self._past: list[tuple[ReplicaKey, Zxid, str, int]] = []
        #: what was acknowledged when the read began; None: an older version is read
        self._acknowledged: Zxid | None = None
        #: what is to be read in the last round
        self._left: list[tuple[ReplicaKey, Address]] | None = None

    def begin(self) -> list[Effect]:
        if not self.is_last_round:
            known = self.remembered()
            self.turn_to_any()
            return self.pause() if known is None else self._read((known.id, self.pick_shard()))
        cluster = self.cluster
        if self._left is None:
            keys = [(table, shard) for table in cluster.tables for shard in range(cluster.shards)]
            self._left = [(key, node) for key in keys for node in cluster.nodes]
        while self._left and self._is_unreadable(*self._left[0]):
            self._left.pop(0)
        if not self._left:
            self.is_done = True
            return []
        key, node = self._left[0]
        self.turn_to(node)
        return self._read(key)

    def remember(self, other: Reader) -> None:
        """It has read versions, of a keeper that was there before."""
        self._past += other._past

    def _is_unreadable(self, key: ReplicaKey, node: Address) -> bool:
        return (key, node) in self.cluster.truth.lost or not self.cluster.is_living(key[0])

    def _read(self, key: ReplicaKey) -> list[Effect]:
        cluster = self.cluster
        moment = cluster.store.moment(ShardPaths(*key))
        if moment is None:
            self._known = None
            return self.pause()
        head, version = moment
        self._acknowledged = cluster.truth.shard(key).newest_acknowledged
        old = [each for each in self._past if each[0] == key]
        incarnation = cluster.incarnation
        if old and not self.is_last_round and self.dice.chance(0.3):
            self.world.mark(READ_OLD)
            _, version, then, head_then = self.dice.pick(old)
            # A head is of an incarnation, as a version is.
            head, incarnation = (head if then == incarnation else head_then), then
            self._acknowledged = None
        return self.ask(
            ListParts(*key, self.next_request(), head, version, incarnation=incarnation)
        )

    def answered(self, asked: Message, answer: Message | None) -> list[Effect]:
        assert isinstance(asked, ListParts)
        if isinstance(answer, PartsListed):
            rows = [row for each in answer.parts for row in rows_of(each.header)]
            key, version = (asked.table, asked.shard), asked.version
            who = f"{self.name} on {self._server}"
            if asked.incarnation == self.cluster.incarnation:
                self.cluster.truth.read(key, version, rows, who, self._acknowledged)
            else:
                self.cluster.truth.read_former(key, version, rows, who)
            self._past.append((key, version, asked.incarnation, asked.head))
            if self._left:
                self._left.pop(0)
        elif isinstance(answer, TableRefused):
            self.world.mark(f"read_{REFUSED}_{answer.code.lower()}")
            if asked.incarnation != self.cluster.incarnation:
                self.world.mark(FOREIGN)
            self.is_gone(answer, asked.table)
        return self.pause()
