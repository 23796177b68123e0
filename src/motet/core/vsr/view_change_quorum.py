"""What a new primary makes of the logs it was sent: the one decision that must never lose an operation.

The logs of the newest ``log_view`` are *canonical*: whatever was committed in that view or before is in
them. Their heads may differ, since prepares were under way. Below ``commit_max`` everything is known to be
committed. Above it, op by op:

* enough replicas deny it (a nack quorum): it was never committed, and the log ends below it;
* somebody can give it: it stays, committed or not;
* neither: it may be on a replica that has not spoken, or on a bad sector. More logs are waited for. When
  all have spoken and it is still so, nobody can tell, and the cluster stays down rather than guess.

A replica denies an op by its nack bit, by a log that ends below it, or by holding another prepare there
(of a log that is not canonical). A corrupt prepare is no denial.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from motet.core.vsr.header import Header
from motet.core.vsr.messages import DoViewChange
from motet.core.vsr.quorums import Quorums
from motet.ids import Op, View


class Verdict(StrEnum):
    """What can be said of the logs so far."""

    AWAITING_QUORUM = "awaiting_quorum"
    AWAITING_REPAIR = "awaiting_repair"
    #: all have spoken, and an op can be neither kept nor cut
    COMPLETE_INVALID = "complete_invalid"
    COMPLETE_VALID = "complete_valid"


class Decision(msgspec.Struct, frozen=True):
    """The verdict, and if it is valid the log of the new view."""

    verdict: Verdict
    log_view: View = View(0)
    op_head: Op = Op(0)
    commit_max: Op = Op(0)
    #: canonical headers from the head down
    headers: tuple[Header, ...] = ()
    #: ops that a nack quorum cut off
    cut: int = 0


def decide(logs: Sequence[DoViewChange], quorums: Quorums, pipeline_max: int) -> Decision:
    """The log of the new view, from one do_view_change of each replica that has sent one."""
    if len(logs) < quorums.view_change:
        return Decision(Verdict.AWAITING_QUORUM)
    log_view = max(log.log_view for log in logs)
    canonical = [log for log in logs if log.log_view == log_view]
    op_head_max = max(log.op for log in canonical)
    commit_max = max(_known_committed(log, pipeline_max) for log in logs)
    # A log of the newest view has everything that was committed before it.
    if op_head_max < commit_max:
        return Decision(_undecided(logs, quorums))
    op_head = commit_max
    for op in range(commit_max, op_head_max + 1):
        header = canonical_header(canonical, Op(op))
        nacks = sum(_denies(log, Op(op), header, log_view) for log in logs)
        if nacks >= quorums.nack and op > commit_max:
            break
        if header is None or not any(_can_give(log, header) for log in logs):
            return Decision(_undecided(logs, quorums))
        op_head = Op(op)
    headers = [
        header
        for op in range(op_head, -1, -1)
        if op > op_head_max - 2 * pipeline_max - 2
        and (header := canonical_header(canonical, Op(op))) is not None
    ]
    return Decision(
        Verdict.COMPLETE_VALID,
        log_view,
        op_head,
        commit_max,
        tuple(headers),
        cut=op_head_max - op_head,
    )


def canonical_header(canonical: Sequence[DoViewChange], op: Op) -> Header | None:
    """The header that the canonical logs have at this op; those that have one agree."""
    for log in canonical:
        header = header_at(log, op)
        if header is not None:
            return header
    return None


def header_at(log: DoViewChange, op: Op) -> Header | None:
    index = log.op - op
    return log.headers[index] if 0 <= index < len(log.headers) else None


def _known_committed(log: DoViewChange, pipeline_max: int) -> Op:
    """What this log proves to be committed: a primary never prepares further ahead than its pipeline."""
    head = log.headers[0]
    by_head = head.commit if head is not None else Op(0)
    return Op(max(log.commit_max, by_head, log.op - pipeline_max, 0))


def _denies(log: DoViewChange, op: Op, canonical: Header | None, log_view: View) -> bool:
    if op > log.op:
        return True
    index = log.op - op
    if log.nacks >> index & 1:
        return True
    header = header_at(log, op)
    if header is None or log.log_view == log_view:
        return False
    return canonical is None or header.checksum != canonical.checksum


def _can_give(log: DoViewChange, canonical: Header) -> bool:
    header = header_at(log, canonical.op)
    if header is None or header.checksum != canonical.checksum:
        return False
    return bool(log.presents >> (log.op - canonical.op) & 1)


def _undecided(logs: Sequence[DoViewChange], quorums: Quorums) -> Verdict:
    is_all = len(logs) >= quorums.replicas
    return Verdict.COMPLETE_INVALID if is_all else Verdict.AWAITING_REPAIR
