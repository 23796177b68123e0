"""Which of the processes with a node's id this is: a number that rises with each of them.

It is the time at which the process was started, in milliseconds, as long as that rises. The last one is
kept in the node's folder: if the wall was set back between two starts, the later process still has the higher
number; else peers and the keeper's list of nodes would not let it take the place of the earlier one.

Two processes that are started at the same time in folders of their own may have the same number; to peers a
node greets with random bits behind it.

I1  A number is on disk before anybody hears of it, and no later process of this folder has it or a lower one.
    Only a full disk is no reason not to start: then the wall decides once more.
"""

from __future__ import annotations

from pathlib import Path

from motet.node.logs import logger
from motet.real.durable import FULL, replace_file

INCARNATION_FILE = "incarnation"

incarnation_max = (1 << 43) - 1
"""Beyond it is nonsense: in milliseconds, the year 2248."""


def next_incarnation(folder: Path, wall_ms: int) -> int:
    """The number of the process that starts now, which holds the folder's lock."""
    path = folder / INCARNATION_FILE
    number = max(_last(path) + 1, wall_ms)
    try:
        replace_file(path, f"{number}\n".encode())
    except OSError as error:
        if error.errno not in FULL:
            raise
        logger.warning("incarnation_not_kept", extra={"fields": {"why": error.strerror}})
    return number


def _last(path: Path) -> int:
    """The last one; -1 if there was none. What is damaged is replaced: the wall alone decides then."""
    try:
        number = int(path.read_bytes()[:32])
    except FileNotFoundError:
        return -1
    except ValueError:
        number = -1
    if 0 <= number < incarnation_max:
        return number
    fields = {"file": str(path), "hint": "nothing, unless the wall of this machine was set back"}
    logger.warning("incarnation_damaged", extra={"fields": fields})
    return -1
