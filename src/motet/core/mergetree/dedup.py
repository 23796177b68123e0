"""Rows that a table has already: only with ``dedup="content"`` (T9).

U1  ``blocks/<partition>_<hash>`` is made by the commit of the block that brings these rows to the shard. So
    of two commits with the same rows one is done.
U2  A hash whose node is older than the last drop of its partition counts as absent: it is set anew by its
    version. The drop deletes none, so none that is registered beside it is missed (R04).
U3  That a hash is *not* older is known when the log has been executed up to its head at the moment of the
    read. Then it is acknowledged as a duplicate of that block: when it is visible; and inserted anew if it
    has failed.
U4  The failure of a quorum takes it back. The newest are kept (``windows``).
"""

from __future__ import annotations

import msgspec

from motet.core.mergetree import pulling
from motet.core.mergetree.context import Core
from motet.core.mergetree.messages import InsertBlock
from motet.core.mergetree.paths import ShardPaths
from motet.core.mergetree.state import Insert, InsertStep
from motet.core.metadata.messages import (
    Create,
    Delete,
    Found,
    Get,
    ReadOperation,
    ReadResult,
    Set,
    WriteOperation,
)
from motet.errors import BadInput, BadRecord
from motet.ids import PartId, Zxid


class BlockHash(msgspec.Struct, frozen=True):
    """The data of a hash's node: which part has brought the rows."""

    part: PartId


_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(BlockHash)


def _part_of(found: Found) -> PartId:
    try:
        return _decoder.decode(found.data).part
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRecord(f"this is no hash of a block: {error}") from None


def reads(paths: ShardPaths, message: InsertBlock) -> list[ReadOperation]:
    """What is read for an insert with a hash."""
    if not message.dedup_hash:
        return []
    return [
        Get(paths.block_hash(message.part.partition, message.dedup_hash)),
        Get(paths.blocks),
        Get(paths.log),
    ]


def is_duplicate(core: Core, insert: Insert, results: list[ReadResult], zxid: Zxid) -> bool:
    """U2, U3: whether the rows are there, as far as is known; then the insert waits for their block."""
    found, blocks, log = results
    if not isinstance(blocks, Found) or not isinstance(log, Found):
        raise BadInput(
            'the table does not tell rows apart by content; create it with dedup="content"'
        )
    if not isinstance(found, Found) or is_dropped(core, insert, found.stat.mzxid):
        return False
    insert.step, insert.part, insert.is_duplicate = InsertStep.WAITING, _part_of(found), True
    insert.version, insert.hash_zxid = zxid, found.stat.mzxid
    insert.until = pulling.head_of(log.stat)
    pulling.hear(core, insert.until)
    return True


def is_dropped(core: Core, insert: Insert, hash_zxid: Zxid) -> bool:
    """U2."""
    return hash_zxid < core.state.history.last_drop(insert.message.part.partition)


def is_to_be_read_again(core: Core, insert: Insert) -> bool:
    """U3: the log is executed so far, and a drop has come before the read, or since: the rows are gone."""
    if not insert.hash_zxid or not is_dropped(core, insert, insert.hash_zxid):
        return False
    forget(insert)
    return True


def forget(insert: Insert) -> None:
    """It is no duplicate any more."""
    insert.is_duplicate, insert.version = False, Zxid(0)
    insert.until, insert.hash_zxid = -1, Zxid(0)


def use(paths: ShardPaths, message: InsertBlock, results: list[ReadResult]) -> list[WriteOperation]:
    """U1: what the commit does to the node of the hash that was found, or not."""
    if not message.dedup_hash:
        return []
    found, data = results[0], _encode(BlockHash(message.part.id))
    if isinstance(found, Found):
        return [Set(found.path, data, found.stat.version)]
    return [Create(paths.block_hash(message.part.partition, message.dedup_hash), data)]


def take_back(found: ReadResult, part: PartId) -> list[WriteOperation]:
    """U4; whoever trims the window checks the version of ``blocks``."""
    if not isinstance(found, Found) or _part_of(found) != part:
        return []
    return [Delete(found.path, found.stat.version)]
