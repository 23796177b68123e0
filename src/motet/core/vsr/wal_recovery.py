"""What a log holds after a restart, slot by slot, and how far it reaches.

A checkpoint at ``op_checkpoint`` leaves each slot exactly one operation that it may hold by now: its
*window op*, the one above the checkpoint by no more than one lap of the ring. Older content stays where
it is, for others may ask for it, but says nothing about the head. Content of a later lap cannot be ours.

For each slot the ring of headers and the ring of prepares are joined by a table (``wal_table``). What
has to be settled before:

- A header that the last view left behind is taken for reserved. Which views an op can be of, follows
  from the headers that the superblock keeps of the view change. So an op that was prepared in one view,
  cut off, and prepared again in the next is not taken for damage, nor its first self for the log.
- A prepare that is torn was promised to nobody, unless a header says that it had once been whole. It is
  taken for reserved too.
- Where a prepare is taken for reserved, so is the header of the older op that it was written over: that
  op is below the checkpoint, and its prepare is not missed.

R1 a slot that is neither known nor faulty was promised to nobody: a replica may deny having its op.
R2 a faulty slot is never denied. It has no header unless one is known that nothing contradicts.
R3 the head is certain if no slot to its right is faulty, as far as this checkpoint allows to prepare.

A cluster of one replica has nobody to ask. There, damage up to the head is a reason not to start; and
because operations are promised in their order, a place that was promised to nobody ends the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

import msgspec

from motet.core.vsr.header import RESERVED, Header, decode_header, header_bytes, reserved_header
from motet.core.vsr.wal_layout import SlotKind, SlotRead, WalLayout
from motet.core.vsr.wal_table import Case, Decision, Question, decide
from motet.ids import Op, View


class RecoveredSlot(msgspec.Struct):
    """One place of the log."""

    #: the operation that is known to belong here
    header: Header | None
    #: its prepare is not on disk
    dirty: bool
    #: something may have been promised of this place that is not here any more
    faulty: bool
    #: the header is to be written into its ring
    fix: bool
    #: the letter of the row that decided
    case: str


class RecoveredWal(msgspec.Struct):
    """The whole log."""

    slots: list[RecoveredSlot]
    #: the highest op that is known, never below the checkpoint; None in a log that is refused
    op_head: Op | None
    head_is_certain: bool
    #: why this log must not be used
    refused: str | None
    #: how many prepares were cut short and are taken for never written
    torn: int
    #: the marks of all rows that decided, each once, in order
    cases: list[str]


class _Window(msgspec.Struct, frozen=True):
    """What is possible since the last checkpoint."""

    layout: WalLayout
    op_checkpoint: Op
    op_prepare_max: Op
    log_view: View
    #: from lowest to highest op; if there are none, nothing is known of views
    view_headers: tuple[Header, ...]

    def op_of(self, slot: int) -> Op:
        """The one op above the checkpoint that this slot may hold."""
        first = self.op_checkpoint + 1
        return Op(first + (slot - first) % self.layout.slots)

    def admits(self, header: Header, slot: int) -> bool:
        """Can this have been written here, by us, until now?"""
        if header.operation == RESERVED:
            return header.op == slot
        return 0 <= header.op <= self.op_of(slot) and header.op % self.layout.slots == slot

    def is_left_behind(self, header: Header) -> bool:
        """Is it of a view that an op of our log, as of ``log_view``, cannot be of?"""
        if not self.view_headers or header.operation == RESERVED:
            return False
        lowest, highest = views_of(header.op, self.log_view, self.view_headers)
        return not lowest <= header.view <= highest


class _Found(msgspec.Struct):
    """What was read of one slot; None is damage."""

    header: Header | None
    prepare: Header | None
    is_torn: bool


def views_of(op: Op, log_view: View, view_headers: tuple[Header, ...]) -> tuple[View, View]:
    """The views that ``op`` can have been prepared in, lowest and highest.

    ``view_headers`` are of the log as it was when ``log_view`` began, from lowest to highest op. Views
    never fall from op to op of one log, and all that came later was prepared in that very view. Where they do
    fall, the lower header is the hook of a newer view (``start_view``), and says nothing of what is above it.
    """
    if op > view_headers[-1].op:
        return log_view, log_view
    below = View(0)
    for header in view_headers:
        if header.op == op:
            return header.view, header.view
        if header.op > op:
            return below if below <= header.view else View(0), header.view
        below = header.view
    raise AssertionError("an op is above, below, or at a header")


def recover(
    layout: WalLayout,
    headers: bytes,
    read_slot: Sequence[SlotRead],
    op_checkpoint: Op,
    op_prepare_max: Op,
    *,
    solo: bool,
    log_view: View = View(0),  # noqa: B008 - a View is an int
    view_headers: tuple[Header, ...] = (),
) -> RecoveredWal:
    """Join what was read of both rings; ``log_view`` and ``view_headers`` are the superblock's."""
    assert len(read_slot) == layout.slots
    assert op_checkpoint <= op_prepare_max <= op_checkpoint + layout.slots
    known = (header for header in view_headers if header.operation != RESERVED)
    in_order = tuple(sorted(known, key=lambda header: header.op))
    window = _Window(layout, op_checkpoint, op_prepare_max, log_view, in_order)
    found = [_find(window, slot, headers, read) for slot, read in enumerate(read_slot)]
    op_max = max((_op_max(one) for one in found), default=Op(0))
    for slot, one in enumerate(found):
        _settle(window, slot, one)
    decided = [decide(_question(window, one, op_max, solo)) for one in found]
    slots = [
        _slot(window, *pair, slot) for slot, pair in enumerate(zip(decided, found, strict=True))
    ]
    wal = RecoveredWal(
        slots=slots,
        op_head=op_checkpoint,
        head_is_certain=True,
        refused=None,
        torn=sum(one.is_torn for one in found),
        cases=sorted(dict.fromkeys(case.mark for case in decided)),
    )
    if solo:
        _end_alone(window, wal, read_slot)
    else:
        _end(window, wal)
    return wal


