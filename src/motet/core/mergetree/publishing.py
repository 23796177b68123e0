"""Publishing: staged parts of several shards and tables become visible together, by one multi.

Any data node carries a publication out; it needs no replica of the tables.

G1  All of it is one multi of the keeper (see ``publication``): it is whole or absent at every version.
G2  A publication has a token, a producer's number or an ordered writer's step; one that has none is named by
    its first part, whose id was minted for it. A repetition is acknowledged, and changes nothing; its version
    is that of the read that found it (T22). A token that only some of the tables know, or know with other
    content, is refused (T7).
G3  Each part lies on as many replicas as its client had it staged on. The multi checks the ``host`` of each;
    one whose ``host`` has changed is asked again: if it has the part, it counts with its new version; if not,
    or if it does not answer, the part is put on other replicas, until there are as many as before (T5).
G4  What became of a multi without an answer is found out by a write and a read under the same session, and
    told by what G2 reads. When the session is over nobody knows; a retry at any node does (T18).
G5  What is too large for one multi is refused before any work.
G6  An empty step sets its writer alone; without a step, what has no rows and replaces nothing leaves nothing.
G7  A staging job is ended with the publication: it was open, and is published from then on (T4).
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from motet.core.machine import NS_PER_MS
from motet.core.mergetree import addressing, publication, tokens, writer_state
from motet.core.mergetree.context import NodeContext
from motet.core.mergetree.inserting import failure
from motet.core.mergetree.jobs import OPEN
from motet.core.mergetree.messages import (
    HoldPart,
    LogHas,
    NodeRequest,
    PartHeld,
    PartsPublished,
    PublishParts,
    TableMessage,
)
from motet.core.mergetree.paths import WRITERS, ShardPaths, writer_path
from motet.core.mergetree.publication import (
    SHARED,
    Holders,
    Mark,
    Multi,
    PartPlace,
    PublishFacts,
    Subject,
    TableFacts,
    multi_of,
    parts_of_request,
    shard_key,
)
from motet.core.mergetree.service import NodeService
from motet.core.mergetree.staging import NOT_HELD, fetched_bytes_per_ms
from motet.core.metadata.messages import (
    ANY_VERSION,
    Check,
    Children,
    Conflict,
    Found,
    Get,
    MetadataAnswer,
    Names,
    ReadDone,
    ReadOperation,
    ReadResult,
    Unknown,
    Written,
)
from motet.errors import BadInput, MotetError, NodeError, NoSuchTable, OutcomeUnknown, TooLarge
from motet.errors.tables import StagingEnded, TableBusy, TableMoved, TokenReused, TooFewReplicas
from motet.ids import Address, NodeId, PartId, RequestId, WriterName, Zxid
from motet.limits import writers_max

publications_max = 1_000
wait_ms = 30_000
"""How long a publication may take, and a little longer for large parts."""

ask_again_ms = 1_000


class PublishStep(StrEnum):
    """How far a publication is."""

    READING = "reading"
    #: some part is on too few replicas: others are asked to hold it
    ASKING = "asking"
    COMMITTING = "committing"
    #: the keeper did not say what became of the commit
    SETTLING = "settling"
    #: its token is that of a block whose quorum is open
    WAITING = "waiting"


class Publication(msgspec.Struct):
    """One that is not answered."""

    client: Address
    message: PublishParts
    since_ns: int
    wait_ns: int
    step: PublishStep = PublishStep.READING
    #: who holds each part
    holders: dict[PartPlace, Holders] = msgspec.field(default_factory=dict)
    #: who has said that it cannot hold a part
    refused: dict[tuple[int, int, NodeId], None] = msgspec.field(default_factory=dict)
    #: replicas of the shards of parts that are to be put elsewhere
    replicas: dict[tuple[int, int], tuple[NodeId, ...]] = msgspec.field(default_factory=dict)
    again_ns: int = 0
    #: how often others were asked to hold parts
    rounds: int = 0
    facts: PublishFacts | None = None
    #: a commit is unknown, or was until it was settled
    is_unsure: bool = False
    #: what was asked of the keeper last
    request: RequestId | None = None


class PublishingMemory(msgspec.Struct):
    """All publications of the node."""

    next_number: int = 1
    publications: dict[int, Publication] = msgspec.field(default_factory=dict)
    #: which publication a request is of
    calls: dict[RequestId, int] = msgspec.field(default_factory=dict)


class PublishingService(NodeService):
    """Carries publications out."""

    name = "publishing"
    takes = (PublishParts,)
    hears = (PartHeld,)

    def __init__(self, node: NodeContext) -> None:
        super().__init__(node)
        self.memory: PublishingMemory = PublishingMemory()

    # What happens

    def on_request(self, client: Address, message: NodeRequest) -> None:
        assert isinstance(message, PublishParts)
        memory, now_ns = self.memory, self.node.now.monotonic_ns
        try:
            publication.check(message)
            publication.check_size(message)  # G5
            if not self.node.memory.session:
                raise NodeError("this node has no session with the keeper", hint="ask another node")
            if len(memory.publications) >= publications_max:
                raise TableBusy(f"{publications_max} publications are under way at this node")
        except MotetError as error:
            self.refuse(client, message, error)
            return
        message = publication.identified(message)
        largest = max((p.header.size_bytes for _, p in parts_of_request(message)), default=0)
        wait_ns = (wait_ms + largest // fetched_bytes_per_ms) * NS_PER_MS
        under_way = Publication(client, message, now_ns, wait_ns)
        for place, part in parts_of_request(message):
            under_way.holders[place] = {}
            for holder in part.holders:
                self._count(under_way, place, holder.node, holder.host_version)
        number = memory.next_number
        memory.next_number += 1
        memory.publications[number] = under_way
        self._read(number)

    def on_answer(self, request: RequestId, answer: MetadataAnswer) -> None:
        number = self.memory.calls.pop(request, None)
        each = None if number is None else self.memory.publications.get(number)
        if number is None or each is None or each.request != request:
            return
        try:
            if each.step is PublishStep.COMMITTING:
                self._on_committed(number, each, answer)
            elif each.step is PublishStep.ASKING:
                self._on_replicas(each, answer)
            elif each.step is PublishStep.SETTLING:
                self._on_settled(number, each, answer)
            else:
                self._on_read(number, each, answer)
        except MotetError as error:
            self._refuse(number, error)

    def on_message(self, sender: Address, message: TableMessage) -> None:
        """G3: a replica holds a part, or cannot."""
        assert isinstance(message, PartHeld)
        node, key = NodeId(sender), (message.table, message.shard)
        for number, each in list(self.memory.publications.items()):
            if each.step is not PublishStep.ASKING:
                continue
            for place, part in parts_of_request(each.message):
                if part.header.id != message.part or shard_key(each.message, place[0], part) != key:
                    continue
                if message.host_version == NOT_HELD:
                    if (*place, node) not in each.refused:
                        each.again_ns = self.node.now.monotonic_ns  # others are asked at once
                    each.refused[*place, node] = None
                    each.holders[place].pop(node, None)
                else:
                    self._count(each, place, node, message.host_version)
            self._commit_or_ask(number, each)

    def on_session_end(self) -> None:
        """G4."""
        for number, each in list(self.memory.publications.items()):
            if each.is_unsure or each.step is PublishStep.COMMITTING:
                self._unknown(number)
            else:
                self._refuse(number, NodeError("this node has lost its session with the keeper"))
        self.memory.calls.clear()

    def on_tick(self) -> None:
        for number, each in list(self.memory.publications.items()):
            if self._is_late(each):
                self._give_up(number, each)
            elif each.step is PublishStep.ASKING:
                self._commit_or_ask(number, each)
            elif each.step is PublishStep.WAITING:
                self._read(number)
            elif each.step is PublishStep.SETTLING and each.request is None:
                self._settle(number, each)

    # Reading

    def _ask(self, number: int, request: RequestId) -> None:
        self.memory.publications[number].request = request
        self.memory.calls[request] = number

    def _read(self, number: int) -> None:
        """Everything that decides, at one moment."""
        each = self.memory.publications[number]
        if each.step is not PublishStep.WAITING:
            each.step = PublishStep.READING
        message = each.message
        reads: list[ReadOperation] = []
        for table in message.tables:
            paths = ShardPaths(table.table, 0)
            reads.append(Get(paths.definition))
            if table.name_path:
                reads.append(Get(table.name_path))
            if message.token or message.producer:
                reads.append(tokens.read_use(paths, message.token, message.producer))
                reads.append(Get(paths.producers))
            reads += [Get(paths.job(job)) for job in message.jobs]
        if message.step is not None:
            reads += [Get(writer_path(WriterName(message.step.writer))), Get(WRITERS)]
        if each.facts is not None and each.step is PublishStep.WAITING:
            reads += [Get(path) for path in _statuses(message, each.facts)]
        self._ask(number, self.read(*reads))

    def _on_read(self, number: int, each: Publication, answer: MetadataAnswer) -> None:
        """G2, G6, G7, then G3."""
        if not isinstance(answer, ReadDone):
            if not each.is_unsure:
                raise failure(answer)
            each.step, each.request = PublishStep.SETTLING, None  # with the next tick
            return
        message, results = each.message, list(answer.results)
        definitions: list[ReadResult] = []
        uses: list[ReadResult] = []
        producers: list[ReadResult] = []
        jobs: list[ReadResult] = []
        names: list[list[ReadResult]] = []
        for table in message.tables:
            definitions.append(results.pop(0))
            names.append([results.pop(0)] if table.name_path else [])
            if message.token or message.producer:
                uses.append(results.pop(0))
                producers.append(results.pop(0))
            jobs += [results.pop(0) for _ in message.jobs]
        writer = None
        if message.step is not None:
            writer = results.pop(0)
            _check_room_for_writer(writer, results.pop(0))
        if self._is_repetition(number, each, uses, producers, writer, results, answer.zxid):
            return
        each.is_unsure = False
        if not publication.has_changes(message) and message.step is None:
            self._answer(number, answer.zxid, (), is_duplicate=False)
            return
        tables = tuple(
            publication.facts_of(found, uses[n] if uses else found)
            for n, found in enumerate(definitions)
        )
        for table, name in zip(message.tables, names, strict=True):
            addressing.check_named(table.table, name, table.name_version)
        _check_shards(message, tables)
        each.facts = PublishFacts(tables, writer, _open_jobs(message, jobs))
        publication.check_size(message, each.facts)
        self._commit_or_ask(number, each)

    def _is_repetition(
        self,
        number: int,
        each: Publication,
        uses: list[ReadResult],
        producers: list[ReadResult],
        writer: ReadResult | None,
        statuses: list[ReadResult],
        zxid: Zxid,
    ) -> bool:
        """G2: whether this was published before; then it is acknowledged, once it is visible."""
        message = each.message
        if message.step is not None and writer is not None:
            if not writer_state.is_repetition(writer, message.step):
                return False
            self._answer(number, zxid, (), is_duplicate=True)
            return True
        known = [
            tokens.use_of(publication.as_insert(message, table), use, producers[table])
            for table, use in enumerate(uses)
        ]
        if not any(use is not None for use in known):
            return False
        if not all(use is not None for use in known):
            raise TokenReused("the token was used for some of these tables, and not for all")
        is_insert = any(use is not None and use.shard != SHARED for use in known)
        if is_insert and each.step is not PublishStep.WAITING:
            # It may be of an insert whose quorum is open: that is visible when its status is gone.
            facts = tuple(TableFacts(0, 0, use) for use in uses)
            each.step, each.facts = PublishStep.WAITING, PublishFacts(facts)
            self._read(number)
        elif not any(isinstance(status, Found) for status in statuses):
            self._answer(number, zxid, (), is_duplicate=True)
        return True

    # Holders

    def _count(self, each: Publication, place: PartPlace, node: NodeId, version: int) -> None:
        """A replica holds a part; what it said under an older version of its ``host`` does not count."""
        message = each.message
        key = shard_key(message, place[0], message.tables[place[0]].parts[place[1]])
        others = [
            other
            for other, part in parts_of_request(message)
            if shard_key(message, other[0], part) == key and other in each.holders
        ]
        newest = max((each.holders[other].get(node, -1) for other in others), default=-1)
        if version < newest:
            return
        for other in others:
            if each.holders[other].get(node, version) < version:
                del each.holders[other][node]
                each.again_ns = self.node.now.monotonic_ns  # it is asked for these, too, at once
        each.holders[place][node] = version

    def _missing(self, each: Publication) -> list[PartPlace]:
        """Parts that lie on too few replicas."""
        return [
            place
            for place, part in parts_of_request(each.message)
            if len(each.holders[place]) < len({holder.node for holder in part.holders})
        ]

    def _commit_or_ask(self, number: int, each: Publication) -> None:
        missing = self._missing(each)
        if not missing:
            self._commit(number, each)
            return
        now_ns = self.node.now.monotonic_ns
        if each.step is not PublishStep.ASKING:
            each.step, each.rounds, each.again_ns, each.request = (
                PublishStep.ASKING,
                0,
                now_ns,
                None,
            )
        if self._is_lost(each, missing):
            self._give_up(number, each)
            return
        if now_ns < each.again_ns:
            return
        each.again_ns = self.node.now.monotonic_ns + ask_again_ms * NS_PER_MS
        each.rounds += 1
        if each.rounds > 1 and each.request is None:
            self._read_replicas(number, each, missing)
        for place in missing:
            self._ask_holders(each, place)

    def _is_lost(self, each: Publication, missing: list[PartPlace]) -> bool:
        """Whether all replicas have said that they have not a part that nobody holds."""
        for place in missing:
            part = each.message.tables[place[0]].parts[place[1]]
            nodes = each.replicas.get((place[0], part.shard), ())
            if nodes and not each.holders[place]:
                return all((*place, node) in each.refused for node in nodes)
        return False

    def _ask_holders(self, each: Publication, place: PartPlace) -> None:
        """G3: those that had it first; others when these have had their chance."""
        message = each.message
        part = message.tables[place[0]].parts[place[1]]
        holders = each.holders[place]
        # Somebody could not get it: those that are counted may not have it any more, either.
        is_doubted = any(refused[:2] == place for refused in each.refused)
        nodes = [holder.node for holder in part.holders]
        nodes += [
            node for node in each.replicas.get((place[0], part.shard), ()) if node not in nodes
        ]
        for node in nodes:
            if node not in holders or is_doubted:
                source = next(iter(holders), node)
                hold = HoldPart(*shard_key(message, place[0], part), part.header, source)
                self.node.send(node, hold)

    def _read_replicas(self, number: int, each: Publication, missing: list[PartPlace]) -> None:
        shards = dict.fromkeys(
            (place[0], each.message.tables[place[0]].parts[place[1]].shard) for place in missing
        )
        paths = [ShardPaths(each.message.tables[t].table, shard) for t, shard in shards]
        self._ask(number, self.read(*(Children(path.replicas) for path in paths)))

    def _on_replicas(self, each: Publication, answer: MetadataAnswer) -> None:
        each.request = None
        if not isinstance(answer, ReadDone):
            return  # the next tick asks again
        shards = {
            ShardPaths(table.table, part.shard).replicas: (number, part.shard)
            for number, table in enumerate(each.message.tables)
            for part in table.parts
        }
        for names in answer.results:
            if isinstance(names, Names):
                each.replicas[shards[names.path]] = tuple(map(NodeId, names.names))
        for place in self._missing(each):
            self._ask_holders(each, place)

    # Committing

    def _commit(self, number: int, each: Publication) -> None:
        """G1."""
        assert each.facts is not None, "it was read what there is"
        each.step = PublishStep.COMMITTING
        multi = multi_of(each.message, each.facts, each.holders)
        self._ask(number, self.write(*multi.operations))

    def _multi(self, each: Publication) -> Multi:
        """As it was sent: nothing that it is made of has changed since."""
        assert each.facts is not None, "it was read what there is"
        return multi_of(each.message, each.facts, each.holders)

    def _on_committed(self, number: int, each: Publication, answer: MetadataAnswer) -> None:
        if isinstance(answer, Written):
            entries = publication.entries_of(self._multi(each), answer.results)
            self._tell_holders(each, entries)
            names = publication.names_of(each.message, entries)
            self._answer(number, answer.zxid, names, is_duplicate=False)
        elif isinstance(answer, Conflict):
            self._on_conflict(number, each, self._multi(each).marks[answer.index])
        elif isinstance(answer, Unknown):
            each.is_unsure = True
            self._settle(number, each)
        else:
            raise failure(answer)

    def _on_conflict(self, number: int, each: Publication, mark: Mark) -> None:
        """Nothing was done: what has changed is read, or asked for, again."""
        if mark.subject is Subject.NAME:
            raise TableMoved("the table has another name now")
        if mark.subject is Subject.ENTRY:
            raise NoSuchTable("the table is dropped, or has no such shard")
        if self._is_late(each):
            raise TableBusy("others wrote before this publication again and again")
        if mark.subject is not Subject.HOST:
            self._read(number)
            return
        for place, part in parts_of_request(each.message):
            if (place[0], part.shard) == (mark.table, mark.shard):
                each.holders[place].pop(mark.node, None)
        self._commit_or_ask(number, each)

    def _tell_holders(self, each: Publication, entries: dict[tuple[int, int], int]) -> None:
        """A hint: whoever holds a part need not wait for its watch."""
        told: dict[tuple[NodeId, int, int], None] = {}
        for place, part in parts_of_request(each.message):
            told.update(dict.fromkeys((n, place[0], part.shard) for n in each.holders[place]))
        for node, table, shard in told:
            hint = LogHas(each.message.tables[table].table, shard, entries[table, shard])
            self.node.send(node, hint)

    # Unknown outcomes

    def _settle(self, number: int, each: Publication) -> None:
        """G4: writes of a session take effect in their order, so after this one the other is settled."""
        each.step = PublishStep.SETTLING
        self._ask(number, self.write(Check(WRITERS, ANY_VERSION)))

    def _on_settled(self, number: int, each: Publication, answer: MetadataAnswer) -> None:
        each.request = None
        if not isinstance(answer, Written | Conflict):
            return  # the next tick asks again
        if not (each.message.token or each.message.producer or each.message.step):
            self._unknown(number)  # an overwrite with nothing, which has no name
        else:
            self._read(number)

    # Answers

    def _is_late(self, each: Publication) -> bool:
        return self.node.now.monotonic_ns - each.since_ns >= each.wait_ns

    def _give_up(self, number: int, each: Publication) -> None:
        if each.is_unsure or each.step is PublishStep.COMMITTING:
            self._unknown(number)
        elif each.step is PublishStep.ASKING:
            place = self._missing(each)[0]
            part = each.message.tables[place[0]].parts[place[1]]
            held = f"{len(each.holders[place])} of {len(part.holders)} replicas"
            what = f"part {part.header.id} is held by {held}"
            self._refuse(number, TooFewReplicas(what, hint="stage it again"))
        elif each.step is PublishStep.WAITING:
            what = "the insert of this token is not visible yet: its quorum is open"
            self._refuse(number, TableBusy(what))
        else:
            self._refuse(number, NodeError("the keeper did not answer", hint="publish again"))

    def _answer(
        self, number: int, zxid: Zxid, names: tuple[str, ...], *, is_duplicate: bool
    ) -> None:
        each = self.memory.publications.pop(number)
        version = self.node.version(zxid)
        told = PartsPublished(each.message.request, version, names, is_duplicate)
        self.node.send(each.client, told)

    def _refuse(self, number: int, error: MotetError) -> None:
        each = self.memory.publications.pop(number)
        self.refuse(each.client, each.message, error)

    def _unknown(self, number: int) -> None:
        what = "it is not known whether this is published"
        hint = "publish it again with the same token or step"
        self._refuse(number, OutcomeUnknown(what, hint=hint))


def _statuses(message: PublishParts, facts: PublishFacts) -> list[str]:
    """The quorums of inserts under the token that was found."""
    paths = []
    for table, known in enumerate(facts.tables):
        insert = publication.as_insert(message, table)
        used = tokens.used(insert, known.use)
        if used is not None and used.shard != SHARED:
            paths.append(ShardPaths(insert.table, used.shard).status(PartId(used.part)))
    return paths


def _check_room_for_writer(writer: ReadResult, writers: ReadResult) -> None:
    is_full = isinstance(writers, Found) and writers.stat.children >= writers_max
    if is_full and not isinstance(writer, Found):
        raise TooLarge(f"there are {writers_max} ordered writers already")


def _check_shards(message: PublishParts, tables: tuple[TableFacts, ...]) -> None:
    for place, part in parts_of_request(message):
        shards = tables[place[0]].shards
        if part.shard >= shards:
            raise BadInput(f"the table has {shards} shards, and none of number {part.shard}")


def _open_jobs(message: PublishParts, found: list[ReadResult]) -> tuple[tuple[str, int], ...]:
    """G7: a job is in each table that parts were staged for."""
    if not message.tables:
        return ()
    jobs = []
    for number, result in enumerate(found):
        if not isinstance(result, Found):
            continue
        if result.data != OPEN:
            job = message.jobs[number % len(message.jobs)]
            raise StagingEnded(
                f"staging job {job} is {result.data.decode(errors='replace')[:40]}: its parts may be gone"
            )
        jobs.append((result.path, result.stat.version))
    missing = [
        job
        for number, job in enumerate(message.jobs)
        if not any(isinstance(each, Found) for each in found[number :: len(message.jobs)])
    ]
    if missing:
        raise StagingEnded(f"there is no staging job {missing[0]}")
    return tuple(jobs)
