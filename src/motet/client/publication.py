"""What is written to tables and read of them: staged parts, publications, snapshots.

A part that nobody sees yet is staged: sorted, written as Parquet, durable, and described by a manifest. The
work on the rows is done in threads: it belongs to Arrow, and the event loop may be that of a node.

A part that was visible at a clock stays visible at that clock, so a snapshot can be read again and again, and
holds on to nothing on the node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from motet.client.parts import PartStore
from motet.core.clock.hlc import Clock
from motet.core.tables.messages import VisiblePart
from motet.core.tables.part_name import PartName
from motet.core.tables.records import InsertToken, StagedPart, TableSpec
from motet.errors import BadInput, DiskFull, ObjectError, OutcomeUnknown
from motet.format.checksum import crc32c
from motet.format.manifest import Manifest, encode_manifest, manifest_key, part_key
from motet.ids import ObjectKey, PartId, ShardId, TableName
from motet.limits import name_length_max
from motet.ports import Entropy
from motet.real.process import RealTime


@dataclass(frozen=True, slots=True)
class Publication:
    """Parts that became visible together."""

    #: since when
    clock: Clock
    parts: tuple[PartName, ...]
    #: it had been done before; this time nothing was changed
    duplicate: bool
    rows: int


def token_of_table(table: TableName, token: object) -> InsertToken | None:
    """A caller's token as it travels: text, or a pair as streams have it."""
    if token is None:
        return None
    if isinstance(token, tuple) and len(token) == 2:
        token = f"{token[0]}:{token[1]}"
    if not isinstance(token, str) or not 0 < len(token) <= name_length_max:
        raise BadInput(f"the token of an insert is text of 1 to {name_length_max} characters")
    return InsertToken(table, token)


def checked_parts(parts: object) -> tuple[StagedPart, ...]:
    """Staged parts as a caller hands them in: one, several, or the lists that ``stage`` gave."""
    if isinstance(parts, StagedPart):
        return (parts,)
    if not isinstance(parts, Iterable) or isinstance(parts, str | bytes):
        raise BadInput(f"{type(parts).__name__} is not what `stage` gives back")
    return tuple(part for each in parts for part in checked_parts(each))


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """One table at a clock."""

    spec: TableSpec
    clock: Clock
    #: oldest first
    parts: tuple[VisiblePart, ...]

    @property
    def schema(self) -> Any:
        """Its ``pyarrow.Schema``."""
        from motet.columnar.schema import decode_schema

        return decode_schema(self.spec.schema)

    @property
    def rows(self) -> int:
        """Rows in its parts; of a table that replaces, also those that were replaced."""
        return sum(visible.part.staged.rows for visible in self.parts)

    def files(self) -> list[tuple[ObjectKey, int]]:
        """The files of its parts in the part store, and their sizes in bytes."""
        staged = [visible.part.staged for visible in self.parts]
        return [(part_key(part.table_id, part.id, part.file), part.size_bytes) for part in staged]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Several tables at one clock."""

    clock: Clock
    tables: Mapping[TableName, TableSnapshot]

    def __getitem__(self, table: str) -> TableSnapshot:
        return self.tables[TableName(table)]


async def stage_rows(
    spec: TableSpec, data: object, parts: PartStore, entropy: Entropy
) -> list[StagedPart]:
    """Write rows as parts of a table; they become visible when somebody publishes them.

    ``BadSchema`` names the column that does not fit, and then nothing was written. ``DiskFull``: there is no
    room for all of them, and those that were written are removed.
    """
    blocks = await asyncio.to_thread(_blocks, spec, data)
    written: list[ObjectKey] = []
    try:
        return [await _stage_block(spec, block, parts, entropy, written) for block in blocks]
    except DiskFull as error:
        await _remove(parts, written)
        raise DiskFull(
            f"there is no room for these rows of table {spec.name}: {error.what}",
            hint="free some room and write them again; none of them is visible, and reads go on",
        ) from None


async def remove_staged(staged: Sequence[StagedPart], parts: PartStore) -> None:
    """Give the room of parts back that are not published, and will not be."""
    keys: list[ObjectKey] = []
    for part in staged:
        keys += part_key(part.table_id, part.id, part.file), manifest_key(part.table_id, part.id)
    await _remove(parts, keys)


async def _remove(parts: PartStore, keys: Sequence[ObjectKey]) -> None:
    for key in reversed(keys):  # a manifest goes before its file
        # What cannot be removed is not visible: the error that led here is the one to be told.
        with suppress(ObjectError, OutcomeUnknown):
            await parts.remove(key)


def _blocks(spec: TableSpec, data: object) -> list[Any]:
    from motet.columnar.block import block_of
    from motet.columnar.part_file import split_blocks
    from motet.columnar.schema import decode_schema

    block = block_of(data, decode_schema(spec.schema))
    return list(split_blocks(block))


async def _stage_block(
    spec: TableSpec, block: Any, parts: PartStore, entropy: Entropy, put: list[ObjectKey]
) -> StagedPart:
    """Write one part; each file that was written is added to ``put``."""
    from motet.columnar.part_file import write_part

    written = await asyncio.to_thread(write_part, block, spec.order_by)
    part_id = PartId(f"{entropy.nonce():016x}")
    # The blocks of a table go to its shards in turn, more or less: by the part's own number.
    shard = ShardId(crc32c(part_id.encode()) % spec.shards)
    data = written.data
    file = f"0-{written.hash}"
    manifest = Manifest(
        table=spec.name,
        table_id=spec.id,
        part_id=part_id,
        shard=shard,
        engine=spec.engine,
        order_by=spec.order_by,
        rows=written.rows,
        file=file,
        size_bytes=len(data),
        hash=written.hash,
        low_key=written.low_key,
        high_key=written.high_key,
        written_at_ms=RealTime().now().wall_ms,
    )
    files = {
        part_key(spec.id, part_id, file): data,
        manifest_key(spec.id, part_id): encode_manifest(manifest),
    }
    for key, content in files.items():
        await parts.put(key, content)
        put.append(key)
    return StagedPart(spec.name, spec.id, part_id, shard, file, written.rows, len(data))
