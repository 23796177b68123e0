"""What a publication is made of: what it reads, and the one multi that carries it out.

The multi grows with shards alone (R1). It checks each table's definition and the name that it was addressed
by (T27), uses the token in each table (T7) or sets the ordered writer, ends staging jobs, checks the ``host``
of each replica whose copy is counted (T5), and appends one entry to each shard. With ``replace`` every shard
of the table gets one, and its ``log`` is set (T30).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum

import msgspec

from motet.core.mergetree import checks, tokens, writer_state
from motet.core.mergetree.entries import PartHeader, PublishEntry, encode_entry
from motet.core.mergetree.manifests import Manifests, own_job
from motet.core.mergetree.messages import InsertBlock, PublishParts, StagedPart, TablePublication
from motet.core.mergetree.names import Block, of_block
from motet.core.mergetree.paths import ShardPaths, entry_number, is_token
from motet.core.metadata import zookeeper
from motet.core.metadata.messages import (
    ANY_VERSION,
    Absent,
    Check,
    Create,
    Found,
    ReadResult,
    Set,
    WriteOperation,
)
from motet.errors import BadInput, BadRecord, NoSuchTable, TooLarge
from motet.ids import NodeId, PartId, TableId
from motet.limits import (
    publish_ops_max,
    publish_parts_max,
    table_shards_max,
    token_number_max,
)

SHARED = -1
"""Instead of a shard, in the use of a token for several parts."""

PartPlace = tuple[int, int]
"""The number of a table in the request, and of a part of it."""

Holders = dict[NodeId, int]
"""Who holds a part, and the version of whose ``host``."""

_jobs_max = 16
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class Subject(StrEnum):
    """What an operation of the multi is about."""

    DEFINITION = "definition"
    NAME = "name"
    USE = "use"
    JOB = "job"
    HOST = "host"
    ENTRY = "entry"


class Mark(msgspec.Struct, frozen=True):
    """Says of an operation what it is about."""

    subject: Subject
    #: the number of the table in the request
    table: int = 0
    shard: int = 0
    node: NodeId = NodeId("")


class DefinitionFacts(msgspec.Struct, frozen=True):
    """What of a definition a publication has to know."""

    shards: int = 1
    is_dropped: bool = False


class TableFacts(msgspec.Struct, frozen=True):
    """What was read of a table."""

    #: the version of the definition's node
    definition_version: int
    shards: int
    #: of the token's or the producer's node
    use: ReadResult
    #: an open staging job, for manifests
    job: str = ""


class PublishFacts(msgspec.Struct, frozen=True):
    """What was read for a publication, at one moment."""

    tables: tuple[TableFacts, ...]
    #: the node of the ordered writer
    writer: ReadResult | None = None
    #: the nodes of open jobs, and their versions
    jobs: tuple[tuple[str, int], ...] = ()


class Multi(msgspec.Struct, frozen=True):
    """The operations, and what each is about."""

    operations: tuple[WriteOperation, ...]
    marks: tuple[Mark, ...]


_facts_decoder = msgspec.json.Decoder(DefinitionFacts)


def facts_of(found: ReadResult, use: ReadResult) -> TableFacts:
    """What a definition says; an error when nothing can be published into the table."""
    if not isinstance(found, Found):
        raise NoSuchTable("the table is dropped")
    try:
        facts = _facts_decoder.decode(found.data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRecord(f"this is no definition of a table: {error}") from None
    if facts.is_dropped:
        raise NoSuchTable("the table is dropped")
    return TableFacts(found.stat.version, facts.shards, use)


# The request


def check(message: PublishParts) -> None:
    """Raise the error that a publication is refused with before anything is read."""
    _check_identity(message)
    if message.step is not None:
        writer_state.check_step(message.step)
    tables = [publication.table for publication in message.tables]
    if len(set(tables)) < len(tables):
        raise BadInput("a table is named twice", hint="put all its parts together")
    if len(message.jobs) > _jobs_max:
        raise BadInput(f"{len(message.jobs)} staging jobs exceed the limit of {_jobs_max}")
    for job in message.jobs:
        checks.check_job(job)
    parts = [part for publication in message.tables for part in publication.parts]
    if len(parts) > publish_parts_max:
        raise TooLarge(
            f"a publication of {len(parts)} parts exceeds the limit of {publish_parts_max}",
            hint="write fewer and larger parts",
        )
    least = 1 if message.token or message.producer else 0
    for publication in message.tables:
        _check_table(publication, least)
    if len({part.header.id for part in parts}) < len(parts):
        raise BadInput("a part is named twice", hint="its rows would be there twice")


def _check_identity(message: PublishParts) -> None:
    names = (bool(message.token), bool(message.producer), message.step is not None)
    if sum(names) > 1:
        raise BadInput("a publication has a token, a producer's number or a step, one of them")
    if message.token and not is_token(message.token):
        raise BadInput("a token is printable text of 1 to 128 characters")
    is_counted = is_token(message.producer) and 0 <= message.number <= token_number_max
    if message.producer and not is_counted:
        raise BadInput("a producer has a name, and counts from 0")


def _check_table(publication: TablePublication, least: int) -> None:
    check_table_id(publication.table)
    checks.check_name(publication.name_path, publication.name_version)
    checks.check_partitions(publication.replace)
    checks.check_content(publication.content, least)
    for part in publication.parts:
        checks.check_header(part.header)
        if not 0 <= part.shard < table_shards_max:
            raise BadInput(f"there is no shard {part.shard}")
        if not part.holders:
            raise BadInput(f"part {part.header.id} is held by nobody", hint="stage it first")
        if not all(_NODE.fullmatch(holder.node) for holder in part.holders):
            raise BadInput(f"part {part.header.id} is held by what is no node")


def check_table_id(table: TableId) -> None:
    """It goes into paths of the keeper."""
    if _ID.fullmatch(table) is None:
        raise BadInput(f"{table[:80]!r} is not the id of a table")


def identified(message: PublishParts) -> PublishParts:
    """The request with a token: its first part is minted for it, and names it if nothing else does."""
    if message.token or message.producer or message.step is not None:
        return message
    first = next((part for each in message.tables for part in each.parts), None)
    if first is None:
        return message
    return msgspec.structs.replace(message, token=f"part-{first.header.id}")


def has_changes(message: PublishParts) -> bool:
    """Whether anything becomes visible, or goes."""
    return any(each.parts or each.replace for each in message.tables)


def parts_of_request(message: PublishParts) -> Iterator[tuple[PartPlace, StagedPart]]:
    """All parts, with their places."""
    for table, publication in enumerate(message.tables):
        for number, part in enumerate(publication.parts):
            yield (table, number), part


def as_insert(message: PublishParts, table: int) -> InsertBlock:
    """The insert that the publication is for the tokens of a table (T7)."""
    publication = message.tables[table]
    alone = publication.parts[0] if len(publication.parts) == 1 else None
    header = PartHeader(PartId(""), "", 0, 0, "") if alone is None else alone.header
    return InsertBlock(
        publication.table,
        SHARED if alone is None else alone.shard,
        message.request,
        header,
        1,
        message.token,
        publication.content,
        producer=message.producer,
        number=message.number,
    )


# The multi


def multi_of(
    message: PublishParts,
    facts: PublishFacts,
    holders: dict[PartPlace, Holders],
    manifests: Manifests,
) -> Multi:
    """The multi that makes it visible."""
    each: list[tuple[WriteOperation, Mark]] = []
    for table, publication in enumerate(message.tables):
        paths, known = ShardPaths(publication.table, 0), facts.tables[table]
        check = Check(paths.definition, known.definition_version)
        each.append((check, Mark(Subject.DEFINITION, table)))
        if publication.name_path:
            named = Check(publication.name_path, publication.name_version)
            each.append((named, Mark(Subject.NAME, table)))
        if message.token or message.producer:
            use = tokens.use(paths, as_insert(message, table), known.use)
            each.append((use, Mark(Subject.USE, table)))
    if message.step is not None and facts.writer is not None:
        steps = writer_state.advance(facts.writer, message)
        each += [(operation, Mark(Subject.USE)) for operation in steps]
    for path, version in facts.jobs:
        each.append((Set(path, b"published", version), Mark(Subject.JOB)))
    for table in range(len(message.tables)):
        for shard in shards_of(message, facts, table):
            listed = manifests.get((table, shard), ())
            job = facts.tables[table].job if listed else ""
            headers = PublishEntry((), (), (), job, tuple(one.name for one in listed))
            each += _shard_operations(message, table, shard, holders, headers)
    operations = tuple(operation for operation, _ in each)
    return Multi(operations, tuple(mark for _, mark in each))


def shards_of(message: PublishParts, facts: PublishFacts, table: int) -> list[int]:
    """The shards of a table that get an entry."""
    publication, known = message.tables[table], facts.tables[table]
    if publication.replace:
        return list(range(known.shards))
    return sorted({part.shard for part in publication.parts})


def _shard_operations(
    message: PublishParts,
    table: int,
    shard: int,
    holders: dict[PartPlace, Holders],
    entry: PublishEntry,
) -> list[tuple[WriteOperation, Mark]]:
    publication = message.tables[table]
    paths = ShardPaths(publication.table, shard)
    numbers = [n for n, part in enumerate(publication.parts) if part.shard == shard]
    counted: Holders = {}
    for number in numbers:
        counted.update(holders[table, number])
    nodes = tuple(sorted(counted))
    each: list[tuple[WriteOperation, Mark]] = [
        (
            Check(paths.replica(node).host, counted[node]),
            Mark(Subject.HOST, table, shard, node),
        )
        for node in nodes
    ]
    if publication.replace:
        each.append((Set(paths.log, b"", ANY_VERSION), Mark(Subject.ENTRY, table, shard)))
    named = numbers if not entry.manifests else []
    parts = tuple(publication.parts[number].header for number in named)
    entry = msgspec.structs.replace(entry, parts=parts, holders=nodes, replace=publication.replace)
    create = Create(paths.new_entry, encode_entry(entry), sequential=True)
    each.append((create, Mark(Subject.ENTRY, table, shard)))
    return each


def check_size(
    message: PublishParts, manifests: Manifests, facts: PublishFacts | None = None
) -> None:
    """Refuse what cannot be one multi: before anything is read, and when the shards are known."""
    if facts is None:
        shards = {each.table: _shards_named(each) for each in message.tables}
        use = Absent("")
        jobs_named = message.jobs or ((own_job(message),) if manifests else ("",))
        tables = tuple(
            TableFacts(0, shards[each.table], use, jobs_named[0]) for each in message.tables
        )
        jobs = tuple(
            (ShardPaths(each.table, 0).job(job), 0)
            for each in message.tables
            for job in message.jobs
        )
        writer = None if message.step is None else Absent("")
        facts = PublishFacts(tables, writer, jobs)
    holders = {
        place: {holder.node: holder.host_version for holder in part.holders}
        for place, part in parts_of_request(message)
    }
    operations = multi_of(message, facts, holders, manifests).operations
    shards_all = sum(len(shards_of(message, facts, t)) for t in range(len(message.tables)))
    advice = "publish fewer tables or shards at a time, or write fewer and larger parts"
    if len(operations) > publish_ops_max:
        raise TooLarge(
            f"a publication into {shards_all} shards takes {len(operations)} operations of the keeper,"
            f" and the limit is {publish_ops_max}",
            hint=advice,
        )
    why = zookeeper.why_too_large(operations)
    if why is not None:
        raise TooLarge(f"a publication into {shards_all} shards is too large: {why}", hint=advice)


def _shards_named(publication: TablePublication) -> int:
    """As many as the request shows that there are."""
    return 1 + max((part.shard for part in publication.parts), default=0)


# The answer


def entries_of(multi: Multi, results: tuple[str | int | None, ...]) -> dict[tuple[int, int], int]:
    """The number of the entry of each table and shard."""
    return {
        (mark.table, mark.shard): entry_number(result)
        for mark, result in zip(multi.marks, results, strict=True)
        if mark.subject is Subject.ENTRY and isinstance(result, str)
    }


def names_of(message: PublishParts, entries: dict[tuple[int, int], int]) -> tuple[str, ...]:
    """The names that the parts have in their shards, in the order of the request."""
    names, counts = [], dict.fromkeys(entries, 0)
    for (table, _), part in parts_of_request(message):
        place = table, part.shard
        block = Block(entries[place], counts[place])
        counts[place] += 1
        names.append(str(of_block(part.header.partition, block)))
    return tuple(names)


def shard_key(message: PublishParts, table: int, part: StagedPart) -> tuple[TableId, int]:
    """The replica's key of a part."""
    return message.tables[table].table, part.shard
