"""Writes docs/reference/consensus.md from the code: the commands of the protocol, and the recovery table.

python -m tools.consensus_reference
"""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from motet.core.vsr.messages import ALIASES, VsrCall, command_name
from motet.core.vsr.wal_table import cases

PAGE = Path(__file__).parents[1] / "docs/reference/consensus.md"

PAGE_TEXT = """# Consensus: commands and decisions

The commands of the protocol, as the code has them. The names are those of the source text; later writings
of its authors use the ones in the fourth column. Blocks of checkpoints and reading without writing are ours.

{commands}

## What a slot of the log is after a restart

Each place of the log is on disk twice: as a prepare, and as a header in a ring of its own. After a crash the
two are joined by this table; exactly one row fits any two findings. `eql` both agree; `nil` nothing was
promised here; `fix` the header is written again from the prepare; `vsr` the place is damaged, and repaired
by the other replicas; `cut` it cannot be ours yet.

{cases}
"""

_REPLICA, _PRIMARY, _BACKUP, _CLIENT = "replica", "primary", "backup", "client"

ROUTES: dict[str, tuple[str, str]] = {
    "ping": (_REPLICA, _REPLICA),
    "pong": (_REPLICA, _REPLICA),
    "ping_client": (_CLIENT, _REPLICA),
    "pong_client": (_REPLICA, _CLIENT),
    "request": (_CLIENT, _PRIMARY),
    "prepare": (_REPLICA, _BACKUP),
    "prepare_ok": (_REPLICA, _PRIMARY),
    "reply": (_PRIMARY, _CLIENT),
    "commit": (_PRIMARY, _BACKUP),
    "start_view_change": (_REPLICA, "all replicas"),
    "do_view_change": (_REPLICA, "all replicas"),
    "start_view": (_PRIMARY, _BACKUP),
    "request_start_view": (_BACKUP, _PRIMARY),
    "request_headers": (_REPLICA, _REPLICA),
    "headers": (_REPLICA, _REPLICA),
    "request_prepare": (_REPLICA, _REPLICA),
    "request_reply": (_REPLICA, _REPLICA),
    "request_blocks": (_REPLICA, _REPLICA),
    "block": (_REPLICA, _REPLICA),
    "eviction": (_PRIMARY, _CLIENT),
    "read_barrier": (_CLIENT, _PRIMARY),
    "confirm_view": (_PRIMARY, _BACKUP),
    "view_confirmed": (_BACKUP, _PRIMARY),
    "read_point": (_PRIMARY, _CLIENT),
}
"""Who sends a command to whom."""


def command_table() -> list[str]:
    """A row of Markdown per command, in the order of ``VsrCall``."""
    rows = ["| command | from | to | also called | what it says |", "|---|---|---|---|---|"]
    for kind in get_args(VsrCall):
        name = command_name(kind)
        sender, receiver = ROUTES[name]
        alias = f"`{ALIASES[name]}`" if name in ALIASES else ""
        says = (kind.__doc__ or "").split("\n", 1)[0].strip()
        rows.append(f"| `{name}` | {sender} | {receiver} | {alias} | {says} |")
    return rows


def case_table() -> list[str]:
    """A row of Markdown per case of the recovery table."""
    rows = ["| case | decision | why |", "|---|---|---|"]
    return rows + [f"| {c.letter} | `{c.decision.value}` | {c.why} |" for c in cases()]


def page() -> str:
    """The whole page."""
    return PAGE_TEXT.format(commands="\n".join(command_table()), cases="\n".join(case_table()))


if __name__ == "__main__":
    PAGE.write_text(page())
