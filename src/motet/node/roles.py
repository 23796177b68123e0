"""The roles a node can have."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from motet.errors import BadConfig

KEEPER_ROLE = "keeper"
DATA_ROLE = "data"
OPERATOR_ROLE = "operator"
ROLES = (KEEPER_ROLE, DATA_ROLE, OPERATOR_ROLE)
"""Every role there is."""


def check_roles(roles: Sequence[str]) -> None:
    """``BadConfig`` for a role that does not exist."""
    for role in roles:
        if role not in ROLES:
            close = difflib.get_close_matches(role, ROLES, n=1)
            hint = f"did you mean {close[0]}?" if close else f"roles are {', '.join(ROLES)}"
            raise BadConfig(f"there is no role {role}", hint=hint)
