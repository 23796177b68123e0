"""The actions of the view-change model that lead from one look at a replica to the next.

A node writes what its replica is after each step (``debug.protocol``). The lines of all nodes are put
together by ``at``, which must be one clock, and each becomes the actions that lead from the look before it to
this one. They must begin when the cluster was formatted: the model knows nothing of an older log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from motet.core.vsr.look import LookLine, Observed, Slot, changed_slots
from motet.errors import BadInput
from motet.verify.trace.lines import REPLICA, Found, Header, TraceLine, read_lines

Line: TypeAlias = dict[str, Any]
Slots: TypeAlias = tuple[Slot, ...]


class ViewChangeSteps:
    """Keeps what was last seen of each replica of a cluster, and tells what it has done since."""

    def __init__(self, replicas: int) -> None:
        self._replicas = replicas
        self._seen = [Observed()] * replicas
        #: the log that each has last sent to whoever leads a view
        self._sent: list[Observed | None] = [None] * replicas
        #: view -> its log's head, and what was committed, when it began
        self._heads: dict[int, tuple[int, int]] = {0: (0, 0)}
        #: of each: place in the log -> the view of the op that the model has on its disk
        self._written: list[dict[int, int]] = [{} for _ in range(replicas)]

    def before(self, r: int) -> Observed:
        """What was last seen of a replica."""
        return self._seen[r]

    def saw(self, r: int, after: Observed, *, sends: bool, restarted: bool = False) -> list[Line]:
        """The lines of a look; the last one says what the replica then is."""
        before, self._seen[r] = self._seen[r], after
        lines: list[Line] = []
        if restarted:
            restart, before = _restart(r, self._replicas, before, after)
            lines.append(restart)
        steps = lines_between(r, self._replicas, before, after, self._heads)
        lines += [line for line in steps if not self._is_stutter(r, after, line)]
        self._keep_written(r, after)
        if sends and self._sent[r] != after:
            self._sent[r] = after
            lines.append({"action": "DoViewChange", "with": {"r": r}})
        if lines:
            lines.append({"action": None, "state": {"replica": {str(r): _as_seen(before, after)}}})
        return lines

    def _is_stutter(self, r: int, after: Observed, line: Line) -> bool:
        """A prepare whose header was not known for a while, and which the model has had all along."""
        if line["action"] != "WritePrepare":
            return False
        at = line["with"]["number"]
        slot = after.slots[at]
        assert slot is not None, "it is written"
        if self._written[r].get(at) == slot[0]:
            return True
        self._written[r][at] = slot[0]
        return False

    def _keep_written(self, r: int, after: Observed) -> None:
        kept = {at: view for at, view in self._written[r].items() if at < after.op}
        for at, slot in enumerate(after.slots):
            if slot is not None and slot[1] == "written":
                kept[at] = slot[0]
            elif slot is not None:
                kept.pop(at, None)
        self._written[r] = kept


def _restart(r: int, replicas: int, before: Observed, after: Observed) -> tuple[Line, Observed]:
    """What was not written may be gone, and what is committed has to be learnt again; no primary leads on."""
    head = before.op if after.log_view > before.log_view else min(before.op, after.op)
    commit = min(before.commit, after.commit, head)
    view, status = before.view, before.status
    if view == before.log_view and view % replicas == r:
        view, status = view + 1, "view_change"
    left = Observed(view, before.log_view, status, before.slots[:head], commit)
    return {"action": "Restart", "with": {"r": r, "head": head, "commit": commit}}, left


def _as_seen(before: Observed, after: Observed) -> dict[str, Any]:
    """As a line of a trace says it: of the log, what has changed."""
    changed = changed_slots(before, after)
    return {
        "view": after.view,
        "log_view": after.log_view,
        "status": after.status,
        "log": {str(op - 1): list(slot) for op, slot in changed.items() if slot is not None},
        "commit": after.commit,
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
        is_normal = leads and after.status == "normal"
        at_start = (after.began if is_normal else after.op, after.commit)
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


def _installed(slots: Slots, headers: Slots) -> Slots:
    """What a replica has on disk of a log that it takes over."""
    kept = zip(slots, headers, strict=False)
    return tuple(
        old if old is not None and new is not None and old[0] == new[0] else None
        for old, new in kept
    )


def _writes(
    r: int,
    had: Slots,
    only: Slots,
    has: Slots,
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
        known = only[at] if at < len(only) else None
        if only and (known is None or known[0] != new[0]):
            continue
        lines.append({"action": "WritePrepare", "with": {"r": r, "number": at}})
    return lines


def _commits(r: int, leads: bool, before: int, after: int) -> list[Line]:
    if leads:
        return [{"action": "CommitOp", "with": {"r": r}} for _ in range(before, after)]
    if after <= before:
        return []
    return [{"action": "LearnCommit", "with": {"r": r, "number": after - 1}}]


MODEL = "vsr-view-change"


def read_looks(files: Sequence[Path]) -> list[Found[LookLine]]:
    """The looks of all nodes, in their order."""
    found = read_lines(files, REPLICA, LookLine)
    if not found:
        raise BadInput("nothing is said of a replica of the keeper", hint="name another file")
    sizes = sorted({each.line.replicas for each in found})
    if len(sizes) > 1 or any(not 0 <= each.line.replica < sizes[0] for each in found):
        raise BadInput("these are traces of several clusters", hint="name the files of one")
    return sorted(found, key=lambda each: each.line.at)


def steps_of(looks: Sequence[Found[LookLine]]) -> tuple[Header, Iterator[TraceLine]]:
    """The steps, and a model that is large enough for them."""
    lines = [each.line for each in looks]
    settings = {
        "replicas": lines[0].replicas,
        "ops": max(1, *(line.op for line in lines)),
        "views": max(line.view for line in lines),
        "most_faults": 0,
        "most_restarts": sum(line.restarted for line in lines),
    }
    return Header(MODEL, settings), _steps(looks, lines[0].replicas)


def _steps(looks: Sequence[Found[LookLine]], replicas: int) -> Iterator[TraceLine]:
    steps = ViewChangeSteps(replicas)
    for file, number, line in looks:
        before = Observed() if line.restarted else steps.before(line.replica)
        after = line.after(before)
        told = steps.saw(line.replica, after, sends=line.sends, restarted=line.restarted)
        for step in told:
            yield TraceLine(
                step["action"], step.get("with", {}), step.get("state", {}), number, file
            )