def _find(window: _Window, slot: int, headers: bytes, read: SlotRead) -> _Found:
    offset = window.layout.header_offset(slot)
    header = decode_header(headers[offset : offset + header_bytes])
    if header is not None and not window.admits(header, slot):
        header = None
    prepare = read.header if read.kind in (SlotKind.VALID, SlotKind.RESERVED) else None
    if prepare is not None and not window.admits(prepare, slot):
        prepare = None
    return _Found(header, prepare, read.kind is SlotKind.TORN)


def _is_operation(header: Header | None) -> TypeGuard[Header]:
    """Valid, and not reserved."""
    return header is not None and header.operation != RESERVED


def _op_max(one: _Found) -> Op:
    return max((h.op for h in (one.header, one.prepare) if _is_operation(h)), default=Op(0))


def _settle(window: _Window, slot: int, one: _Found) -> None:
    """Take for reserved what was left behind by a view, and what was cut short."""
    if one.header is not None and window.is_left_behind(one.header):
        one.header = reserved_header(one.header.cluster, slot)
    is_void = one.is_torn
    if one.prepare is not None and window.is_left_behind(one.prepare):
        one.prepare, is_void = reserved_header(one.prepare.cluster, slot), True
    if is_void and one.header is not None and not _is_at(one.header, window.op_of(slot)):
        # The header is of what was here before, and does not miss its prepare.
        one.header = one.prepare = reserved_header(one.header.cluster, slot)
    elif is_void:
        one.is_torn = False  # a header says, or may have said, that there was a promise


def _is_at(header: Header | None, op: Op) -> TypeGuard[Header]:
    return _is_operation(header) and header.op == op


