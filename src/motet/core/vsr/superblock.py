"""The one thing a replica must find again after a restart: who it is, what it promised, where its state is.

The file ``superblock`` holds four copies of it, each in a region of its own. A change writes copies 0 and
1, syncs, writes 2 and 3, and syncs again. Two equal copies are believed, so that at every moment of a
change either the old or the new one is believed, and a copy that rots is outvoted::

    old old old old ──▶ new  ?  old old ──▶ new new old old ──▶ new new  ?   ?  ──▶ new new new new

After a crash between the two, ``stale_copies`` says which copies to write again *before* the next change:
else that change could damage the only two that are new, and the old one would be believed again.

Superblocks are chained: ``sequence`` rises by one and ``parent`` is the checksum of the one before. A
copy that does not fit the chain is a sign of disks that were swapped or files that were put back, and
the replica does not start.

M1 the cluster and the replica never change; epoch, view, log_view, commit_max and checkpoint never fall.
"""

from __future__ import annotations

import enum

import msgspec

from motet.core.vsr.block_ref import BlockRef
from motet.core.vsr.header import Checksum, Header, checksum
from motet.errors import BadSuperblock
from motet.ids import Address, ClusterId, Op, ReplicaIndex, View

copies = 4
copies_believed = 2
copy_bytes = 16 * 1024
superblock_bytes = copies * copy_bytes

write_order = ((0, 1), (2, 3))
"""Which copies are written together; a sync comes after each pair."""

_CHECKSUM_BYTES = 16
_PREFIX_BYTES = _CHECKSUM_BYTES + 4


class Checkpoint(msgspec.Struct, frozen=True, array_like=True):
    """The state after an op, as it is on disk."""

    op: Op
    #: of that op
    header: Header
    #: the block from which all of the state is reached
    root: BlockRef
    #: ids of the checkpoints before this one
    parent_id: Checksum
    grandparent_id: Checksum

    @property
    def id(self) -> Checksum:
        """Equal on all replicas that are at this checkpoint, unless they have diverged."""
        return checksum(_encode(self))


class Superblock(msgspec.Struct, frozen=True, array_like=True):
    """What a replica is, and has promised."""

    format_version: int
    cluster: ClusterId
    replica: ReplicaIndex
    replica_count: int
    members: tuple[Address, ...]
    epoch: int
    #: counts the superblocks of this replica
    sequence: int
    #: checksum of the superblock before this one
    parent: Checksum
    view: View
    #: the last view in which the log was known to be that of a primary
    log_view: View
    commit_max: Op
    #: the top of the log when ``log_view`` began, or when the replica voted for a later view
    view_headers: tuple[Header, ...]
    checkpoint: Checkpoint
    #: the state of the checkpoint is still being fetched from others
    syncing: bool


class Why(enum.StrEnum):
    """What is wrong with a file of superblocks."""

    NOT_FOUND = "no copy of the superblock can be read"
    QUORUM_LOST = "no two copies of the superblock are equal"
    FORK = "there are two superblocks of one sequence number"
    PARENT_NOT_CONNECTED = "an older copy is not the parent of the superblock"
    PARENT_SKIPPED = "a copy is newer than the superblock by more than one change"
    NOT_MONOTONIC = "an older copy has promised more than the superblock"


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Superblock).decode


class _Group(msgspec.Struct):
    """Copies that are equal."""

    checksum: Checksum
    superblock: Superblock
    numbers: list[int]


def superblock_checksum(superblock: Superblock) -> Checksum:
    """What the next superblock names as its parent."""
    return encode_copy(superblock)[:_CHECKSUM_BYTES]


def following(old: Superblock, new: Superblock) -> Superblock:
    """``new`` as the next in the chain after ``old``."""
    parent = superblock_checksum(old)
    new = msgspec.structs.replace(new, sequence=old.sequence + 1, parent=parent)
    assert is_monotonic(old, new), "M1"
    return new


def encode_copy(superblock: Superblock) -> bytes:
    """One copy: checksum, length, fields, zeros up to ``copy_bytes``."""
    body = _encode(superblock)
    assert len(body) + _PREFIX_BYTES <= copy_bytes, "the superblock outgrew its place"
    covered = len(body).to_bytes(4, "little") + body
    return (checksum(covered) + covered).ljust(copy_bytes, b"\0")


