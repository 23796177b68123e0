"""Who stages parts in the storm and publishes them: under tokens, or as an ordered writer; some in jobs."""

from __future__ import annotations

import msgspec

from motet.core.clock.hlc import Clock
from motet.core.clock.writer_step import WriterStep
from motet.core.machine import NS_PER_MS, Effect, Message, SetTimer
from motet.core.mergetree.context import ReplicaKey
from motet.core.mergetree.entries import PartHeader
from motet.core.mergetree.messages import (
    JobStanding,
    NodeRefused,
    OpenJob,
    PartBytes,
    PartsPublished,
    PartStaged,
    PublishParts,
    RenewJob,
    StagedPart,
    StagePart,
    TablePublication,
    TableRefused,
)
from motet.core.mergetree.paths import name_path
from motet.errors import OutcomeUnknown, WriterFenced
from motet.errors.tables import StagingEnded, TokenReused
from motet.ids import PartId, TableName
from motet.verify.storms.asker import NEXT
from motet.verify.storms.tables_clients import (
    NAMES,
    PARTITIONS,
    REFUSED,
    Cluster,
    KnownTable,
    TableClient,
)

AGAIN, LEFT_OUT = "rows_published_again", "rows_left_out"
RESTAGED, REPUBLISHED = "part_staged_again", "published_again"
JOB_ENDED, SILENT = "job_ended", "job_driver_silent"
renew_ms, silent_ms = 100, 1_200
"""Less than leases are in a storm, and more."""

hash_length_max = 60

large_parts, padding = 22, 55
"""Parts of a large publication, and what makes the headers of all of them too long for an entry."""


def hash_of(header: PartHeader) -> str:
    """What tells its rows apart in a table with ``dedup="content"``; empty if they are too many."""
    return header.hash if len(header.hash) <= hash_length_max else ""


class Wanted(msgspec.Struct):
    """A part of a publication, and its copy that is staged."""

    known: KnownTable
    shard: int
    header: PartHeader
    staged: StagedPart | None = None
    tries: int = 0

    @property
    def key(self) -> ReplicaKey:
        return self.known.id, self.shard


