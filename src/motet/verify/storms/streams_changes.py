"""Somebody who asks operators for one change after the other: elections, swaps, drains, new streams.

There is one stream that stays; others come and go. Whatever is asked may be refused, and may come to nothing:
what it must not do is lose or stop anything.
"""

from __future__ import annotations

from collections.abc import Callable

from motet.core.machine import Effect, Message
from motet.core.metadata.definitions import StreamDefinition, shard_names
from motet.core.streams.cluster_messages import (
    ContractShard,
    CreateStream,
    DeleteStream,
    DescribeShards,
    DrainNode,
    ElectLeader,
    ExpandShard,
    OperatorDone,
    OperatorRefused,
    OperatorRequest,
    ShardMetadata,
    StreamCreated,
    SwapNode,
)
from motet.errors import NoSuchStream, OutcomeUnknown, StreamExists
from motet.errors.operator import NoNodeToPlaceOn, NotActive
from motet.ids import Address, NodeId, ShardId, ShardName, StreamId, StreamName
from motet.verify.storms.asker import Asker
from motet.verify.storms.streams_clients import Site

TIMEOUT_MS = 600
"""A change may take longer, and goes on then; so does whoever asks."""

ensemble_min = 3
"""Smaller ones come about, but not as often."""

STAYS = StreamName("stays")
COMES_AND_GOES = StreamName("guest")

MayContract = Callable[[ShardName], bool]
"""Whether an ensemble can do with one node less: not while one of its disks is lost."""


