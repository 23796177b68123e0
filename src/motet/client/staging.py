"""From rows to a part that nobody sees yet: sorted, written as Parquet, durable, and described by a manifest.

The work on the rows is done in threads: it belongs to Arrow, and the event loop may be that of a node.
"""

from __future__ import annotations

import asyncio
from typing import Any

from motet.client.part_store import PartStore, manifest_key, part_key
from motet.core.tables.records import StagedPart, TableSpec
from motet.errors import DiskFull
from motet.format.checksum import crc32c
from motet.format.manifest import Manifest, encode_manifest
from motet.ids import PartId, ShardId
from motet.ports.entropy import Entropy
from motet.real.time import RealTime


async def stage_rows(
    spec: TableSpec, data: object, parts: PartStore, entropy: Entropy
) -> list[StagedPart]:
    """Write rows as parts of a table; they become visible when somebody publishes them.

    ``BadSchema`` names the column that does not fit, and then nothing was written. ``DiskFull``: there is no
    room for all of them, and none is visible.
    """
    blocks = await asyncio.to_thread(_blocks, spec, data)
    try:
        return [await _stage_block(spec, block, parts, entropy) for block in blocks]
    except DiskFull as error:
        raise DiskFull(
            f"there is no room for these rows of table {spec.name}: {error.what}",
            hint="free some room and write them again; none of them is visible, and reads go on",
        ) from None


def _blocks(spec: TableSpec, data: object) -> list[Any]:
    from motet.columnar.block import block_of
    from motet.columnar.part_file import split_blocks
    from motet.columnar.schema import decode_schema

    block = block_of(data, decode_schema(spec.schema))
    return list(split_blocks(block))


async def _stage_block(
    spec: TableSpec, block: Any, parts: PartStore, entropy: Entropy
) -> StagedPart:
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
    await parts.put(part_key(spec.id, part_id, file), data)
    await parts.put(manifest_key(spec.id, part_id), encode_manifest(manifest))
    return StagedPart(spec.name, spec.id, part_id, shard, file, written.rows, len(data))
