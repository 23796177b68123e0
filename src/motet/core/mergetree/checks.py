"""What requests may say.

C1  Part ids, tokens and the name's node go into paths of the keeper; partitions into names of parts. A path
    is made of checked words alone, so no request reaches a node that it is not about.
C2  So many requests wait at a time, and no more: the others are told to come later.
C3  Bytes within messages are small, and so many are in memory at a time.
"""

from __future__ import annotations

import re

from motet.core.mergetree.context import Core
from motet.core.mergetree.entries import PartHeader
from motet.core.mergetree.messages import (
    DropPartitions,
    HoldPart,
    InsertBlock,
    PartBytes,
    PartPushed,
    StagePart,
)
from motet.core.mergetree.paths import TABLES, is_token
from motet.errors import BadInput, TooLarge
from motet.errors.tables import TableBusy, TableReadOnly
from motet.ids import PartId
from motet.limits import insert_inline_bytes_max, part_file_bytes_max, token_number_max

_PART_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_PARTITION = re.compile(r"[^/\x00-\x1f]{1,128}")
_NAME_PATH = re.compile(rf"{TABLES}/[^/\x00-\x1f]{{1,128}}")
_text_length_max = 256
_count_max = (1 << 63) - 1
version_max = (1 << 31) - 1
_partitions_max = 1_000


def check_insert(core: Core, message: InsertBlock) -> None:
    """Raise the error that an insert is refused with."""
    _check_active(core, len(core.state.inserts))
    check_header(message.part)
    if message.producer:
        is_named = is_token(message.producer) and not message.token
        if not is_named or not 0 <= message.number <= token_number_max:
            raise BadInput("a producer has a name, counts from 0, and uses no text tokens")
    elif not is_token(message.token):
        raise BadInput("the token of an insert is printable text of 1 to 128 characters")
    check_content(message.content)
    check_hash(message.dedup_hash)
    check_name(message.name_path, message.name_version)
    check_quorum(core, message.quorum)
    check_block(core, message.part, message.block)
    if is_known(core, message.part.id):
        raise BadInput(
            f"part {message.part.id} is there already", hint="mint an id for each attempt"
        )


def check_push(core: Core, message: PartPushed) -> None:
    """Raise the error for which bytes of a peer are not taken."""
    _check_active(core, len(core.state.arriving))
    check_header(message.part)
    check_block(core, message.part, message.block)


def check_stage(core: Core, message: StagePart) -> None:
    """Raise the error that a client is refused with who wants a part staged."""
    _check_active(core, len(core.state.staging))
    check_header(message.part)
    check_job(message.job)
    check_quorum(core, message.quorum)
    check_block(core, message.part, message.block)
    _check_held(core, message.part)


def check_hold(core: Core, message: HoldPart) -> None:
    """H1, H2: raise the error for which a part is not held here."""
    state = core.state
    if state.host_version < 0 or state.is_lost:
        raise TableReadOnly(f"this replica {state.why or 'is starting'}")
    check_room(core, len(state.holding))
    check_header(message.part)
    check_job(message.job)
    check_block(core, message.part, message.block)
    _check_held(core, message.part)


def _check_held(core: Core, part: PartHeader) -> None:
    """A part is its id and its hash."""
    state = core.state
    held = state.held.get(part.id)
    if held is not None and held.header.hash != part.hash:
        raise BadInput(f"other bytes are staged as part {part.id}")
    own = state.parts.get(part.id)
    is_published = own is not None and own.is_registered and own.header.hash == part.hash
    if held is None and not is_published and is_known(core, part.id):
        raise BadInput(f"part {part.id} is there already", hint="mint an id for each attempt")
    if held is None and len(state.held) >= core.config.held_max:
        raise TableBusy(f"{len(state.held)} parts are staged here and not published")


def check_job(job: str) -> None:
    """Of a part that is staged; empty: it is in none."""
    if job and not is_token(job):
        raise BadInput("the name of a staging job is printable text of 1 to 128 characters")


def check_quorum(core: Core, quorum: int) -> None:
    """0 stands for the majority."""
    replicas = len(core.state.replicas)
    if not 0 <= quorum <= replicas:
        what = f"quorum={quorum} is not between 1 and the {replicas} replicas of the table"
        raise BadInput(what, hint="ask for fewer, or add replicas")


