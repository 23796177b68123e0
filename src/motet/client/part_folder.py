"""The folder of a database's parts, and how a client finds out that it has that very folder at hand.

Whoever opens the database writes a fresh random token into ``.store`` and tells it to those who ask. A client
that reads the same token from the folder of that name on its own machine can use the files directly. The
token is a new one each time, so a copy of the folder on another machine is not taken for it.
"""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path

from motet.real.durable import make_folder

STORE_FILE = ".store"
_TOKEN = re.compile(r"[0-9a-f]{32}")


def prepare_folder(folder: Path) -> str:
    """Make the folder, durably, and give it a token; an ``OSError`` says why not."""
    make_folder(folder)
    token = secrets.token_hex(16)
    unfinished = folder / f"{STORE_FILE}~"
    # No other user may write there, so none needs to believe that it could: such a client uses HTTP.
    fd = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(fd, f"{token}\n".encode())
    finally:
        os.close(fd)
    unfinished.replace(folder / STORE_FILE)
    return token


def token_of(folder: Path) -> str | None:
    """The token of the folder of this name on this machine; None if there is none to be read."""
    try:
        token = (folder / STORE_FILE).read_text("ascii").strip()
    except (OSError, ValueError):
        return None
    return token if _TOKEN.fullmatch(token) else None
