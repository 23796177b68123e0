"""Names that people give: of streams, tables and ordered writers."""

from __future__ import annotations

import re

from motet.errors import BadInput
from motet.limits import name_length_max

NAME = re.compile(rf"[A-Za-z][A-Za-z0-9_.-]{{0,{name_length_max - 1}}}")


def check_name(name: str, what: str) -> None:
    """``BadInput`` for what is no name."""
    if not NAME.fullmatch(name):
        raise BadInput(
            f"{name[:60]!r} is not a name for {what}",
            hint=f"a letter, then up to {name_length_max - 1} letters, digits, `_`, `.` or `-`",
        )
