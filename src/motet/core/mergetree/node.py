"""All table replicas of a node, and what it does about whole tables, as one machine with one session."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from motet.core.fingerprint import clone_plain, fingerprint
from motet.core.machine import (
    Effect,
    Event,
    Fired,
    Read,
    ReadBack,
    ReadFailed,
    Received,
    Send,
    SetTimer,
    Started,
    Violation,
    WorkDone,
    WorkFailed,
    WriteFailed,
    Written,
)
from motet.core.mergetree.changing import ChangingService
from motet.core.mergetree.config import MergeTreeConfig
from motet.core.mergetree.context import WRITE_TIMER, NodeContext, ReplicaKey
from motet.core.mergetree.creating import CreatingService
from motet.core.mergetree.database import DatabaseService
from motet.core.mergetree.describing import DescribingService
from motet.core.mergetree.hosting import HostingService
from motet.core.mergetree.jobs import JobsService
from motet.core.mergetree.listing import ListingService
from motet.core.mergetree.messages import (
    NodeRefused,
    NodeRequest,
    TableMessage,
    TableRefused,
    TableRequest,
)
from motet.core.mergetree.paths import shard_of
from motet.core.mergetree.publishing import PublishingService
from motet.core.mergetree.replica import TableReplica
from motet.core.mergetree.service import NodeService
from motet.core.mergetree.setting import SettingService
from motet.core.mergetree.shard_log import ShardLogService
from motet.core.mergetree.standing_messages import DescribeReplicas, ReplicasDescribed
from motet.core.mergetree.tree_collecting import TreeCollectingService
from motet.core.mergetree.writers import WritersService
from motet.core.metadata.messages import (
    METADATA,
    NO_SESSION,
    Changed,
    MetadataAnswer,
    MetadataMessage,
    SessionBegun,
    SessionEnded,
)
from motet.errors import NodeError
from motet.ids import Address, NodeId, ReadId, TimerName

TICK = TimerName("tables-tick")

SERVICES: tuple[type[NodeService], ...] = (
    DatabaseService,
    HostingService,
    CreatingService,
    ChangingService,
    SettingService,
    DescribingService,
    ListingService,
    TreeCollectingService,
    PublishingService,
    WritersService,
    JobsService,
    ShardLogService,
)
"""What a node does besides its replicas."""


class TableNode:
    """The machine of a node's table replicas."""

    def __init__(
        self,
        own: NodeId,
        keys: tuple[ReplicaKey, ...],
        config: MergeTreeConfig | None = None,
        folder: str = "",
        endpoint: str = "",
    ) -> None:
        self.config = MergeTreeConfig() if config is None else config
        self.node = NodeContext(own, endpoint, self.config)
        self.node.memory.folder = folder
        self.replicas = {key: TableReplica(self.node, key, self.config) for key in keys}
        self.services = {each.name: each(self.node) for each in SERVICES}
        self._takes = {kind: each for each in self.services.values() for kind in each.takes}
        #: whom the step concerns: what follows from it is worked out for them alone
        self._touched: dict[ReplicaKey, None] = {}

    def step(self, event: Event) -> list[Effect]:
        node = self.node
        node.now = event.now
        if isinstance(event, Started):
            self._start(event.nonce)
        elif isinstance(event, Received):
            self._on_message(event)
        elif isinstance(event, WorkDone | WorkFailed):
            self._on_work(event)
        elif isinstance(event, Written | WriteFailed):
            self._on_written(event)
        elif isinstance(event, ReadBack):
            key = node.memory.reads.pop(event.read)
            if key in self.replicas:
                replica = self._touch(key)
                replica.on_file_read(event.data)
                replica.on_session()
        elif isinstance(event, ReadFailed):
            del node.memory.reads[event.read]  # the next tick reads it again
        elif isinstance(event, Fired) and event.timer == WRITE_TIMER:
            self._write()
        elif isinstance(event, Fired):
            self._tick()
        self._start_and_stop()
        self._follow_up()
        while node.to_own:
            told, node.to_own = node.to_own, []
            for message in told:
                self._on_message(Received(event.now, Address(node.memory.own), message))
            self._follow_up()
        return node.take()

    def _follow_up(self) -> None:
        for key in self._touched:
            self.replicas[key].follow_up()
        self._touched.clear()

    def _on_work(self, event: WorkDone | WorkFailed) -> None:
        owner = self.node.memory.works.pop(event.work)
        self.node.end_block(event.work)
        result, why = (event.result, None) if isinstance(event, WorkDone) else (None, event.why)
        if isinstance(owner, str):
            self.services[owner].on_work(event.work, why)
        elif owner in self.replicas:
            self._touch(owner).on_work(event.work, result, why)

    def _on_written(self, event: Written | WriteFailed) -> None:
        owner = self.node.memory.writes.pop(event.write)
        if isinstance(owner, str):
            why = event.why if isinstance(event, WriteFailed) else None
            self.services[owner].on_written(event.write, why)
        elif owner in self.replicas and isinstance(event, Written):
            self._touch(owner).on_written(event.write)
        elif owner in self.replicas and isinstance(event, WriteFailed):
            self._touch(owner).on_write_failed(event.write, event.why)

    def _start_and_stop(self) -> None:
        """Replicas that came, and those that go: what they have asked for is answered to nobody."""
        node = self.node
        for key in [each for each in node.to_start if each not in self.replicas]:
            self.replicas[key] = TableReplica(node, key, self.config)
            self._read_file(key)
        for key in node.to_stop:
            self.replicas.pop(key, None)
            self._touched.pop(key, None)
        node.to_start, node.to_stop = [], []

    def _touch(self, key: ReplicaKey) -> TableReplica:
        self._touched[key] = None
        return self.replicas[key]

    def _touch_all(self) -> Iterable[TableReplica]:
        return [self._touch(key) for key in self.replicas]

    def _write(self) -> None:
        """Replicas write what they have executed (L2)."""
        awaited, self.node.memory.to_write = self.node.memory.to_write, {}
        for key in awaited:
            if key in self.replicas:
                self._touch(key)

    def _tick(self) -> None:
        self.node.items.append(SetTimer(TICK, self.config.tick_ms, in_step=True))
        being_read = set(self.node.memory.reads.values())
        for key in self.replicas:
            if not self.replicas[key].core.state.is_read and key not in being_read:
                self._read_file(key)
        for replica in self._touch_all():
            replica.on_tick()
        for service in self.services.values():
            service.on_tick()

    def _start(self, nonce: int) -> None:
        self.node.memory.nonce = nonce
        for key in self.replicas:
            self._read_file(key)
        self.node.items.append(SetTimer(TICK, self.config.tick_ms, in_step=True))

    def _read_file(self, key: ReplicaKey) -> None:
        memory = self.node.memory
        read = ReadId(memory.next_read)
        memory.next_read += 1
        memory.reads[read] = key
        self.node.items.append(Read(read, self.replicas[key].core.file))

    def _on_message(self, event: Received) -> None:
        message = event.message
        if event.sender == METADATA:
            assert isinstance(message, MetadataMessage), "the keeper's port says nothing else"
            self._on_metadata(message)
        elif isinstance(message, NodeRequest):
            self._on_node_request(event.sender, message)
        elif isinstance(message, TableMessage):
            for service in self.services.values():
                if isinstance(message, service.hears):
                    service.on_message(event.sender, message)
            key = message.table, message.shard
            if key in self.replicas:
                self._touch(key).on_request(event.sender, message)
            elif isinstance(message, TableRequest):
                self._refuse(event.sender, message)

    def _on_node_request(self, client: Address, message: NodeRequest) -> None:
        if isinstance(message, DescribeReplicas):
            self._describe_replicas(client, message)
            return
        service = self._takes.get(type(message))
        if service is not None:
            service.on_request(client, message)
        else:
            error = NodeError(f"this node does not answer {type(message).__name__}")
            told = NodeRefused(message.request, error.code, error.what, error.advice)
            self.node.send(client, told)

    def _describe_replicas(self, client: Address, message: DescribeReplicas) -> None:
        own = self.node.memory.own
        standings = tuple(replica.standing() for replica in self.replicas.values())
        self.node.send(client, ReplicasDescribed(message.request, own, standings))

    def _refuse(self, client: Address, request: TableRequest) -> None:
        table, shard = request.table, request.shard
        error = NodeError(
            f"this node has no replica of shard {shard} of table {table}",
            hint="ask which nodes have one, and send it there",
        )
        told = TableRefused(table, shard, request.request, error.code, error.what, error.advice)
        self.node.items.append(Send(client, told))

    def _on_metadata(self, message: MetadataMessage) -> None:
        memory = self.node.memory
        if isinstance(message, SessionBegun):
            self._begin_session(message)
        elif isinstance(message, SessionEnded):
            if message.session == memory.session:
                self._end_session()
        elif isinstance(message, MetadataAnswer):
            self._on_answer(message)
        elif isinstance(message, Changed):
            key = shard_of(message.path)
            if key is not None and key in self.replicas:
                self._touch(key).on_changed(message)
            for service in self.services.values():
                service.on_changed(message)

    def _on_answer(self, answer: MetadataAnswer) -> None:
        memory = self.node.memory
        owner = memory.requests.pop(answer.request, None)
        if isinstance(owner, str):
            before = memory.incarnation
            self.services[owner].on_answer(answer.request, answer)
            if memory.incarnation != before:
                self._serve_incarnation(is_first=not before)
        elif owner in self.replicas:
            self._touch(owner).on_answer(answer.request, answer)

    def _begin_session(self, message: SessionBegun) -> None:
        memory = self.node.memory
        if message.session == memory.session:
            return
        self._end_session()
        memory.session = message.session
        self.services[DatabaseService.name].on_session()

    def _serve_incarnation(self, *, is_first: bool) -> None:
        """N2: it is known whose state the keeper's is, and what is done under this session begins."""
        for replica in self._touch_all():
            replica.on_session()
        for service in self.services.values():
            if is_first and not isinstance(service, DatabaseService):
                service.on_session()

    def _end_session(self) -> None:
        """No answer to what was asked under it counts any more."""
        memory = self.node.memory
        if memory.session == NO_SESSION:
            return
        memory.session, memory.incarnation = NO_SESSION, ""
        memory.requests.clear()
        for replica in self._touch_all():
            replica.on_session_end()
        for service in self.services.values():
            service.on_session_end()

    def clone(self) -> Self:
        twin = type(self)(self.node.memory.own, (), self.config)
        twin.node = self.node.clone()
        twin.replicas = {key: each.clone(twin.node) for key, each in self.replicas.items()}
        twin.services = {name: type(each)(twin.node) for name, each in self.services.items()}
        for name, each in self.services.items():
            twin.services[name].memory = clone_plain(each.memory)
        twin._takes = {kind: each for each in twin.services.values() for kind in each.takes}
        return twin

    def fingerprint(self) -> bytes:
        states = [replica.core.state for replica in self.replicas.values()]
        memories = [service.memory for service in self.services.values()]
        return fingerprint((self.node.memory, states, memories))

    def invariants(self) -> list[Violation]:
        return [each for replica in self.replicas.values() for each in replica.invariants()]
