"""What a log is to carry on before files of it go: which files are worth that, and how much goes at a time.

Some of what a log holds is needed although nobody reads that far back any more: the latest change of a key.
It is written once more, at the end, so that the file can go. This is the arithmetic of it, and knows nothing
of keys.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence


def worth_compacting(
    bounds: Sequence[int], held: Sequence[int], total_before: Callable[[int], int]
) -> int | None:
    """The last of the places before which files may end, if what is there is worth carrying; None for none.

    ``held`` are the places of what is needed, rising. Files of which more than half is needed stay: otherwise
    the same would be written again and again, to no end.
    """
    for bound in reversed(bounds):
        if 2 * bisect_left(held, bound) <= total_before(bound):
            return bound
    return None


def piece_of(sizes_bytes: Iterable[int], bytes_max: int) -> int:
    """How many of the first go into one entry: as many as fit, but one at least, if there is one."""
    total_bytes, count = 0, 0
    for size_bytes in sizes_bytes:
        total_bytes += size_bytes
        if count and total_bytes > bytes_max:
            break
        count += 1
    return count
