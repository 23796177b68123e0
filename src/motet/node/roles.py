"""The roles a node can have, and which of them this release can host."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from motet.errors import BadConfig, NodeError

KEEPER_ROLE = "keeper"
ROLES = (KEEPER_ROLE, "data", "operator")
"""Every role of the design."""

AVAILABLE_ROLES: tuple[str, ...] = (KEEPER_ROLE,)
"""Those that this release has."""


def check_roles(roles: Sequence[str]) -> None:
    """``BadConfig`` for a role that does not exist, ``NodeError`` for one that is not there yet."""
    for role in roles:
        if role not in ROLES:
            close = difflib.get_close_matches(role, ROLES, n=1)
            hint = f"did you mean {close[0]}?" if close else f"roles are {', '.join(ROLES)}"
            raise BadConfig(f"there is no role {role}", hint=hint)
        if role not in AVAILABLE_ROLES:
            raise NodeError(
                f"the role {role} is not part of this release",
                hint="start the node without it: every node keeps the cluster clock",
            )