def copy_offset(number: int) -> int:
    assert 0 <= number < copies
    return number * copy_bytes


def read_superblock(data: bytes) -> Superblock:
    """The superblock in the whole file's bytes; ``BadSuperblock`` if none can be believed."""
    groups = _groups(data)
    if not groups:
        raise BadSuperblock(Why.NOT_FOUND)
    believed = [group for group in groups if len(group.numbers) >= copies_believed]
    if not believed:
        raise BadSuperblock(Why.QUORUM_LOST)
    best = max(believed, key=lambda group: group.superblock.sequence)
    for group in groups:
        if group is not best:
            _check_chain(best, group)
    return best.superblock


def stale_copies(data: bytes, superblock: Superblock) -> tuple[int, ...]:
    """The copies that are not this superblock, to be written again before anything else is."""
    wanted = superblock_checksum(superblock)
    fresh = [n for group in _groups(data) if group.checksum == wanted for n in group.numbers]
    return tuple(number for number in range(copies) if number not in fresh)


def check_identity(
    superblock: Superblock, cluster: ClusterId, replica: ReplicaIndex, format_version: int
) -> str | None:
    """Why this superblock is not for us, in a sentence; None if it is."""
    if superblock.format_version > format_version:
        return (
            f"the file is of format {superblock.format_version}, and this release"
            f" knows formats up to {format_version}"
        )
    if superblock.cluster != cluster:
        return f"the file is of another cluster, {superblock.cluster} and not {cluster}"
    if superblock.replica != replica:
        return f"the file is of another replica, {superblock.replica} and not {replica}"
    return None


def is_monotonic(old: Superblock, new: Superblock) -> bool:
    """May ``new`` come after ``old``? (M1)"""
    if (old.cluster, old.replica) != (new.cluster, new.replica):
        return False
    if old.checkpoint.op == new.checkpoint.op and old.checkpoint != new.checkpoint:
        return False
    if old.epoch == new.epoch and old.members != new.members:
        return False
    risen = zip(_promises(old), _promises(new), strict=True)
    return all(before <= after for before, after in risen)


def _promises(superblock: Superblock) -> tuple[int, ...]:
    return (
        superblock.format_version,
        superblock.epoch,
        superblock.view,
        superblock.log_view,
        superblock.commit_max,
        superblock.checkpoint.op,
    )


def _check_chain(best: _Group, other: _Group) -> None:
    """Is the other group of copies what a change, or a crash in one, can leave behind?"""
    ahead = other.superblock.sequence - best.superblock.sequence
    if ahead == 0:
        raise BadSuperblock(Why.FORK)
    if ahead > 1:
        raise BadSuperblock(Why.PARENT_SKIPPED)
    if ahead == -1 and best.superblock.parent != other.checksum:
        raise BadSuperblock(Why.PARENT_NOT_CONNECTED)
    if ahead == -1 and not is_monotonic(other.superblock, best.superblock):
        raise BadSuperblock(Why.NOT_MONOTONIC)


def _groups(data: bytes) -> list[_Group]:
    """All copies that can be read, equal ones together, in the order of their first."""
    groups: dict[Checksum, _Group] = {}
    for number in range(copies):
        start = copy_offset(number)
        copy = data[start : start + copy_bytes]
        superblock = _decode_copy(copy)
        if superblock is not None:
            own = copy[:_CHECKSUM_BYTES]
            groups.setdefault(own, _Group(own, superblock, [])).numbers.append(number)
    return list(groups.values())


def _decode_copy(copy: bytes) -> Superblock | None:
    size_bytes = int.from_bytes(copy[_CHECKSUM_BYTES:_PREFIX_BYTES], "little")
    covered = copy[_CHECKSUM_BYTES : _PREFIX_BYTES + size_bytes]
    if len(covered) != 4 + size_bytes or checksum(covered) != copy[:_CHECKSUM_BYTES]:
        return None
    try:
        return _decode(covered[4:])
    except msgspec.MsgspecError:
        return None
