"""Publications into tables that have some rows already: only with ``dedup="content"`` (T9).

The rules go on from those of ``dedup``, which are about inserts of one part.

U5  The parts that one call has staged in one shard and partition have one hash, over all their rows: all of
    them are published, or none. If a publication names one hash with several calls, the first one counts.
U6  Rows whose hash is there, and not older than the last drop of the partition, are left out, and the rest
    goes on. While their block is open the publication waits; if its quorum fails the hash is gone (U4). All
    other hashes are made, or set by their version, by the multi that makes the parts visible.
U7  Whoever reads the version of the publication finds the rows that it has left out, too: its multi checks
    that the log was not set since the hashes were read. Drops and overwrites set it (T30).
U8  A partition that the publication replaces has nothing to keep: none of its parts are left out.
U9  The node that carries it out may have no replica, so it knows no drops. A hash that is younger than the
    last time the log was set is younger than all of them. For others a replica is asked, which answers when
    it has executed the log up to that time.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from motet.core.mergetree import pulling
from motet.core.mergetree.context import Core
from motet.core.mergetree.dedup import part_of, without_dedup
from motet.core.mergetree.messages import DropsAre, PublishParts, ReadDrops
from motet.core.mergetree.paths import ShardPaths
from motet.core.mergetree.publication import HashFacts, StagedRows, rows_of_request
from motet.core.metadata.messages import (
    Check,
    Children,
    Found,
    Get,
    Names,
    ReadOperation,
    ReadResult,
)
from motet.ids import Address, NodeId, PartId, Zxid

ShardPlace = tuple[int, int]
"""The number of a table in the request, and a shard of it."""


class ToldDrop(msgspec.Struct, frozen=True):
    """The last drop of a partition, as a replica knows it."""

    drop: Zxid
    #: the replica has executed the log up to here
    through: Zxid


class RowsKnown(msgspec.Struct):
    """What was learned of the rows of a publication that is under way."""

    #: by the path of their hash, which part had brought them when that was read
    bringers: dict[str, PartId] = msgspec.field(default_factory=dict)
    #: by table, shard and partition
    drops: dict[tuple[int, int, str], ToldDrop] = msgspec.field(default_factory=dict)


class ToAsk(msgspec.Struct, frozen=True):
    """What replicas of a shard are asked for (U9)."""

    replicas: tuple[NodeId, ...]
    #: when the log was set last
    through: Zxid
    partitions: tuple[str, ...]


class Judgement(msgspec.Struct):
    """What follows from a read."""

    facts: HashFacts = HashFacts()
    #: parts that are not published, each with the one that has brought its rows; its own id if it is another
    #: call of this publication
    left_out: dict[PartId, PartId] = msgspec.field(default_factory=dict)
    #: the block of some rows was not known before this read: whether it is open is not known
    is_to_be_read_again: bool = False
    #: the block of some rows is open
    is_open: bool = False
    to_ask: dict[ShardPlace, ToAsk] = msgspec.field(default_factory=dict)


def reads(message: PublishParts, known: RowsKnown) -> list[ReadOperation]:
    """What is read beside the rest; nothing, if no part has a hash."""
    operations: list[ReadOperation] = []
    groups = rows_of_request(message)
    for table, shard in _shards(groups):
        paths = ShardPaths(message.tables[table].table, shard)
        operations += [Get(paths.log), Get(paths.blocks), Children(paths.replicas)]
    for rows in groups:
        path = rows.path(message)
        bringer, paths = known.bringers.get(path), rows.paths(message)
        operations += [Get(path), Get(path if bringer is None else paths.status(bringer))]
    return operations


def judge(message: PublishParts, known: RowsKnown, results: Iterator[ReadResult]) -> Judgement:
    """U5 to U9, from what ``reads`` has asked for."""
    groups = rows_of_request(message)
    judgement, checks = Judgement(), dict[ShardPlace, Check]()
    logs: dict[ShardPlace, Found] = {}
    replicas: dict[ShardPlace, tuple[NodeId, ...]] = {}
    for place in _shards(groups):
        log, blocks, names = next(results), next(results), next(results)
        if not isinstance(log, Found) or not isinstance(blocks, Found):
            raise without_dedup()
        logs[place] = log
        replicas[place] = tuple(map(NodeId, names.names)) if isinstance(names, Names) else ()
    made: list[tuple[StagedRows, Found | None]] = []
    partitions: dict[ShardPlace, list[str]] = {}
    for rows in groups:
        found, status = next(results), next(results)
        judgement.left_out.update({part: part for part in rows.again})
        place = rows.table, rows.shard
        log = logs[place]
        is_replaced = rows.partition in message.tables[rows.table].replace
        if not isinstance(found, Found) or is_replaced:  # U8
            made.append((rows, found if isinstance(found, Found) else None))
            continue
        if found.stat.mzxid < log.stat.mzxid:  # U9
            told = known.drops.get((*place, rows.partition))
            if told is None or told.through < log.stat.mzxid:
                partitions.setdefault(place, []).append(rows.partition)
                continue
            if is_dropped(found, told):
                made.append((rows, found))
                continue
        bringer = part_of(found)
        if known.bringers.get(found.path) != bringer:
            known.bringers[found.path] = bringer
            judgement.is_to_be_read_again = True
        elif isinstance(status, Found):
            judgement.is_open = True
        else:  # U6, U7
            judgement.left_out.update(dict.fromkeys(rows.parts, bringer))
            checks[place] = Check(log.path, log.stat.version)
    for place, wanted in partitions.items():
        through = logs[place].stat.mzxid
        judgement.to_ask[place] = ToAsk(replicas[place], through, tuple(dict.fromkeys(wanted)))
    judgement.facts = HashFacts(tuple(made), tuple(checks.items()))
    return judgement


def is_dropped(found: Found, told: ToldDrop) -> bool:
    """U2: the rows of this hash were dropped since."""
    return found.stat.mzxid < told.drop


def _shards(groups: tuple[StagedRows, ...]) -> list[ShardPlace]:
    return list(dict.fromkeys((rows.table, rows.shard) for rows in groups))


def note_drops(message: PublishParts, known: RowsKnown, told: DropsAre) -> bool:
    """A replica has answered; False: it was not about this publication."""
    for table, publication in enumerate(message.tables):
        if publication.table == told.table:
            for partition, drop in zip(told.partitions, told.drops, strict=False):
                known.drops[table, told.shard, partition] = ToldDrop(drop, told.through)
            return True
    return False


def without(message: PublishParts, left_out: dict[PartId, PartId]) -> PublishParts:
    """What is to be published of a request."""
    if not left_out:
        return message
    tables = tuple(
        msgspec.structs.replace(
            table, parts=tuple(part for part in table.parts if part.header.id not in left_out)
        )
        for table in message.tables
    )
    return msgspec.structs.replace(message, tables=tables)


# At a replica


def tell_drops(core: Core, asker: Address, message: ReadDrops) -> None:
    """U9: whoever is not answered asks again."""
    history = core.state.history
    if not core.is_active:
        return
    if history.zxid < message.through:
        pulling.pull(core)
        return
    drops = tuple(history.last_drop(each) for each in message.partitions)
    core.send(asker, DropsAre(*core.key, message.partitions, drops, history.zxid))
