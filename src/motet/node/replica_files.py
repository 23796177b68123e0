"""The folder that a replica finds: is this its own, and may it be used?

A replica's folder holds the core's files (``wal``, ``superblock``, ``replies``, ``grid``) and
``format.json``: for whom they were formatted, and with which sizes. The sizes say where everything lies, so
they never change after that.

F1  Formatting needs to be asked for, and is refused wherever a replica has been: whoever has lost its files
    has promised things with them, and would deny them with new ones.
F2  The superblock is written last, whole or not at all. A folder without one is no replica yet, unless its
    log says otherwise.
F3  Files that are there are never grown or filled up: zeros would pass for places never written to.
"""

from __future__ import annotations

from typing import Any

import msgspec

from motet.core.vsr.config import Timeouts, VsrConfig
from motet.core.vsr.context import SUPERBLOCK, WAL
from motet.core.vsr.formatting import file_sizes, format_files
from motet.core.vsr.header import RESERVED, decode_header, header_bytes
from motet.core.vsr.recovery import format_version
from motet.core.vsr.superblock import superblock_bytes
from motet.errors import BadConfig, BadInput, NodeError
from motet.ids import Address, ClusterId, FileName, ReplicaIndex
from motet.ports import Disk

FORMAT = FileName("format.json")


class Sizes(msgspec.Struct, frozen=True):
    """How large things are: the same on all replicas, for ever. The defaults are those of ``VsrConfig``.

    Earlier releases wrote one more, ``buckets``, which said nothing about a keeper; it is not looked at.
    """

    slots: int = 2048
    pipeline_max: int = 8
    queue_max: int = 64
    checkpoint_ops: int = 1000
    body_bytes_max: int = 64 * 1024
    clients_max: int = 64
    reserved_max: int = 16
    block_bytes: int = 8 * 1024
    blocks_max: int = 1 << 22


class Format(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """For whom a folder was formatted."""

    cluster: ClusterId
    replica: ReplicaIndex
    #: the names of all replicas, in their order
    members: tuple[Address, ...]
    sizes: Sizes = Sizes()
    version: int = format_version

    def config(self, timeouts: Timeouts = Timeouts()) -> VsrConfig:  # noqa: B008 - it is frozen
        """The same for the core; ``BadConfig`` if it is no cluster."""
        sizes = {name: getattr(self.sizes, name) for name in Sizes.__struct_fields__}
        if not 0 <= self.replica < len(self.members):
            raise BadConfig(f"there is no replica {self.replica} of {len(self.members)}")
        try:
            return VsrConfig(self.cluster, self.members, timeouts=timeouts, **sizes)
        except AssertionError as error:
            why = str(error) or "some size is too large or too small for another"
            raise BadConfig(f"this is no cluster: {why}", hint="see VsrConfig") from None


_decode_format = msgspec.json.Decoder(Format).decode
_decode_any = msgspec.json.Decoder(dict[str, Any]).decode


def decode_format(data: bytes) -> Format:
    """What ``format.json`` says; ``NodeError`` if it is of a newer format, or says nothing."""
    try:
        version = _decode_any(data).get("version")
        if isinstance(version, int) and version > format_version:
            raise _newer(version)
        return _decode_format(data)
    except msgspec.MsgspecError as error:
        raise NodeError(f"{FORMAT} is damaged: {error}", hint="restore it from a backup") from None


def _newer(version: int) -> NodeError:
    return NodeError(
        f"the files are of format {version}, and this release knows up to {format_version}",
        hint="start the release that wrote them, or a newer one",
    )


def prepare_files(wanted: Format, disk: Disk, *, may_format: bool) -> None:
    """Check that the files are ours, or make them if that was asked for."""
    if may_format:
        _format(wanted, disk)
    else:
        _check(wanted, disk)


def _format(wanted: Format, disk: Disk) -> None:
    config = wanted.config()
    if disk.size(SUPERBLOCK) or _has_operations(disk, wanted.sizes.slots):
        raise NodeError(
            "there has been a replica here already, and formatting would make it deny its promises",
            hint="start it without --format",
        )
    disk.remove(WAL)  # of a formatting that was cut short
    disk.replace(FORMAT, msgspec.json.encode(wanted))
    for file, size_bytes in file_sizes(config):
        disk.preallocate(file, size_bytes)
    superblock = bytearray(superblock_bytes)
    for file, offset, data in format_files(config, wanted.replica):
        if file == SUPERBLOCK:
            superblock[offset : offset + len(data)] = data
        else:
            disk.write(file, offset, data)
    for file, _ in file_sizes(config):
        disk.sync(file)
    disk.replace(SUPERBLOCK, bytes(superblock))  # F2


def _has_operations(disk: Disk, slots: int) -> bool:
    """Has anything ever been prepared here? The root and reserved places are what formatting writes."""
    ring = disk.read(WAL, 0, slots * header_bytes)
    for start in range(0, len(ring), header_bytes):
        header = decode_header(ring[start : start + header_bytes])
        if header is not None and header.op > 0 and header.operation != RESERVED:
            return True
    return False


def _check(wanted: Format, disk: Disk) -> None:
    if not disk.size(SUPERBLOCK):
        raise NodeError(
            "there is no replica in this folder",
            hint="start it with --format if it has never been; never if its files were lost",
        )
    found = decode_format(disk.read(FORMAT, 0))
    if found.cluster != wanted.cluster:
        raise _foreign(f"cluster {found.cluster}", f"cluster {wanted.cluster}")
    if found.replica != wanted.replica:
        raise _foreign(f"replica {found.replica}", f"replica {wanted.replica}")
    if found.members != wanted.members:
        raise _foreign(f"a cluster of {_names(found)}", f"one of {_names(wanted)}")
    if found.sizes != wanted.sizes:
        raise BadInput(
            f"the files were formatted with other sizes: {_difference(found.sizes, wanted.sizes)}",
            hint="start it with the sizes it was formatted with; they never change",
        )


def _foreign(found: str, wanted: str) -> NodeError:
    return NodeError(
        f"the files in this folder are of {found}, not of {wanted}",
        hint="check which folder belongs to which replica; nothing was touched",
    )


def _names(one: Format) -> str:
    return ", ".join(one.members)


def _difference(found: Sizes, wanted: Sizes) -> str:
    return ", ".join(
        f"{name} {getattr(found, name)} and not {getattr(wanted, name)}"
        for name in Sizes.__struct_fields__
        if getattr(found, name) != getattr(wanted, name)
    )
