"""A publication that is under way: who holds its parts, and what has to be made for it first."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from motet.core.mergetree.context import ReplicaKey
from motet.core.mergetree.jobs import OPEN
from motet.core.mergetree.manifests import Manifests
from motet.core.mergetree.messages import PublishParts, StagedPart
from motet.core.mergetree.paths import ShardPaths
from motet.core.mergetree.publication import (
    Holders,
    PartPlace,
    PublishFacts,
    TableFacts,
    parts_of_request,
    shard_key,
)
from motet.core.metadata.messages import Create, Found, ReadResult
from motet.errors.tables import StagingEnded
from motet.ids import Address, NodeId, PartId, RequestId


class PublishStep(StrEnum):
    """How far a publication is."""

    READING = "reading"
    #: manifests of its parts are written
    PREPARING = "preparing"
    #: some part is on too few replicas: others are asked to hold it
    ASKING = "asking"
    COMMITTING = "committing"
    #: the keeper did not say what became of the commit
    SETTLING = "settling"
    #: its token is that of a block whose quorum is open
    WAITING = "waiting"


class PublicationUnderWay(msgspec.Struct):
    """One that is not answered."""

    client: Address
    message: PublishParts
    since_ns: int
    wait_ns: int
    step: PublishStep = PublishStep.READING
    #: who holds each part
    holders: dict[PartPlace, Holders] = msgspec.field(default_factory=dict)
    #: parts that lie on too few replicas
    missing: dict[PartPlace, None] = msgspec.field(default_factory=dict)
    #: where a part of a replica is in the request
    places: dict[tuple[ReplicaKey, PartId], PartPlace] = msgspec.field(default_factory=dict)
    #: the newest version of ``host`` that a node has told, of each table and shard
    newest: dict[tuple[int, int, NodeId], int] = msgspec.field(default_factory=dict)
    #: who has said that it cannot hold a part
    refused: dict[tuple[int, int, NodeId], None] = msgspec.field(default_factory=dict)
    #: parts that somebody could not get: those that are counted may not have them any more, either
    doubted: dict[PartPlace, None] = msgspec.field(default_factory=dict)
    #: replicas of the shards of parts that are to be put elsewhere
    replicas: dict[tuple[int, int], tuple[NodeId, ...]] = msgspec.field(default_factory=dict)
    again_ns: int = 0
    #: how often others were asked to hold parts
    rounds: int = 0
    facts: PublishFacts | None = None
    #: of shards that get many parts; the nodes that are still to be made for them, one after the other
    manifests: Manifests = msgspec.field(default_factory=dict)
    todo: list[Create] = msgspec.field(default_factory=list)
    is_listed: bool = False
    #: the job that the manifests lie below is there for them alone
    has_own_job: bool = False
    #: a commit is unknown, or was until it was settled
    is_unsure: bool = False
    #: what was asked of the keeper last
    request: RequestId | None = None


class PublishingMemory(msgspec.Struct):
    """All publications of the node."""

    next_number: int = 1
    publications: dict[int, PublicationUnderWay] = msgspec.field(default_factory=dict)
    #: which publication a request is of
    calls: dict[RequestId, int] = msgspec.field(default_factory=dict)


# Who holds its parts (G3)


def begin_holders(each: PublicationUnderWay) -> None:
    """As the client was told when its parts were staged."""
    for place, part in parts_of_request(each.message):
        each.holders[place], each.missing[place] = {}, None
        each.places[shard_key(each.message, place[0], part), part.header.id] = place
    for place, part in parts_of_request(each.message):
        for holder in part.holders:
            count_holder(each, place, holder.node, holder.host_version)


def part_at(each: PublicationUnderWay, place: PartPlace) -> StagedPart:
    """A part of the request."""
    return each.message.tables[place[0]].parts[place[1]]


def count_holder(each: PublicationUnderWay, place: PartPlace, node: NodeId, version: int) -> bool:
    """A replica holds a part. What it said under an older version of its ``host`` counts no more: True if it
    is to be asked for other parts again."""
    part = part_at(each, place)
    seat = place[0], part.shard, node
    newest = each.newest.get(seat, version)
    if version < newest:
        return False
    has_risen = version > newest and discard_holder(each, *seat)
    each.newest[seat] = version
    each.holders[place][node] = version
    if len(each.holders[place]) >= wanted(part):
        each.missing.pop(place, None)
    return has_risen


def discard_holder(each: PublicationUnderWay, table: int, shard: int, node: NodeId) -> bool:
    """Nothing that it said of parts of this shard counts any more; False if it had said nothing."""
    found = False
    each.newest.pop((table, shard, node), None)
    for number, part in enumerate(each.message.tables[table].parts):
        if part.shard == shard and each.holders[table, number].pop(node, None) is not None:
            each.missing[table, number], found = None, True
    return found


def wanted(part: StagedPart) -> int:
    """On how many replicas it has to be."""
    return len({holder.node for holder in part.holders})


def is_lost(each: PublicationUnderWay) -> bool:
    """Whether all replicas have said that they have not a part that nobody holds."""
    for place in each.missing:
        nodes = each.replicas.get((place[0], part_at(each, place).shard), ())
        if nodes and not each.holders[place]:
            return all((*place, node) in each.refused for node in nodes)
    return False


# What has to be made first (G7, G8)


def with_jobs(
    each: PublicationUnderWay, tables: tuple[TableFacts, ...], found: list[ReadResult]
) -> tuple[tuple[TableFacts, ...], tuple[tuple[str, int], ...]]:
    """G7: a job is in each table that parts were staged for; those that are open, and their versions."""
    jobs = each.message.jobs
    opened: list[tuple[str, int]] = []
    by_table: dict[int, str] = {}
    there: dict[str, None] = {}
    for number, result in enumerate(found):
        table, job = number // len(jobs), jobs[number % len(jobs)]
        if not isinstance(result, Found):
            continue
        if result.data != OPEN:
            value = result.data.decode(errors="replace")[:40]
            raise StagingEnded(f"staging job {job} is {value}: its parts may be gone")
        there[job] = None
        by_table.setdefault(table, job)
        opened.append((result.path, result.stat.version))
    missing = [job for job in jobs if job not in there]
    lacking = [table for table, _ in each.manifests if table not in by_table]
    if not each.has_own_job and tables and (missing or lacking):
        raise StagingEnded(f"there is no staging job {(missing or list(jobs))[0]}")
    known = tuple(
        msgspec.structs.replace(facts, job=by_table.get(number, jobs[0] if jobs else ""))
        for number, facts in enumerate(tables)
    )
    if lacking:
        each.is_listed = False  # its own job is not there, or not any more
    return known, tuple(opened)


def nodes_to_make(each: PublicationUnderWay, tables: tuple[TableFacts, ...]) -> list[Create]:
    """G8: parents first; what is there is fine."""
    nodes: dict[str, Create] = {}
    for (table, _), listed in each.manifests.items():
        paths, job = ShardPaths(each.message.tables[table].table, 0), tables[table].job
        if each.has_own_job:
            own = (Create(paths.staging), Create(paths.job(job), OPEN), Create(paths.lease(job)))
            nodes.update({node.path: node for node in own})
        for manifest in listed:
            path = f"{paths.job(job)}/{manifest.name}"
            nodes[path] = Create(path, manifest.data)
    return list(nodes.values())
