"""The backends of each port, as one table of factories per port: the real one and the simulated one.

A test of a port takes its fixture and runs once for each row of the port's table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.contract.disk_harness import DiskHarness, RealDiskHarness, SimDiskHarness
from tests.contract.network_harness import NetworkHarness, SimNetworkHarness, TcpNetworkHarness

from motet.ports import Entropy, Objects, Time
from motet.real.objects import LocalObjects
from motet.real.process import RealEntropy, RealTime
from motet.sim.dice import Dice
from motet.sim.objects import SimObjects
from motet.sim.time import SimTime, VirtualTime

SEED = 7

DISKS: dict[str, Callable[[Path], DiskHarness]] = {
    "real": RealDiskHarness,
    "sim": SimDiskHarness,
}


@pytest.fixture(params=DISKS)
def new_disk(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], DiskHarness]]:
    """Makes empty disks, each with a harness of its own."""
    harnesses: list[DiskHarness] = []

    def new() -> DiskHarness:
        harnesses.append(DISKS[request.param](tmp_path_factory.mktemp("disk")))
        return harnesses[-1]

    yield new
    for harness in harnesses:
        harness.close()


@pytest.fixture
def disk_harness(new_disk: Callable[[], DiskHarness]) -> DiskHarness:
    """One empty disk."""
    return new_disk()


NETWORKS: dict[str, Callable[[], NetworkHarness]] = {
    "real": TcpNetworkHarness,
    "sim": SimNetworkHarness,
}


@pytest.fixture(params=NETWORKS)
def network_harness(request: pytest.FixtureRequest) -> Iterator[NetworkHarness]:
    """Endpoints that can reach each other."""
    harness = NETWORKS[request.param]()
    yield harness
    harness.close()


OBJECTS: dict[str, Callable[[Path], Objects]] = {
    "real": LocalObjects,
    "sim": lambda _folder: SimObjects(Dice(SEED, "objects")),
}
TIMES: dict[str, Callable[[], Time]] = {
    "real": RealTime,
    "sim": lambda: SimTime(VirtualTime()),
}
ENTROPIES: dict[str, Callable[[], Entropy]] = {
    "real": RealEntropy,
    "sim": lambda: Dice(SEED),
}


@pytest.fixture(params=OBJECTS)
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Objects:
    """An empty object store."""
    return OBJECTS[request.param](tmp_path / "objects")


@pytest.fixture(params=TIMES)
def clocks(request: pytest.FixtureRequest) -> Time:
    """The clocks of one node."""
    return TIMES[request.param]()


@pytest.fixture(params=ENTROPIES)
def entropy(request: pytest.FixtureRequest) -> Entropy:
    """A source of randomness."""
    return ENTROPIES[request.param]()
