"""What a driver counts: plain numbers that cost next to nothing, read when somebody asks.

The hot path adds to integers; :mod:`motet.node.status` turns them into Prometheus families when
`/metrics` is read.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

SYNC_SECONDS_BOUNDS = (
    0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0,
)  # fmt: skip
"""Upper bounds of the sync histogram: a good disk syncs in 0.2 ms, a busy one in 20."""

note_names_max = 256
"""Different notes counted by name; whatever comes beyond is counted as ``other``."""


class Histogram:
    """Observations in buckets: ``counts[i]`` are those above bound ``i - 1`` and up to bound ``i``."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


@dataclass(slots=True)
class Counters:
    """Everything one driver counts, since its start."""

    turns: int = 0
    events: int = 0
    frames_received: int = 0
    frames_sent: int = 0
    #: frames nobody here understands, by why: ``unknown_kind`` or ``undecodable``
    frames_refused: dict[str, int] = field(default_factory=dict)
    #: sends that never left, by why: ``no_peer_or_full``, ``too_large``, ``inbox_full``, ``write_failed``
    sends_dropped: dict[str, int] = field(default_factory=dict)
    writes: int = 0
    write_bytes: int = 0
    writes_failed: int = 0
    reads: int = 0
    reads_failed: int = 0
    works: int = 0
    works_failed: int = 0
    #: facts the machines noted, by (machine, what)
    notes: dict[tuple[str, str], int] = field(default_factory=dict)
    sync_seconds: Histogram = field(default_factory=lambda: Histogram(SYNC_SECONDS_BOUNDS))

    @property
    def syncs(self) -> int:
        return sum(self.sync_seconds.counts)

    def refuse_frame(self, why: str) -> int:
        """Count a refused frame; how many of this sort there were."""
        self.frames_refused[why] = count = self.frames_refused.get(why, 0) + 1
        return count

    def drop_send(self, why: str) -> int:
        """Count a send that was dropped; how many of this sort there were."""
        self.sends_dropped[why] = count = self.sends_dropped.get(why, 0) + 1
        return count

    def note(self, machine: str, what: str) -> None:
        """Count a noted fact."""
        key = (machine, what)
        if key not in self.notes and len(self.notes) >= note_names_max:
            key = (machine, "other")
        self.notes[key] = self.notes.get(key, 0) + 1
