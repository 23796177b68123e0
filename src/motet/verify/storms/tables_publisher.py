"""Who stages parts in the storm and publishes them: under tokens, or as an ordered writer."""

from __future__ import annotations

import msgspec

from motet.core.clock.hlc import Clock
from motet.core.clock.writer_step import WriterStep
from motet.core.machine import Effect, Message
from motet.core.mergetree.entries import PartHeader
from motet.core.mergetree.messages import (
    NodeRefused,
    PartBytes,
    PartsPublished,
    PartStaged,
    PublishParts,
    StagedPart,
    StagePart,
    TablePublication,
    TableRefused,
)
from motet.errors import OutcomeUnknown, WriterFenced
from motet.errors.tables import TokenReused
from motet.ids import PartId
from motet.verify.storms.tables_clients import PARTITIONS, REFUSED, TABLE, Cluster, TableClient

RESTAGED, REPUBLISHED = "part_staged_again", "published_again"


class Wanted(msgspec.Struct):
    """A part of a publication, and its copy that is staged."""

    shard: int
    header: PartHeader
    staged: StagedPart | None = None
    tries: int = 0


class Publisher(TableClient):
    """Publishes one set of parts after the other, and does not rest until it knows what became of each."""

    def __init__(self, cluster: Cluster, name: str, between_ms_max: int, *, ordered: bool) -> None:
        super().__init__(cluster, name, between_ms_max)
        self._is_ordered = ordered
        self._publications = 0
        self._parts: list[Wanted] = []
        self._replace: tuple[str, ...] = ()
        self._quorum = 1

    @property
    def _token(self) -> str:
        return f"{self.name}.{self._publications}"

    def begin(self) -> list[Effect]:
        if not self._parts:
            if self.is_last_round:
                self.is_done = True
                return []
            self._draw()
        for wanted in self._parts:
            if wanted.staged is None:
                return self._stage(wanted)
        return self._publish()

    def _draw(self) -> None:
        self._publications += 1
        cluster, dice = self.cluster, self.dice
        self._quorum = dice.pick(cluster.quorums)
        self._replace = tuple(dice.subset(PARTITIONS)) if dice.chance(0.1) else ()
        shards = [self.pick_shard()] if dice.chance(0.5) else list(range(cluster.shards))
        self._parts = [
            Wanted(shard, self.new_part("")) for shard in shards for _ in range(dice.between(1, 3))
        ]

    def _stage(self, wanted: Wanted) -> list[Effect]:
        wanted.tries += 1
        number = self._parts.index(wanted)
        part = PartId(f"{self._token}.{number}-{wanted.tries}")
        wanted.header = header = msgspec.structs.replace(wanted.header, id=part)
        node, cluster = self.turn_to_any(), self.cluster
        block = PartBytes("parquet", b"", bytes(header.size_bytes))
        sent = block if self.dice.chance(cluster.small) else None
        if sent is None and cluster.reaches(self.name, node):
            cluster.folders[node].take_in(header, wanted.shard)
        request = self.next_request()
        return self.ask(StagePart(TABLE, wanted.shard, request, header, self._quorum, block=sent))

    def _publish(self) -> list[Effect]:
        self.turn_to_any()
        staged = tuple(each.staged for each in self._parts if each.staged is not None)
        content = "" if self._is_ordered else self._token
        publication = TablePublication(TABLE, 0, staged, self._replace, content=content)
        token = "" if self._is_ordered else self._token
        step = self._step() if self._is_ordered else None
        return self.ask(PublishParts(self.next_request(), (publication,), token, step=step))

    def _step(self) -> WriterStep:
        epoch = self._publications - 1
        after = Clock(epoch, 0) if epoch else None
        return WriterStep(self.name, epoch, after, Clock(epoch + 1, 0))

    def answered(self, asked: Message, answer: Message | None) -> list[Effect]:
        if isinstance(answer, TableRefused | NodeRefused):
            self.world.mark(f"{REFUSED}_{answer.code.lower()}")
            if answer.code in (TokenReused.code, WriterFenced.code):
                self.world.violated("OnlyInserted", f"{self._token}: {answer.what}")
        if isinstance(asked, StagePart):
            self._is_staged(asked, answer)
        else:
            self._is_published(answer)
        return self.pause()

    def _is_staged(self, asked: StagePart, answer: Message | None) -> None:
        wanted = next(each for each in self._parts if each.header.id == asked.part.id)
        if isinstance(answer, PartStaged):
            wanted.staged = StagedPart(asked.shard, answer.part, answer.holders)
            self.cluster.truth.wanted[answer.part.id] = asked.quorum
        else:
            self.world.mark(RESTAGED)

    def _is_published(self, answer: Message | None) -> None:
        if isinstance(answer, PartsPublished):
            for wanted in self._parts:
                truth = self.cluster.truth
                truth.acknowledge_part(wanted.shard, wanted.header.hash, answer.version.zxid)
            self.world.mark("published_by_step" if self._is_ordered else "published_by_token")
            self._parts = []
            return
        self.world.mark(REPUBLISHED)
        is_known = isinstance(answer, NodeRefused) and answer.code != OutcomeUnknown.code
        if is_known and self.dice.chance(0.5):
            # Nothing of this attempt is there, but an earlier one may have been done: token and step say so.
            for wanted in self._parts:
                wanted.staged = None
