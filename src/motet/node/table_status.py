"""How it stands with the table replicas of a node: for ``/api/status`` and ``/metrics``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
from prometheus_client.core import GaugeMetricFamily, Metric

from motet.core.mergetree.node import TableNode
from motet.core.mergetree.replica import TableReplica
from motet.core.mergetree.state import Phase

TABLES_MACHINE = "tables"


class ReplicaStatus(msgspec.Struct, frozen=True):
    """One replica. A number of an entry is -1 where there is none."""

    phase: str
    #: why it is not active, in words
    why: str
    #: the last entry that the log is known to have, and the next one to be durable in the keeper's pointer
    head: int
    log_pointer: int
    #: entries that the log is known to have and that are not executed
    lag: int
    parts: int
    size_bytes: int
    #: parts that entries name and that are not here, and the first such entry
    queue: int
    oldest_queued: int
    #: parts whose bytes are not what was written
    broken: int


def describe_tables(machine: TableNode) -> Mapping[str, object]:
    """What the machine says of itself."""
    replicas = {
        f"{table}/{shard}": replica_status(each)
        for (table, shard), each in machine.replicas.items()
    }
    return {
        "has_session": bool(machine.node.memory.session),
        "incarnation": machine.node.memory.incarnation,
        "active": sum(each.phase == Phase.ACTIVE for each in replicas.values()),
        "replicas": replicas,
    }


def replica_status(replica: TableReplica) -> ReplicaStatus:
    """How it stands with one."""
    state = replica.core.state
    executed = state.history.next_number
    head = max(state.head_heard, executed - 1)
    stored = [own.header for own in state.parts.values() if own.is_stored]
    return ReplicaStatus(
        phase=state.phase.value,
        why=state.why,
        head=head,
        log_pointer=state.pointer,
        lag=head + 1 - executed,
        parts=len(stored),
        size_bytes=sum(header.size_bytes for header in stored),
        queue=len(state.queue),
        oldest_queued=min((each.number for each in state.queue.values()), default=-1),
        broken=len(state.broken),
    )


GAUGES = {
    "lag": "Entries of the shard's log that this replica has not executed, as far as it knows.",
    "head": "The last entry of the shard's log that this replica knows of; -1 when there is none.",
    "log_pointer": "The entry up to which this replica needs nothing of the log any more.",
    "parts": "Parts that this replica has.",
    "size_bytes": "The files of these parts.",
    "queue": "Parts that entries name and that are not here yet.",
    "oldest_queued": "The first entry that waits for a part; -1 when none does.",
    "broken": "Parts of this replica that are damaged.",
}


def table_families(machine: TableNode) -> Iterator[Metric]:
    """The metrics of all replicas."""
    replicas = {key: replica_status(each) for key, each in machine.replicas.items()}
    for name, meaning in GAUGES.items():
        labels = ["table", "shard"]
        family = GaugeMetricFamily(f"motet_table_{name}", meaning, labels=labels)
        for (table, shard), status in replicas.items():
            family.add_metric([table, str(shard)], getattr(status, name))
        yield family
    active = sum(each.phase == Phase.ACTIVE for each in replicas.values())
    yield GaugeMetricFamily("motet_table_replicas", "Table replicas of this node.", len(replicas))
    yield GaugeMetricFamily("motet_table_replicas_active", "Those that take requests.", active)
