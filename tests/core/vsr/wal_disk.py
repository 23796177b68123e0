"""A log on a disk of its own, for tests: written op by op, cut short, damaged, and read again."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from motet.core.vsr.config import VsrConfig
from motet.core.vsr.header import (
    OPERATION_MIN,
    Header,
    checksum,
    encode_header,
    header_bytes,
    root_header,
    sealed,
)
from motet.core.vsr.sectors import sector_bytes
from motet.core.vsr.wal_layout import WalLayout, encode_prepare, format_wal, read_prepare
from motet.core.vsr.wal_recovery import RecoveredSlot, RecoveredWal, recover
from motet.ids import Address, ClusterId, Op, View

CLUSTER = ClusterId(7)
CONFIG = VsrConfig(CLUSTER, (Address("r0"),), slots=32, checkpoint_ops=8, body_bytes_max=2_000)
LAYOUT = WalLayout.of(CONFIG)
ROOT = root_header(CLUSTER)
BODY_BYTES = (10, 1_500, 700)


def body_of(op: int, view: int) -> bytes:
    """Two or more sectors, but for every third."""
    return (b"%d.%d " % (op, view)).ljust(BODY_BYTES[(op + view) % 3], b"b")


def after(parent: Header, view: int = 1, commit: int = 0) -> Header:
    """The next op."""
    op = parent.op + 1
    body = body_of(op, view)
    header = msgspec.structs.replace(
        ROOT,
        view=View(view),
        op=Op(op),
        commit=Op(commit),
        parent=parent.checksum,
        operation=OPERATION_MIN,
        body_checksum=checksum(body),
        body_bytes=len(body),
    )
    return sealed(header)


class Disk:
    """The file ``wal``, with what can happen to it."""

    def __init__(self) -> None:
        self.file = bytearray(LAYOUT.size_bytes)
        #: log[op] is what was prepared last
        self.log = [ROOT]
        for offset, data in format_wal(CLUSTER, LAYOUT):
            self.file[offset : offset + len(data)] = data

    def prepare(self, header: Header, landed: Callable[[int], bool] = lambda _: True) -> Header:
        """Write a prepare, or those of its sectors that land."""
        written = encode_prepare(header, body_of(header.op, header.view))
        start = LAYOUT.prepare_offset(LAYOUT.slot_of(header.op))
        for at in range(0, len(written), sector_bytes):
            if landed(at // sector_bytes):
                self.file[start + at : start + at + sector_bytes] = written[at : at + sector_bytes]
        return header

    def head(self, header: Header) -> None:
        """Write a header into its ring."""
        start = LAYOUT.header_offset(LAYOUT.slot_of(header.op))
        self.file[start : start + header_bytes] = encode_header(header)

    def append(self, count: int, *, headed: int | None = None, view: int = 1) -> None:
        """Prepare so many ops, of which the first ``headed`` have their header, if not all."""
        for done in range(count):
            header = self.prepare(after(self.log[-1], view))
            self.log.append(header)
            if headed is None or done < headed:
                self.head(header)

    def rot_prepare(self, op: int, at: int = 3) -> None:
        self.file[LAYOUT.prepare_offset(op % LAYOUT.slots) + at] ^= 0xFF

    def rot_header(self, op: int) -> None:
        self.file[LAYOUT.header_offset(op % LAYOUT.slots) + 3] ^= 0xFF

    def recover(
        self,
        checkpoint: int = 0,
        prepare_max: int | None = None,
        *,
        solo: bool = False,
        log_view: int = 0,
        view_headers: tuple[Header, ...] = (),
    ) -> RecoveredWal:
        headers = bytes(self.file[: LAYOUT.headers_bytes])
        starts = [LAYOUT.prepare_offset(slot) for slot in range(LAYOUT.slots)]
        reads = [read_prepare(bytes(self.file[at : at + LAYOUT.slot_bytes])) for at in starts]
        last = Op(checkpoint + 24 if prepare_max is None else prepare_max)
        return recover(
            LAYOUT,
            headers,
            reads,
            Op(checkpoint),
            last,
            solo=solo,
            log_view=View(log_view),
            view_headers=view_headers,
        )


def at(wal: RecoveredWal, op: int) -> RecoveredSlot:
    return wal.slots[op % LAYOUT.slots]


def state(wal: RecoveredWal, op: int) -> str:
    """The op's slot in few words."""
    slot = at(wal, op)
    words = [f"{slot.case}:"]
    words += [str(slot.header.op) if slot.header else "none"]
    words += [name for name in ("dirty", "faulty", "fix") if getattr(slot, name)]
    return " ".join(words)


def ops(count: int, headed: int | None = None) -> Disk:
    disk = Disk()
    disk.append(count, headed=headed)
    return disk