class Publisher(TableClient):
    """Publishes one set of parts after the other, and does not rest until it knows what became of each."""

    def __init__(self, cluster: Cluster, name: str, between_ms_max: int, *, ordered: bool) -> None:
        super().__init__(cluster, name, between_ms_max)
        self._is_ordered = ordered
        self._publications = 0
        self._parts: list[Wanted] = []
        self._replace: tuple[str, ...] = ()
        self._quorum = 1
        self._is_by_name = False
        #: it was begun for other tables, and an attempt may have been done there
        self._is_moved = False
        self._jobs = 0
        #: the present one, and whether it has been opened
        self._job = ""
        self._is_open = False
        self._renew_ns = 0

    @property
    def _token(self) -> str:
        return f"{self.name}.{self._publications}"

    @property
    def _tables(self) -> list[KnownTable]:
        known = {wanted.known.id: wanted.known for wanted in self._parts}
        return list(known.values())

    def begin(self) -> list[Effect]:
        if not self._parts:
            if self.is_last_round:
                self.is_done = True
                return []
            if not self._draw():
                return self.pause()
        if not all(self.cluster.is_living(known.id) for known in self._tables) and not self._move():
            return self.pause()
        if self._job:
            if not self._is_open or self.at() >= self._renew_ns:
                return self._ask_job()
            if not self.world.fabric.healed and self.dice.chance(0.05):
                self.world.mark(SILENT)
                return [SetTimer(NEXT, self.dice.between(1, silent_ms))]
        for wanted in self._parts:
            if wanted.staged is None:
                return self._stage(wanted)
        return self._publish()

    def _places(self) -> list[KnownTable]:
        """One table, or all."""
        known = self.remembered()
        if known is None:
            return []
        others = [found for name in NAMES if (found := self.cluster.look_up(name)) is not None]
        others = [each for each in others if each.id != known.id]
        return [known, *(others if self.dice.chance(0.5) else [])]

    def _draw(self) -> bool:
        places = self._places()
        if not places:
            return False
        self._publications += 1
        cluster, dice = self.cluster, self.dice
        self._quorum = dice.pick(cluster.quorums)
        self._replace = tuple(dice.subset(PARTITIONS)) if dice.chance(cluster.replaces) else ()
        self._is_by_name, self._is_moved = dice.chance(0.5), False
        shards = [self.pick_shard()] if dice.chance(0.5) else list(range(cluster.shards))
        is_large = dice.chance(cluster.large)
        most = large_parts if is_large else 3
        if is_large:
            places, shards = places[:1], shards[:1]
        self._parts = [
            Wanted(known, shard, self.new_part("", padding if is_large else 0))
            for known in places
            for shard in shards
            for _ in range(most if is_large else dice.between(1, most))
        ]
        if cluster.told_by == "content" and not is_large:
            for wanted in self._parts:
                self._take_rows_again(wanted)
        self._new_job(dice.chance(cluster.jobs))
        return True

    def _take_rows_again(self, wanted: Wanted) -> None:
        """Rows that are there, or were: those of an insert, or of another publication."""
        blocks = self.cluster.truth.shard(wanted.key).blocks
        again = [block.header for block in blocks if hash_of(block.header)]
        if again and self.dice.chance(0.8):
            wanted.header = self.dice.pick(again)
            self.world.mark(AGAIN)

    def _new_job(self, has_job: bool) -> None:
        self._jobs += 1
        self._job, self._is_open = f"{self.name}-job-{self._jobs}" if has_job else "", False

    def _move(self) -> bool:
        """A table is gone: the parts are for others."""
        self._known = None
        places = self._places()
        if not places:
            return False
        self._is_moved = True
        for number, wanted in enumerate(self._parts):
            wanted.known, wanted.staged = places[number % len(places)], None
        self._new_job(bool(self._job))
        return True

    # Jobs

    def _ask_job(self) -> list[Effect]:
        self.turn_to_any()
        tables = tuple(known.id for known in self._tables)
        request = self.next_request()
        if self._is_open:
            return self.ask(RenewJob(request, self._job, tables))
        return self.ask(OpenJob(request, self._job, tables))

    def _on_job(self, answer: Message | None) -> None:
        if isinstance(answer, JobStanding):
            self._is_open = answer.value == "open"
            self._renew_ns = self.at() + renew_ms * NS_PER_MS
            if not self._is_open:
                self._restage(JOB_ENDED)

    def _restage(self, mark: str) -> None:
        self.world.mark(mark)
        for wanted in self._parts:
            wanted.staged = None
        self._new_job(bool(self._job))

    # Staging and publishing

    def _stage(self, wanted: Wanted) -> list[Effect]:
        wanted.tries += 1
        number = self._parts.index(wanted)
        part = PartId(f"{self._token}.{number}-{wanted.tries}")
        wanted.header = header = msgspec.structs.replace(wanted.header, id=part)
        node, cluster = self.turn_to_any(), self.cluster
        block = PartBytes("parquet", b"", bytes(header.size_bytes))
        sent = block if self.dice.chance(cluster.small) else None
        if sent is None and cluster.reaches(self.name, node):
            cluster.folders[node].take_in(header, wanted.key)
        request = self.next_request()
        return self.ask(
            StagePart(*wanted.key, request, header, self._quorum, job=self._job, block=sent)
        )

    def _publish(self) -> list[Effect]:
        self.turn_to_any()
        token = "" if self._is_ordered else self._token
        step = self._step() if self._is_ordered else None
        jobs = (self._job,) if self._job else ()
        publications = tuple(self._publication(known) for known in self._tables)
        return self.ask(
            PublishParts(self.next_request(), publications, token, step=step, jobs=jobs)
        )

    def _publication(self, known: KnownTable) -> TablePublication:
        parts = [each for each in self._parts if each.known.id == known.id]
        staged = tuple(each.staged for each in parts if each.staged is not None)
        if self._is_by_name:
            self.cluster.truth.named.update({each.header.id: known.name for each in parts})
        return TablePublication(
            *(known.id, 0, staged, self._replace),
            name_path=name_path(TableName(known.name)) if self._is_by_name else "",
            name_version=known.name_version if self._is_by_name else 0,
            content="" if self._is_ordered else self._token,
        )

    def _step(self) -> WriterStep:
        epoch = self._publications - 1
        after = Clock(epoch, 0) if epoch else None
        return WriterStep(self.name, epoch, after, Clock(epoch + 1, 0))

    # Answers

    def answered(self, asked: Message, answer: Message | None) -> list[Effect]:
        if isinstance(answer, TableRefused | NodeRefused):
            self.world.mark(f"{REFUSED}_{answer.code.lower()}")
            is_used = answer.code == TokenReused.code and not self._is_moved
            if is_used or answer.code == WriterFenced.code:
                self.world.violated("OnlyInserted", f"{self._token}: {answer.what}")
        if isinstance(asked, OpenJob | RenewJob):
            self._on_job(answer)
        elif isinstance(asked, StagePart):
            self._is_staged(asked, answer)
            if isinstance(answer, PartStaged) and len(self._parts) >= large_parts:
                return [SetTimer(NEXT, 0)]
        else:
            self._is_published(answer)
        return self.pause()

    def _is_staged(self, asked: StagePart, answer: Message | None) -> None:
        wanted = next((each for each in self._parts if each.header.id == asked.part.id), None)
        if isinstance(answer, PartStaged) and wanted is not None:
            is_known = self.cluster.told_by == "content"
            told_by = (hash_of(answer.part), answer.part.id) if is_known else ("", "")
            wanted.staged = StagedPart(asked.shard, answer.part, answer.holders, *told_by)
            self.cluster.truth.wanted[answer.part.id] = asked.quorum
        else:
            self.world.mark(RESTAGED)

    def _is_published(self, answer: Message | None) -> None:
        if isinstance(answer, PartsPublished):
            for wanted in self._parts:
                rows, version = wanted.header.hash, answer.version.zxid
                is_new = not answer.is_duplicate
                self.cluster.truth.acknowledge_part(wanted.key, rows, version, is_new=is_new)
            if answer.names and not all(answer.names):
                self.world.mark(LEFT_OUT)
            self.world.mark("published_by_step" if self._is_ordered else "published_by_token")
            self._parts = []
            return
        self.world.mark(REPUBLISHED)
        code = answer.code if isinstance(answer, NodeRefused) else ""
        if code == TokenReused.code:
            self._parts = []
        elif code == StagingEnded.code:
            self._restage(JOB_ENDED)
        elif any(self.is_gone(answer, known.id) for known in self._tables):
            self._move()
        elif code != OutcomeUnknown.code and self.dice.chance(0.5 if code else 0.2):
            # It may have been done: token and step say so. A holder that is lost is not waited for.
            self._restage(RESTAGED)
