"""Where small files that Spark is started with are kept: never changed once they are there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path


def cache_folders(environment: Mapping[str, str]) -> Iterator[Path]:
    """Where they may lie: the user's cache, else a folder of this user among the temporary ones."""
    cache, home = Path(environment.get("XDG_CACHE_HOME", "")), environment.get("HOME")
    if cache.is_absolute():
        yield cache / "motet"
    elif home:
        yield Path(home, ".cache/motet")
    yield Path(tempfile.gettempdir(), f"motet-{os.getuid()}")


def make_private(folder: Path) -> None:
    """Makes the folder; an ``OSError`` if somebody else could put a program into it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise PermissionError(f"{folder} can be written by others")