def check_block(core: Core, part: PartHeader, block: PartBytes | None) -> None:
    """C3: of bytes within a message."""
    if block is None:
        return
    if block.kind != "parquet":
        raise BadInput(f"a block of kind {block.kind[:40]!r} cannot be stored", hint="send Parquet")
    if len(block.data) != part.size_bytes:
        raise BadInput(f"part {part.id} has {part.size_bytes} bytes, not {len(block.data)}")
    if len(block.data) > insert_inline_bytes_max or len(block.manifest) > insert_inline_bytes_max:
        raise TooLarge(
            f"a part of {len(block.data)} bytes exceeds the limit of {insert_inline_bytes_max}"
            " for one within a message",
            hint="put its bytes over HTTP first",
        )
    if not core.node.has_room(block, core.config.block_bytes_max):
        raise TableBusy(f"this node is writing {core.node.memory.blocks_bytes} bytes of others")


def check_drop(core: Core, message: DropPartitions) -> None:
    """Raise the error that a drop is refused with."""
    _check_active(core, len(core.state.drops))
    check_name(message.name_path, message.name_version)
    check_partitions(message.partitions or ())


def is_known(core: Core, part: PartId) -> bool:
    """Whether the id of a part is in use: it is minted for one attempt, and never used again."""
    is_leaving = part in core.state.leaving.values()
    return core.insert_of(part) is not None or is_leaving or is_taken(core, part)


def is_taken(core: Core, part: PartId) -> bool:
    """Whether the log has the part, or the keeper says that it is ours."""
    state = core.state
    own = state.parts.get(part)
    is_registered = own is not None and own.is_registered
    return is_registered or part in state.history.by_part or part in state.queue


def check_room(core: Core, waiting: int) -> None:
    """C2."""
    if waiting >= core.config.requests_max:
        raise TableBusy(f"{waiting} requests of this kind wait for this replica")


def _check_active(core: Core, waiting: int) -> None:
    if not core.is_active:
        raise TableReadOnly(f"this replica {core.state.why or 'is starting'}")
    check_room(core, waiting)


def check_header(header: PartHeader) -> None:
    """C1."""
    if _PART_ID.fullmatch(header.id) is None:
        raise BadInput(
            f"{header.id[:80]!r} is not the id of a part",
            hint="1 to 64 letters, digits, dots, dashes or underscores",
        )
    check_partition(header.partition)
    if not 1 <= len(header.hash) <= _text_length_max:
        raise BadInput(f"the hash of a part has 1 to {_text_length_max} characters")
    numbers = (header.rows, header.size_bytes, header.schema, header.format)
    if not all(0 <= number <= _count_max for number in numbers):
        raise BadInput(f"part {header.id} has a count below zero, or beyond 64 bits")
    if header.size_bytes > part_file_bytes_max:  # nobody waits for it, as for a large part
        what = f"part {header.id} with {header.size_bytes} bytes exceeds the limit of {part_file_bytes_max}"
        raise TooLarge(what, hint="write several parts")


def check_content(content: str, least: int = 1) -> None:
    """Of an insert, or what a table gets of a publication."""
    if not least <= len(content) <= _text_length_max:
        raise BadInput(f"the content of an insert is a hash of 1 to {_text_length_max} characters")


def check_hash(dedup_hash: str, call: str = "") -> None:
    """Of a part in a table with ``dedup="content"``; empty: it has none."""
    if not all(is_token(each) for each in (dedup_hash, call) if each):
        raise BadInput("the hash of a block's content is printable text of 1 to 128 characters")


def check_partitions(partitions: tuple[str, ...]) -> None:
    """Of a drop, or an overwrite."""
    if len(partitions) > _partitions_max:
        raise BadInput(f"{len(partitions)} partitions exceed the limit of {_partitions_max}")
    for partition in partitions:
        check_partition(partition)


def check_partition(partition: str) -> None:
    """C1."""
    if _PARTITION.fullmatch(partition) is None or not _is_encodable(partition):
        raise BadInput(
            f"{partition[:80]!r} is not the name of a partition",
            hint="1 to 128 characters without slashes and control characters",
        )


def check_name(path: str, version: int) -> None:
    """Of whom was addressed by name (T27); empty: by its id."""
    is_path = _NAME_PATH.fullmatch(path) is not None and _is_encodable(path)
    if path and not (is_path and 0 <= version <= version_max):
        raise BadInput(f"{path[:80]!r} at version {version} is not the name of a table")


def _is_encodable(text: str) -> bool:
    return text.isprintable()
