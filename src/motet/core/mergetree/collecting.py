"""Collecting staging jobs whose driver has gone, and removing those that have ended.

The replicas of a table's first shard do this; the first in their order looks more often than the others, and
it is no harm if two do it at once.

Y1  A job is collected by a multi that checks the version of its lease, when the lease is so old by the
    keeper's own clock (J2). To read that clock ``staging`` is set; only when a lease was not renewed since
    the last look.
Y2  A job that has ended goes with its lease. One that entries of logs name keeps its manifests until those
    entries have been trimmed.
"""

from __future__ import annotations

from motet.core.mergetree.context import Core
from motet.core.mergetree.jobs import COLLECTED, OPEN
from motet.core.mergetree.state import EndJob, JudgeLeases, ListJobs, ReadLeases, TouchStaging
from motet.core.metadata.messages import (
    ANY_VERSION,
    Check,
    Children,
    Delete,
    Found,
    Get,
    MetadataAnswer,
    Names,
    ReadDone,
    ReadOperation,
    Set,
    WriteOperation,
    Written,
)
from motet.ids import Zxid

LEASE = "lease"


def on_tick(core: Core) -> None:
    """Look at the jobs of the table, each time at some of them."""
    state = core.state
    if core.key[1] != 0 or core.now_ns < state.jobs_look_ns:
        return
    turn = 1 if state.replicas and state.replicas[0] == core.own else 3
    state.jobs_look_ns = core.later_ns(core.config.jobs_look_ms * turn)
    core.read(ListJobs(), Children(core.paths.staging))


def on_jobs(core: Core, _call: ListJobs, answer: MetadataAnswer) -> None:
    found = answer.results[0] if isinstance(answer, ReadDone) else None
    names = found.names if isinstance(found, Names) else ()
    state = core.state
    state.leases = {name: seen for name, seen in state.leases.items() if name in names}
    later = [name for name in names if name > state.jobs_seen]
    some = tuple((later or list(names))[: core.config.batch_max])
    if not some:
        return
    state.jobs_seen = some[-1] if len(names) > len(some) else ""
    reads: list[ReadOperation] = []
    for name in some:
        job = f"{core.paths.staging}/{name}"
        reads += [Get(job), Get(f"{job}/{LEASE}"), Children(job)]
    core.read(ReadLeases(some), *reads)


def on_leases(core: Core, call: ReadLeases, answer: MetadataAnswer) -> None:
    """Y1, Y2."""
    if not isinstance(answer, ReadDone):
        return
    state, silent = core.state, []
    each = iter(answer.results)
    for name, job, lease, below in zip(call.jobs, each, each, each, strict=False):
        if not isinstance(job, Found) or not isinstance(below, Names):
            continue
        if job.data == OPEN:
            renewed = lease.stat.mzxid if isinstance(lease, Found) else Zxid(0)
            if state.leases.get(name) == renewed:
                silent.append(name)
            state.leases[name] = renewed
        elif job.data == COLLECTED or set(below.names) <= {LEASE}:
            children = (f"{job.path}/{child}" for child in below.names)
            gone = [Delete(child, ANY_VERSION) for child in children]
            core.write(EndJob(name), *gone, Delete(job.path, job.stat.version))
    if silent:
        touch = Set(core.paths.staging, b"", ANY_VERSION)
        core.write(TouchStaging(tuple(silent)), touch)


def on_touched(core: Core, call: TouchStaging, answer: MetadataAnswer) -> None:
    """Now ``staging`` says what time it is."""
    if isinstance(answer, Written):
        reads: list[ReadOperation] = [Get(core.paths.staging)]
        for name in call.jobs:
            job = f"{core.paths.staging}/{name}"
            reads += [Get(job), Get(f"{job}/{LEASE}")]
        core.read(JudgeLeases(call.jobs), *reads)


def on_judged(core: Core, call: JudgeLeases, answer: MetadataAnswer) -> None:
    """Y1. A conflict says that it was renewed, or published."""
    if not isinstance(answer, ReadDone):
        return
    staging, *results = answer.results
    if not isinstance(staging, Found):
        return
    each = iter(results)
    for name, job, lease in zip(call.jobs, each, each, strict=False):
        if not isinstance(job, Found) or job.data != OPEN:
            continue
        renewed = lease if isinstance(lease, Found) else job
        if staging.stat.mtime_ms - renewed.stat.mtime_ms < core.config.lease_ms:
            continue
        operations: list[WriteOperation] = []
        if isinstance(lease, Found):
            operations.append(Check(lease.path, lease.stat.version))
        operations.append(Set(job.path, COLLECTED, job.stat.version))
        core.note("job_collected", name)
        core.write(EndJob(name), *operations)


def on_ended(core: Core, call: EndJob, answer: MetadataAnswer) -> None:
    """It is done, or others were first: the next look says."""
    if isinstance(answer, Written):
        core.state.leases.pop(call.job, None)
