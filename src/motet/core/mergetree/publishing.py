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
G8  Shards that get many parts have them listed in manifests below a staging job; see ``manifests``.
"""

from __future__ import annotations

import msgspec

from motet.core.machine import NS_PER_MS
from motet.core.mergetree import addressing, publication, tokens, writer_state
from motet.core.mergetree.context import NodeContext
from motet.core.mergetree.inserting import failure
from motet.core.mergetree.manifests import manifests_of, own_job
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
from motet.core.mergetree.publication_state import (
    PublicationUnderWay,
    PublishingMemory,
    PublishStep,
    begin_holders,
    count_holder,
    discard_holder,
    is_lost,
    nodes_to_make,
    part_at,
    wanted,
    with_jobs,
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
    Refusal,
    Unknown,
    Written,
)
from motet.errors import BadInput, MotetError, NodeError, NoSuchTable, OutcomeUnknown, TooLarge
from motet.errors.tables import TableBusy, TableMoved, TokenReused, TooFewReplicas
from motet.ids import Address, NodeId, PartId, RequestId, WriterName, Zxid
from motet.limits import writers_max

publications_max = 1_000
wait_ms = 30_000
"""How long a publication may take, and a little longer for large parts."""

ask_again_ms = 1_000


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
            manifests = manifests_of(message)
            publication.check_size(message, manifests)  # G5
            if not self.node.memory.session:
                raise NodeError("this node has no session with the keeper", hint="ask another node")
            if len(memory.publications) >= publications_max:
                raise TableBusy(f"{publications_max} publications are under way at this node")
        except MotetError as error:
            self.refuse(client, message, error)
            return
        message = publication.identified(message)
        has_own_job = bool(manifests) and not message.jobs
        if has_own_job:
            message = msgspec.structs.replace(message, jobs=(own_job(message),))
        largest = max((p.header.size_bytes for _, p in parts_of_request(message)), default=0)
        wait_ns = (wait_ms + largest // fetched_bytes_per_ms) * NS_PER_MS
        under_way = PublicationUnderWay(client, message, now_ns, wait_ns)
        under_way.manifests, under_way.has_own_job = manifests, has_own_job
        begin_holders(under_way)
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
            elif each.step is PublishStep.PREPARING:
                self._on_prepared(number, each, answer)
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
        now_ns = self.node.now.monotonic_ns
        for number, each in list(self.memory.publications.items()):
            place = each.places.get((key, message.part))
            if place is None or each.step is not PublishStep.ASKING:
                continue
            if message.host_version == NOT_HELD:
                if (*place, node) not in each.refused:
                    each.again_ns = now_ns  # others are asked at once
                each.refused[*place, node] = each.doubted[place] = None
                if each.holders[place].pop(node, None) is not None:
                    each.missing[place] = None
            elif count_holder(each, place, node, message.host_version):
                each.again_ns = now_ns
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

    def _on_read(self, number: int, each: PublicationUnderWay, answer: MetadataAnswer) -> None:
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
        tables, open_jobs = with_jobs(each, tables, jobs)
        each.facts = PublishFacts(tables, writer, open_jobs)
        publication.check_size(message, each.manifests, each.facts)
        if each.manifests and not each.is_listed:
            each.todo = nodes_to_make(each, tables)
            each.step = PublishStep.PREPARING
            self._prepare(number, each)
        else:
            self._commit_or_ask(number, each)

    # Manifests

    def _prepare(self, number: int, each: PublicationUnderWay) -> None:
        """G8: one node after the other; the multi checks that the job is still open then."""
        if each.todo:
            self._ask(number, self.write(each.todo[0]))
        else:
            each.is_listed = True
            self._read(number)

    def _on_prepared(self, number: int, each: PublicationUnderWay, answer: MetadataAnswer) -> None:
        is_there = isinstance(answer, Conflict) and answer.why is Refusal.NODE_EXISTS
        if isinstance(answer, Written) or is_there:
            each.todo.pop(0)
            self._prepare(number, each)
        elif isinstance(answer, Unknown):
            self._prepare(number, each)  # if it was done, it is there
        elif isinstance(answer, Conflict) and not self._is_late(each):
            self._read(number)  # the job is gone
        elif isinstance(answer, Conflict):
            raise TableBusy("its staging job went again and again")
        else:
            raise failure(answer)

    def _is_repetition(
        self,
        number: int,
        each: PublicationUnderWay,
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

    def _commit_or_ask(self, number: int, each: PublicationUnderWay) -> None:
        if not each.missing:
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
        if is_lost(each):
            self._give_up(number, each)
            return
        if now_ns < each.again_ns:
            return
        each.again_ns = self.node.now.monotonic_ns + ask_again_ms * NS_PER_MS
        each.rounds += 1
        if each.rounds > 1 and each.request is None:
            self._read_replicas(number, each)
        for place in each.missing:
            self._ask_holders(each, place)

    def _ask_holders(self, each: PublicationUnderWay, place: PartPlace) -> None:
        """G3: those that had it first; others when these have had their chance."""
        message, part, holders = each.message, part_at(each, place), each.holders[place]
        nodes = [holder.node for holder in part.holders]
        nodes += [
            node for node in each.replicas.get((place[0], part.shard), ()) if node not in nodes
        ]
        for node in nodes:
            if node not in holders or place in each.doubted:
                source = next(iter(holders), node)
                hold = HoldPart(*shard_key(message, place[0], part), part.header, source)
                self.node.send(node, hold)

    def _read_replicas(self, number: int, each: PublicationUnderWay) -> None:
        shards = dict.fromkeys((place[0], part_at(each, place).shard) for place in each.missing)
        paths = [ShardPaths(each.message.tables[t].table, shard) for t, shard in shards]
        self._ask(number, self.read(*(Children(path.replicas) for path in paths)))

    def _on_replicas(self, each: PublicationUnderWay, answer: MetadataAnswer) -> None:
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
        for place in each.missing:
            self._ask_holders(each, place)

    # Committing

    def _commit(self, number: int, each: PublicationUnderWay) -> None:
        """G1."""
        assert each.facts is not None, "it was read what there is"
        each.step = PublishStep.COMMITTING
        multi = self._multi(each)
        self._ask(number, self.write(*multi.operations))

    def _multi(self, each: PublicationUnderWay) -> Multi:
        """As it was sent: nothing that it is made of has changed since."""
        assert each.facts is not None, "it was read what there is"
        return multi_of(each.message, each.facts, each.holders, each.manifests)

    def _on_committed(self, number: int, each: PublicationUnderWay, answer: MetadataAnswer) -> None:
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

    def _on_conflict(self, number: int, each: PublicationUnderWay, mark: Mark) -> None:
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
        discard_holder(each, mark.table, mark.shard, mark.node)
        self._commit_or_ask(number, each)

    def _tell_holders(self, each: PublicationUnderWay, entries: dict[tuple[int, int], int]) -> None:
        """A hint: whoever holds a part need not wait for its watch."""
        told: dict[tuple[NodeId, int, int], None] = {}
        for place, part in parts_of_request(each.message):
            told.update(dict.fromkeys((n, place[0], part.shard) for n in each.holders[place]))
        for node, table, shard in told:
            hint = LogHas(each.message.tables[table].table, shard, entries[table, shard])
            self.node.send(node, hint)

    # Unknown outcomes

    def _settle(self, number: int, each: PublicationUnderWay) -> None:
        """G4: writes of a session take effect in their order, so after this one the other is settled."""
        each.step = PublishStep.SETTLING
        self._ask(number, self.write(Check(WRITERS, ANY_VERSION)))

    def _on_settled(self, number: int, each: PublicationUnderWay, answer: MetadataAnswer) -> None:
        each.request = None
        if not isinstance(answer, Written | Conflict):
            return  # the next tick asks again
        if not (each.message.token or each.message.producer or each.message.step):
            self._unknown(number)  # an overwrite with nothing, which has no name
        else:
            self._read(number)

    # Answers

    def _is_late(self, each: PublicationUnderWay) -> bool:
        return self.node.now.monotonic_ns - each.since_ns >= each.wait_ns

    def _give_up(self, number: int, each: PublicationUnderWay) -> None:
        if each.is_unsure or each.step is PublishStep.COMMITTING:
            self._unknown(number)
        elif each.step is PublishStep.ASKING:
            place = next(iter(each.missing))
            part = part_at(each, place)
            held = f"{len(each.holders[place])} of {wanted(part)} replicas"
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
