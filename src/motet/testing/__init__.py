"""Tools for testing Motet and what is built on it.

``run_scenario`` runs a golden script, ``Workbench`` drives machines by hand, ``LocalCluster`` starts real
nodes that can be killed, ``FaultProxy`` stands between two of them and spoils the connection. Each is
imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from motet.testing.bench_part import BenchPart
    from motet.testing.fault_proxy import FaultProxy
    from motet.testing.local_cluster import LocalCluster
    from motet.testing.part import ScenarioPart, VerbPart, verb
    from motet.testing.proxy_lane import ProxyMode
    from motet.testing.scenario import ScenarioResult, run_scenario
    from motet.testing.script import Command
    from motet.testing.workbench import Workbench

_HOMES = {
    "BenchPart": "bench_part",
    "Command": "script",
    "FaultProxy": "fault_proxy",
    "LocalCluster": "local_cluster",
    "ProxyMode": "proxy_lane",
    "ScenarioPart": "part",
    "ScenarioResult": "scenario",
    "VerbPart": "part",
    "Workbench": "workbench",
    "run_scenario": "scenario",
    "verb": "part",
}

__all__ = [
    "BenchPart",
    "Command",
    "FaultProxy",
    "LocalCluster",
    "ProxyMode",
    "ScenarioPart",
    "ScenarioResult",
    "VerbPart",
    "Workbench",
    "run_scenario",
    "verb",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
