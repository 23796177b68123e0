"""What queries in SQL are refused for. Their place in the tree: ``motet.errors``."""

from __future__ import annotations

from motet.errors import MotetError


class QueryStopped(MotetError):
    """A query went beyond its bound of time or memory, and was stopped; nothing was changed."""

    code = "QUERY_STOPPED"
    hint = "ask for less, or give it more time or memory"
