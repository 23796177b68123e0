"""Operators and real data nodes together: founded, elected, changed, wiped, and nothing lost."""

from __future__ import annotations

import random

import pytest
from tests.core.operator.clusters import SHARD
from tests.core.operator.real_cluster import RealPart, real

from motet.ids import NodeId, ShardName


def test_a_stream_is_founded_and_written_to() -> None:
    part = real("cluster", "create orders")
    part.append(5)
    part.do("run 100")
    part.settle_down()
    assert len(part.acknowledged) == 5
    part.check_whole()


def test_the_leader_dies_and_nothing_is_lost() -> None:
    part = real("cluster", "create orders")
    part.append(5)
    part.do("run 100", "crash n1", "run 2000")
    part.append(3)
    part.do("run 100")
    part.settle_down()
    assert len(part.acknowledged) == 8
    part.check_whole()
    assert part.stored().leader != "n1"


def test_swap_expand_and_contract_while_writes_go_on() -> None:
    part = real("cluster nodes=5", "create orders replicas=3")
    for change in ("swap n3 n4", "expand n5", "expand n3", "contract n2", "contract n5", "elect"):
        part.append(4)
        part.do("run 1")
        part.append(4)  # these are under way
        told = part.do(change)
        assert any(line.startswith("client <- done") for line in told), told
    part.do("run 100")
    part.settle_down()
    assert len(part.acknowledged) >= 44, "only the election may cost some"
    assert set(part.stored().ensemble) == {"n1", "n3", "n4"}
    part.check_whole()


def test_an_idle_shard_is_contracted_to_one_and_grows_again() -> None:
    part = real("cluster", "create orders")
    for change in ("contract", "contract", "expand", "expand"):
        told = part.do(change)
        assert any(line.startswith("client <- done") for line in told), told
    part.settle_down()
    assert len(part.stored().ensemble) == 3
    part.check_whole()


def test_a_wiped_follower_is_filled_again() -> None:
    part = real("cluster", "create orders")
    part.append(20)
    part.do("run 100", "wipe n3")
    part.settle_down()
    part.append(5)
    part.do("run 100")
    part.settle_down()
    assert len(part.acknowledged) == 25
    part.check_whole()


def test_a_wiped_node_and_a_dead_leader_wait_for_the_leader() -> None:
    part = real("cluster", "create orders")
    part.append(20)
    part.do("run 100", "crash n1", "wipe n2", "run 5000")
    assert part.stored().leader is None, "the wiped node may have acknowledged what it lost"
    part.settle_down()
    part.check_whole()
    assert len(part.acknowledged) == 20


def test_a_node_that_comes_back_gets_leaderships_again() -> None:
    part = real("cluster", "create orders shards=6")

    def leads() -> dict[str, int]:
        leaders = [part.stored(ShardName(f"{SHARD[:-1]}{number}")).leader for number in range(6)]
        return {node: leaders.count(NodeId(node)) for node in ("n1", "n2", "n3")}

    part.settle_down()
    assert set(leads().values()) == {2}
    part.do("crash n1", "run 3000", "start n1", "run 3000")
    assert leads()["n1"] == 0
    part.do("run 60000")
    assert set(leads().values()) == {2}
    part.settle_down()
    part.check_whole()


def test_a_node_is_emptied() -> None:
    part = real("cluster nodes=4", "create orders replicas=3")
    part.append(5)
    told = part.do("drain n1")
    assert told[-1] == "client <- done: n1 is empty"
    part.settle_down()
    part.check_whole()


def test_a_stream_is_deleted_everywhere() -> None:
    part = real("cluster", "create orders")
    part.append(5)
    told = part.do("delete orders")
    assert told[-1] == "client <- done: orders is deleted"
    assert [part.real(node) for node in ("n1", "n2", "n3")] == [None, None, None]


NODES = [f"n{number}" for number in range(1, 6)]
OPERATORS = ["o1", "o2"]
WEATHER = [
    *("run", "run", "run", "crash", "crash", "start", "start", "cut", "heal"),
    *("change", "change", "change", "duel", "mishap", "operator", "wipe", "lose"),
]
LOST = [
    *("FenceResponse", "BecomeLeaderResponse", "AddFollowerResponse", "SnapshotResponse"),
    *("PrepareReconfigurationResponse", "CommitReconfigurationRequest"),
    *("CommitReconfigurationResponse", "DeleteShardResponse", "HeartbeatAnswer", "PieceResponse"),
]
"""What gets lost until the links are mended."""


class Storm:
    """Crashes, cuts, changes, lost disks and duels at random, with writes all the while."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.part = real("cluster nodes=5 operators=2", "create orders replicas=3")
        self.is_wiped = False

    def blow(self, actions: int) -> RealPart:
        for _ in range(actions):
            self.part.append(self.dice.randint(0, 3))
            self.part.do(*self._next(self.dice.choice(WEATHER), self.dice.choice(NODES)))
        self.part._keeper().mishaps.clear()
        down = [own for own in OPERATORS if self._is_down(own)]
        self.part.do(*[f"start {own}" for own in down])
        self.part.do("depose o1", "heal", "promote o2")
        return self.part

    def _is_down(self, name: str) -> bool:
        return self.part.bench.node(name).machine is None

    def _next(self, what: str, node: str) -> list[str]:
        dice, own = self.dice, self.dice.choice(OPERATORS)
        if what == "run":
            return [f"run {dice.choice([1, 5, 50, 300, 1500])}"]
        if what in ("crash", "start"):
            return [f"{what} {node}"] if self._is_down(node) == (what == "start") else []
        if what == "cut":
            return [f"cut {node} {dice.choice([n for n in NODES + OPERATORS if n != node])}"]
        if what == "heal":
            return ["heal"]
        if what == "mishap":
            return [f"mishap {dice.choice(['unknown', 'lost', 'fail'])}"]
        if what == "operator":
            return [f"start {own}", f"promote {own}"] if self._is_down(own) else [f"crash {own}"]
        if what == "lose":
            return [f"lose {dice.choice(LOST)}"]
        if what == "wipe":
            return [] if self.is_wiped else self._wipe(node)
        return [] if self._is_down(own) else self._ask(what, own, node)

    def _wipe(self, node: str) -> list[str]:
        self.is_wiped = True
        return [f"wipe {node}"]

    def _ask(self, what: str, own: str, node: str) -> list[str]:
        if what == "duel":
            return [f"promote {own}"]
        changes = (f"swap {node}", f"expand {node}", f"contract {node}", f"elect prefer={node}")
        return [f"ask {own}", f"{self.dice.choice(changes)} wait=off", "run 1"]


def weather(seed: int, actions: int) -> None:
    part = Storm(seed).blow(actions)
    part.settle_down(within_ms=180_000)
    part.check_whole()


@pytest.mark.parametrize("seed", range(6))
def test_a_storm_loses_nothing_and_ends(seed: int) -> None:
    weather(seed, 60)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 200))
def test_many_storms_lose_nothing_and_end(seed: int) -> None:
    weather(seed, 150)
