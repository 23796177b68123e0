"""Simulated clocks: each node reads virtual time through its own error."""

from __future__ import annotations

from motet.core.machine import NS_PER_MS, Now

EPOCH_NS = 1_800_000_000_000 * NS_PER_MS
"""The wall clock of an undisturbed node when virtual time begins: early 2027."""


class VirtualTime:
    """The time of the whole world, moved only by the world."""

    def __init__(self) -> None:
        self.elapsed_ns = 0


class SimTime:
    """The time port of one node: a steady clock with its own rate, a wall clock that can be wrong."""

    def __init__(self, virtual: VirtualTime, *, rate_ppm: int = 0, skew_ms: int = 0) -> None:
        self._virtual = virtual
        self._rate_ppm = rate_ppm
        self._uptime_ns = 0
        self.skew_ns = skew_ms * NS_PER_MS

    def now(self) -> Now:
        elapsed_ns = self._virtual.elapsed_ns
        if self._rate_ppm:
            elapsed_ns += elapsed_ns * self._rate_ppm // 1_000_000
        return Now(elapsed_ns + self._uptime_ns, EPOCH_NS + elapsed_ns + self.skew_ns)

    def virtual_ns(self, local_ns: int) -> int:
        """After how much virtual time both clocks will have run this much further, and no less."""
        if not self._rate_ppm:
            return local_ns
        elapsed_ns = self._virtual.elapsed_ns
        parts = 1_000_000 + self._rate_ppm
        local_due_ns = elapsed_ns * parts // 1_000_000 + local_ns
        return -(-local_due_ns * 1_000_000 // parts) - elapsed_ns

    def reboot(self, uptime_ms: int) -> None:
        """Give the monotonic clock another zero; it means nothing from one incarnation to the next."""
        self._uptime_ns = uptime_ms * NS_PER_MS

    def jump(self, by_ms: int) -> None:
        """Set the wall clock forward or back."""
        self.skew_ns += by_ms * NS_PER_MS
