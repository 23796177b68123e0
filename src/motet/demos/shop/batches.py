"""Whether Spark is in the middle of a batch, from the notes in its checkpoint.

Spark writes ``offsets/N`` before it begins batch N, and ``commits/N`` when the batch is over.
"""

from __future__ import annotations

from pathlib import Path


def is_batch_under_way(checkpoint: Path) -> bool:
    """A batch has begun, and is not over."""
    return _last(checkpoint / "offsets") > _last(checkpoint / "commits")


def _last(folder: Path) -> int:
    """The highest number that a file is called; other files are on their way, or not Spark's notes."""
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return max((int(name) for name in names if name.isdecimal()), default=-1)