class Changer(Asker):
    """Asks for one thing at a time."""

    def __init__(
        self,
        site: Site,
        name: str,
        operators: tuple[Address, ...],
        stays: StreamDefinition,
        may_contract: MayContract,
        *,
        between_ms_max: int,
    ) -> None:
        super().__init__(
            site.world, name, operators[0], timeout_ms=TIMEOUT_MS, between_ms_max=between_ms_max
        )
        self._watch = site.watch
        self._operators = operators
        self._nodes = tuple(NodeId(node) for node in site.nodes)
        self._stays = stays
        self._may_contract = may_contract
        self._is_founded = False
        self._guest: StreamDefinition | None = None
        self._guests = 0
        #: it was said to be there; and how often it was asked to be deleted
        self._is_guest_there = False
        self._deletions = 0
        #: is being emptied, or was not told that it may be filled again
        self._drained: NodeId | None = None
        #: in the end every node may be filled again: a request to drain that the network repeated
        #: may have emptied one that nobody here remembers
        self._to_fill = list(self._nodes)
        #: as it was last told
        self._fence = 0
        #: to be asked until there is an answer
        self._insists: Callable[[], OperatorRequest] | None = None
        self.is_done = False

    def begin(self) -> list[Effect]:
        if self.world.fabric.healed and self._is_founded and self._to_fill:
            return self.ask(DrainNode(self.next_request(), self._to_fill[0], is_drained=False))
        if self._insists is None:
            if not self._is_founded:
                self._insists = lambda: self._create(self._stays)
            elif self.world.fabric.healed:
                if self._drained is None:
                    self.is_done = True
                    return self.pause()
                self._insists = self._undrain
        message = self._insists() if self._insists is not None else self._decide()
        return self.pause() if message is None else self.ask(message)

    def _undrain(self) -> OperatorRequest:
        assert self._drained is not None
        return DrainNode(self.next_request(), self._drained, is_drained=False)

    # What to ask for

    def _decide(self) -> OperatorRequest | None:
        chosen = self._shard()
        is_small = chosen is None or len(chosen[1].ensemble) <= ensemble_min
        kinds = [self._swap] * 5 + [self._expand] * 4 + [self._contract] * (1 if is_small else 5)
        kinds += [self._elect, self._elect, self._drain, self._come_or_go, self._describe]
        return self.dice.pick(kinds)()

    def _shard(self) -> tuple[ShardId, ShardMetadata] | None:
        number = ShardId(self.dice.between(0, self._stays.shards - 1))
        metadata = self._watch.metadata.get(shard_names(self._stays)[number])
        return None if metadata is None else (number, metadata)

    def _outside(self, metadata: ShardMetadata) -> NodeId | None:
        """A node that is not in the ensemble, if there is one; the operator chooses now and then."""
        outside = [node for node in self._nodes if node not in metadata.ensemble]
        return None if not outside or self.dice.chance(0.2) else self.dice.pick(outside)

    def _followers(self, metadata: ShardMetadata) -> list[NodeId]:
        """Those that can leave; now and then the leader too, which cannot."""
        followers = [node for node in metadata.ensemble if node != metadata.leader]
        return list(metadata.ensemble) if not followers or self.dice.chance(0.1) else followers

    def _swap(self) -> OperatorRequest | None:
        chosen = self._shard()
        if chosen is None:
            return None
        number, metadata = chosen
        old = self.dice.pick(self._followers(metadata))
        return SwapNode(self.next_request(), STAYS, number, old, self._outside(metadata))

    def _expand(self) -> OperatorRequest | None:
        chosen = self._shard()
        if chosen is None:
            return None
        number, metadata = chosen
        return ExpandShard(self.next_request(), STAYS, number, self._outside(metadata))

    def _contract(self) -> OperatorRequest | None:
        chosen = self._shard()
        if chosen is None or not self._may_contract(chosen[1].shard):
            return None
        number, metadata = chosen
        old = None if self.dice.chance(0.3) else self.dice.pick(self._followers(metadata))
        return ContractShard(self.next_request(), STAYS, number, old)

    def _elect(self) -> OperatorRequest | None:
        chosen = self._shard()
        if chosen is None:
            return None
        number, metadata = chosen
        preferred = self.dice.pick([None, *metadata.ensemble])
        return ElectLeader(self.next_request(), STAYS, number, preferred)

    def _drain(self) -> OperatorRequest | None:
        if self._drained is not None:
            self._insists = self._undrain
            return self._undrain()
        self._drained = self.dice.pick(self._nodes)
        return DrainNode(self.next_request(), self._drained)

    def _come_or_go(self) -> OperatorRequest | None:
        if self._guest is not None:
            self._insists = self._delete
            return self._insists()
        self._guests += 1
        replicas = self.dice.pick([None, 1, min(3, len(self._nodes))])
        # One copy does not survive the loss of a disk: the guest has more, or as many as there are.
        replicas = None if replicas == 1 else replicas
        guest = StreamDefinition(StreamId(f"{self._guests:016x}"), COMES_AND_GOES, 1, replicas)
        self._guest, self._is_guest_there, self._deletions = guest, False, 0
        self._insists = lambda: self._create(guest)
        return self._insists()

    def _delete(self) -> DeleteStream:
        assert self._guest is not None
        self._deletions += 1
        return DeleteStream(self.next_request(), COMES_AND_GOES, self._guest.id)

    def _create(self, wanted: StreamDefinition) -> CreateStream:
        return CreateStream(self.next_request(), wanted, self._fence)

    def _describe(self) -> OperatorRequest:
        return DescribeShards(self.next_request(), self.dice.pick([None, STAYS]))

    # What came of it

    def answered(self, asked: Message, answer: Message | None) -> list[Effect]:
        if answer is None:
            self._server = self.dice.pick(self._operators)
            return self.pause()
        if isinstance(answer, OperatorRefused):
            self._refused(asked, answer)
            return self.pause()
        self._done(asked, answer)
        return self.pause()

    def _refused(self, asked: Message, answer: OperatorRefused) -> None:
        self.world.mark(f"change_{answer.code.lower()}")
        if answer.code == NotActive.code:
            others = [each for each in self._operators if each != self._server]
            self._server = self.dice.pick(others or self._operators)
        elif answer.fence is not None:
            self._fence = answer.fence
        elif answer.code == OutcomeUnknown.code:
            self._server = self.dice.pick(self._operators)
        elif isinstance(asked, DeleteStream) and answer.code == NoSuchStream.code:
            if self._deletions == 1 and self._is_guest_there:
                self.world.violated("Deleted", f"{self.name}: {asked} was deleted by somebody else")
            self._guest = self._insists = None  # deleted the time before
        elif isinstance(asked, CreateStream) and self._is_for_want_of_nodes(asked, answer):
            # Nobody is placed on a node that is drained. If it was created after all, it is deleted later.
            self._insists = None if self._drained is None else self._undrain
        elif isinstance(asked, CreateStream):
            is_in_the_way = answer.code == StreamExists.code and asked.definition != self._stays
            if not is_in_the_way and answer.code != NoNodeToPlaceOn.code:
                self.world.violated("Changes", f"{self.name} cannot create {asked}: {answer}")

    def _is_for_want_of_nodes(self, asked: CreateStream, answer: OperatorRefused) -> bool:
        return answer.code == NoNodeToPlaceOn.code and asked.definition != self._stays

    def _done(self, asked: Message, answer: Message) -> None:
        self.world.mark(f"change_done_{type(asked).__name__}")
        if isinstance(asked, CreateStream) and isinstance(answer, StreamCreated):
            self._is_founded = True
            self._insists = None
            if self._guest is not None and answer.place.definition.id == self._guest.id:
                self._is_guest_there = True
        elif isinstance(asked, DeleteStream) and isinstance(answer, OperatorDone):
            self._guest = self._insists = None
        elif isinstance(asked, DrainNode) and not asked.is_drained:
            self._filled(asked.node)

    def _filled(self, node: NodeId) -> None:
        if self.world.fabric.healed and node in self._to_fill:
            self._to_fill.remove(node)
        if node == self._drained:
            self._drained = None
            if self._insists == self._undrain:
                self._insists = None
