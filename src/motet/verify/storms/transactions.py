"""Transactions of a cluster in the storm: coordinators die, leaders change, and all or nothing holds.

The cluster, its operators and its faults are those of ``streams``. Clients move amounts between accounts in
several shards, append to the same keys beside that, and give up wherever they are; readers follow the feed of
all shards with pages of any size. Meanwhile a second stream is created and used, the feed is pruned, and the
clock is turned off and on. What must hold is in ``transactions_checks``.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from motet.core.metadata.definitions import StreamDefinition
from motet.core.streams.feed_merge import merge
from motet.core.streams.node import DataNode
from motet.core.streams.pending import TransactionConfig
from motet.ids import Address, NodeId, StreamId, StreamName
from motet.sim.dice import Dice
from motet.sim.world import World
from motet.verify.plants import plants_of
from motet.verify.storms.streams import HOST, StreamsRun
from motet.verify.storms.streams_changes import STAYS, Changer
from motet.verify.storms.streams_clients import DataClient, Reader, Writer
from motet.verify.storms.transactions_checks import Ledger
from motet.verify.storms.transactions_clients import Bank, Banker, KeyWriter
from motet.verify.storms.transactions_feed import FeedReader, PageReader, Pages
from motet.verify.storms.transactions_liar import Liar
from motet.verify.storms.transactions_orders import Orderer, Pruner
from motet.verify.storms.transactions_plants import (
    LIAR_PLANTS,
    NO_BOOKMARK,
    TORN_TIE,
    merge_tearing,
    transaction_node,
)
from motet.verify.storms.transactions_readers import Traveller, Visitor
from motet.verify.storms.transactions_watch import (
    ADJUST_MISSED,
    CLOSED_INHERITED,
    COMPACTER_CRASHED,
    HOME_LEADER_CHANGED,
    LOCKS_INHERITED,
    WAITS,
    Aims,
    Births,
    Clocks,
    InFlights,
)

LATER = StreamName("later")
"""The second stream, which is created in the storm."""

liar_share = 0.33
"""In how many runs one of the clients lies."""


def draw_transactions(dice: Dice) -> TransactionConfig:
    """Small figures: doubt comes soon, and little is remembered."""
    return TransactionConfig(
        sweep_ms=30,
        doubt_ms=dice.pick([120, 400, 1_200]),
        tell_ms=dice.pick([60, 300]),
        adjust_ms=100,
        wait_ms=500,
        close_ms=dice.pick([5, 40]),
        outcomes_remembered=dice.pick([3, 25]),
        index_step_bytes=dice.pick([1, 300, 1_500]),
        compaction_bytes=dice.pick([20, 200]),
    )


class TransactionsStorm:
    """``motet simulate transactions``."""

    name = "transactions"
    marks: tuple[str, ...] = (
        "crash",
        "transaction_committed",
        "transaction_aborted",
        "transaction_conflict",
        "transaction_doubt_aborted",
        "transaction_doubt_committed",
        "transaction_decisions_forgotten",
        "coordinator_died",
        "coordinator_pondered",
        "lie_refused",
        "participants_left_out",
        "given_up_by_a_stranger",
        WAITS,
        ADJUST_MISSED,
        HOME_LEADER_CHANGED,
        LOCKS_INHERITED,
        CLOSED_INHERITED,
        "feed_page",
        "page_from_anywhere",
        "feed_pruned",
        "pruning_held_back",
        "feed_expired",
        "transaction_compacted",
        "compacted_change_read",
        COMPACTER_CRASHED,
        "clock_hidden",
        "stream_created_in_storm",
        "session_hop",
    )
    plants = plants_of("transactions")
    storm_ms = 9_000

    def prepare(self, world: World, plant: str | None) -> TransactionsRun:
        return TransactionsRun(world, plant)


class TransactionsRun(StreamsRun):
    """One cluster, its bankers and its feed readers."""

    def __init__(self, world: World, plant: str | None) -> None:
        self.transactions = draw_transactions(world.dice.fork("transactions"))
        self.merge = merge_tearing if plant == TORN_TIE else merge
        self._plant = plant
        is_calm = world.faults == type(world.faults)()
        #: how far the wall clocks of the nodes are off
        self.skew_ms = 0 if is_calm else world.dice.fork("skew").pick([0, 60, 200])
        #: short ones: what is pruned goes in whole files
        self.segment_bytes = world.dice.fork("files").pick([600, 1_000, 2_500])
        super().__init__(world, plant)

    def _add_data_node(self, name: NodeId, plant: str | None) -> None:
        self.config = msgspec.structs.replace(
            self.config, keep_bytes=None, segment_bytes=self.segment_bytes
        )
        node = self._world.add_node(name)
        if self.skew_ms:
            node.time.jump(self._dice.between(-self.skew_ms, self.skew_ms))
        host = self._world.host(node, HOST, self._maker(name, plant))
        self.hosts[name] = host
        self.watch.add_host(host)
        self.store.enter(node)
        host.disk.damage = self.atlas.page(name)

    def _maker(self, name: NodeId, plant: str | None) -> Callable[[], DataNode]:
        """What makes the data node of each incarnation."""
        return transaction_node(plant, name, self.config, self.transactions)

    def _add_clients(self) -> None:
        world, dice = self._world, self._dice
        nodes = tuple(Address(name) for name in self.hosts)
        operators = tuple(host.node.address for host in self.operators)
        shards, replicas = dice.pick([2, 3, 3]), dice.pick([None, 3, 1])
        self.stays = StreamDefinition(StreamId("f" * 16), STAYS, shards, replicas)
        later = StreamDefinition(
            StreamId("e" * 16), LATER, dice.pick([1, 2]), dice.pick([None, min(3, len(nodes))])
        )
        self.ledger = Ledger(world, self.watch, self.stays, later)
        self.ledger.is_forced = dice.chance(0.4)
        site = Bank(world, self.watch, nodes, self.ledger)
        self.bankers = [
            Banker(site, f"b{number}", 40, has_last_word=number == 1)
            for number in range(1, dice.between(3, 5))
        ]
        if self._has_liar():
            self.bankers.append(Liar(site, "l1", 40, list(self.bankers)))
        self.writers: list[Writer] = [KeyWriter(site, "w1", 30)]
        self.readers = [Reader(site, "r1", has_gaps=True)]
        self._add_feeders(site)
        beside = self._beside_feeders(site)
        is_forgetful = self._plant == NO_BOOKMARK
        self.travellers = [Traveller(site, "t1", is_forgetful=is_forgetful)]
        self.changer = Orderer(
            site,
            "c1",
            operators,
            self.stays,
            self.atlas.may_contract,
            between_ms_max=dice.pick([200, 800]),
            later=later,
        )
        askers: list[DataClient | Changer] = [*self.bankers, *self.writers, *self.readers]
        askers += [*self.feeders, *self.travellers, *beside, self.changer]
        for client in askers:
            world.host(world.add_node(client.name, immune=True), HOST, client.itself)
        self.creations = Births(world, self.watch)
        world.observe(self.creations.saw)
        world.observe(InFlights(world).saw)
        self.clocks = Clocks(world)
        world.observe(self.clocks.saw)
        world.observe(Aims(world, world.dice.fork("aims"), strikes=not self._is_faultless).saw)

    def _has_liar(self) -> bool:
        """Whether one of the clients lies; always if it is this that something is planted against."""
        if self._plant is not None:
            return self._plant in LIAR_PLANTS
        return self._world.dice.fork("liar").chance(liar_share)

    def _beside_feeders(self, site: Bank) -> list[DataClient]:
        """Whoever reads pages from anywhere, prunes, and asks for what is pruned."""
        page_reader = PageReader(site, "a1", self.pages)
        self.pruner = Pruner(
            site,
            "p1",
            lambda: list(self.feeders[0].saved),
            lambda: [feeder.after for feeder in self.feeders],
        )
        self.visitor = Visitor(site, "v1")
        return [page_reader, self.pruner, self.visitor]

    def _add_feeders(self, site: Bank) -> None:
        self.pages = Pages(self._world)
        self.feeders = [
            FeedReader(site, f"f{number}", self.merge, self.pages, keeps=number == 1)
            for number in (1, 2)
        ]

    def _wipe_now(self, name: NodeId) -> None:
        self.clocks.wiped(Address(name))
        super()._wipe_now(name)

    def _are_clients_done(self) -> bool:
        if not all(client.is_done for client in (*self.bankers, *self.travellers)):
            return False
        if not super()._are_clients_done():
            return False
        if self._open_transactions() is not None:
            return False
        for feeder in self.feeders:
            feeder.is_last_round = True
        self.pruner.is_last_round = all(feeder.is_done for feeder in self.feeders)
        self.visitor.is_last_round = self.pruner.is_done
        return self.visitor.is_done

    def _open_transactions(self) -> str | None:
        """Nothing is left open: no prepare, no decision that somebody has not logged."""
        for shard, metadata in self.watch.metadata.items():
            if metadata.leader is None:
                return f"{shard} has no leader"
            replica = self.watch.replica(metadata.leader, shard)
            if replica is None:
                return f"{shard} has no leader"
            host = self.hosts[metadata.leader]
            assert isinstance(host.machine, DataNode)
            why = self.ledger.open_in(replica)
            if why is not None:
                return why
        return None

    def _give_up(self, calm: object) -> bool:
        gave_up = super()._give_up(calm)  # type: ignore[arg-type]
        if not gave_up:
            waiting = [
                client.name
                for client in (*self.bankers, *self.feeders, self.visitor)
                if not client.is_done
            ]
            what = f"{self._open_transactions()}; waiting {' '.join(waiting)}"
            self._world.violated("Stuck", what)
        return gave_up

    def finished(self) -> bool:
        is_finished = super().finished()
        if is_finished and all(feeder.is_done for feeder in self.feeders):
            self.ledger.check_all()
            self.creations.check()
            self.pages.check(self.ledger.entries)
            for feeder in self.feeders:
                self.ledger.check_feed(
                    feeder.name, feeder.seen, feeder.after, feeder.gaps, feeder.joined
                )
        return is_finished