def _question(window: _Window, one: _Found, op_max: Op, solo: bool) -> Question:
    header, prepare = one.header, one.prepare
    both = (header, prepare) if _is_operation(header) and _is_operation(prepare) else None
    return Question(
        header_valid=header is not None,
        header_reserved=header is not None and header.operation == RESERVED,
        prepare_valid=prepare is not None,
        prepare_reserved=prepare is not None and prepare.operation == RESERVED,
        prepare_is_max_op=_is_operation(prepare) and prepare.op == op_max,
        beyond_prepare_max=_op_max(one) > window.op_prepare_max,
        checksums_equal=both is not None and both[0].checksum == both[1].checksum,
        ops_equal=both is not None and both[0].op == both[1].op,
        header_op_less=both is not None and both[0].op < both[1].op,
        views_equal=both is not None and both[0].view == both[1].view,
        solo=solo,
    )


def _slot(window: _Window, case: Case, one: _Found, slot: int) -> RecoveredSlot:
    assert case.decision is not Decision.UNREACHABLE, case.why
    if case.decision in (Decision.EQL, Decision.FIX):
        is_fix = case.decision is Decision.FIX
        return RecoveredSlot(one.prepare, dirty=False, faulty=False, fix=is_fix, case=case.letter)
    is_faulty = case.decision is Decision.VSR
    header = _uncontradicted(window, one, slot) if is_faulty else None
    return RecoveredSlot(header, dirty=True, faulty=is_faulty, fix=False, case=case.letter)


def _uncontradicted(window: _Window, one: _Found, slot: int) -> Header | None:
    """The header of a faulty slot, if it is of the window op and the prepare says no other."""
    op = window.op_of(slot)
    # To say "I have another" of an op is to deny it. Of two that may both have been
    # promised we name none (R2).
    if not _is_at(one.header, op) or _is_at(one.prepare, op):
        return None
    return one.header


def _end(window: _Window, wal: RecoveredWal) -> None:
    """Find the head, and whether others may know of a higher one that was ours."""
    head = faulty_max = window.op_checkpoint
    for slot, one in enumerate(wal.slots):
        op = window.op_of(slot)
        if one.header is not None and one.header.op > head:
            head = one.header.op
        if one.faulty and op <= window.op_prepare_max:
            faulty_max = max(faulty_max, op)
    assert head <= window.op_prepare_max
    wal.op_head = head
    wal.head_is_certain = faulty_max <= head


def _end_alone(window: _Window, wal: RecoveredWal, read_slot: Sequence[SlotRead]) -> None:
    """Find the head where the log ends, and clear what is behind it; or refuse the log."""
    head = window.op_checkpoint
    top = _top_alone(window, wal, read_slot)
    below = _at(window, wal, head).header
    for op in range(head + 1, top + 1):
        one = _at(window, wal, Op(op))
        if one.faulty:
            wal.op_head, wal.refused = None, f"op {op} is damaged, and there is no other replica"
            wal.head_is_certain = False
            return
        if one.header is None or one.header.op != op or not _follows(below, one.header):
            break
        head, below = Op(op), one.header
    committed = max((one.header.commit for one in wal.slots if one.header), default=Op(0))
    if committed > head:
        wal.op_head, wal.refused = None, f"op {head + 1} was committed, and is gone"
        wal.head_is_certain = False
        return
    wal.op_head = head
    _clear_above(wal, head)


def _top_alone(window: _Window, wal: RecoveredWal, read_slot: Sequence[SlotRead]) -> Op:
    """The highest op that has left a trace, if only in the first sector of a damaged prepare."""
    top = window.op_checkpoint
    for slot, (one, read) in enumerate(zip(wal.slots, read_slot, strict=True)):
        op = window.op_of(slot)
        has_header = one.header is not None and one.header.op == op
        has_claim = one.faulty and read.claimed_op == op <= window.op_prepare_max
        if has_header or has_claim:
            top = max(top, op)
    return top


def _follows(below: Header | None, header: Header) -> bool:
    """A header that names another parent was left behind when the log was cut below it."""
    return below is None or below.op != header.op - 1 or below.checksum == header.parent


def _clear_above(wal: RecoveredWal, head: Op) -> None:
    for one in wal.slots:
        if one.faulty or (one.header is not None and one.header.op > head):
            one.header, one.dirty, one.faulty, one.fix = None, True, False, False


def _at(window: _Window, wal: RecoveredWal, op: Op) -> RecoveredSlot:
    return wal.slots[window.layout.slot_of(op)]
