"""The actions of the view-change model that lead from one look at a replica to the next."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

Slots: TypeAlias = list[tuple[int, str] | None]
Line: TypeAlias = dict[str, Any]


class Observed(msgspec.Struct, frozen=True):
    """A replica as the model sees it; of an op whose header is not here yet, nothing is known."""

    view: int = 0
    log_view: int = 0
    status: str = "normal"
    slots: tuple[tuple[int, str] | None, ...] = ()
    commit: int = 0

    @property
    def op(self) -> int:
        """The head of the log."""
        return len(self.slots)

    def as_seen(self) -> dict[str, Any]:
        """As a line of a trace says it."""
        known = {str(at): list(slot) for at, slot in enumerate(self.slots) if slot is not None}
        log: Any = list(known.values()) if len(known) == len(self.slots) else known
        return {
            "view": self.view,
            "log_view": self.log_view,
            "status": self.status,
            "log": log,
            "commit": self.commit,
        }


def lines_between(
    r: int, replicas: int, before: Observed, after: Observed, begun: dict[int, tuple[int, int]]
) -> list[Line]:
    """Named actions, in an order in which the model can take them; empty if nothing is to be seen.

    ``begun`` keeps the head and the commit of each view as they were when it began.
    """
    leads = after.log_view % replicas == r
    is_new = after.log_view > before.log_view
    lines = _writes(r, before.slots, before.slots if is_new else (), after.slots[: before.op])
    head, commit = before.op, before.commit
    if is_new:
        lines += _new_log(r, leads, before, after)
        at_start = (after.op, after.commit)
        head, commit = at_start if leads else begun.get(after.log_view, at_start)
        commit = max(commit, before.commit)
        lines += _writes(r, _installed(before.slots, after.slots[:head]), (), after.slots[:head])
    if leads and after.status == "normal" and after.log_view > 0 and _begins(before, after):
        begun[after.log_view] = head, commit
        lines.append({"action": "StartView", "with": {"r": r}})
    grows = {"action": "Request" if leads else "HandlePrepare", "with": {"r": r}}
    lines += [dict(grows) for _ in range(head, after.op)]
    lines += _writes(r, (), (), after.slots, first=head)
    if after.status == "normal":
        lines += _commits(r, leads, commit, after.commit)
    if after.view > max(before.view, after.log_view):
        lines.append({"action": "StartViewChange", "with": {"r": r, "view": after.view}})
    return lines


def _begins(before: Observed, after: Observed) -> bool:
    return before.log_view < after.log_view or before.status != "normal"


def _new_log(r: int, leads: bool, before: Observed, after: Observed) -> list[Line]:
    if not leads:
        known = {"view": after.log_view}
        return [{"action": "HandleStartView", "with": {"r": r, "message": known}}]
    lines: list[Line] = []
    if before.view < after.log_view:
        view = {"r": r, "view": after.log_view}
        lines.append({"action": "StartViewChange", "with": view})
        lines.append({"action": "DoViewChange", "with": {"r": r}})
    lines.append({"action": "BecomePrimary"})
    return lines


def _installed(
    slots: tuple[tuple[int, str] | None, ...], headers: tuple[tuple[int, str] | None, ...]
) -> tuple[tuple[int, str] | None, ...]:
    """What a replica has on disk of a log that it takes over."""
    kept = zip(slots, headers, strict=False)
    return tuple(
        old if old is not None and new is not None and old[0] == new[0] else None
        for old, new in kept
    )


def _writes(
    r: int,
    had: tuple[tuple[int, str] | None, ...],
    only: tuple[tuple[int, str] | None, ...],
    has: tuple[tuple[int, str] | None, ...],
    *,
    first: int = 0,
) -> list[Line]:
    """Prepares that have reached the disk; with ``only``, those whose header was there before."""
    lines: list[Line] = []
    for at in range(first, len(has)):
        new = has[at]
        old = had[at] if at < len(had) else None
        if new is None or new[1] != "written" or old == new:
            continue
        if only and (at >= len(only) or only[at] is None or only[at][0] != new[0]):  # type: ignore[index]
            continue
        lines.append({"action": "WritePrepare", "with": {"r": r, "number": at}})
    return lines


def _commits(r: int, leads: bool, before: int, after: int) -> list[Line]:
    if leads:
        return [{"action": "CommitOp", "with": {"r": r}} for _ in range(before, after)]
    if after <= before:
        return []
    return [{"action": "LearnCommit", "with": {"r": r, "number": after - 1}}]
