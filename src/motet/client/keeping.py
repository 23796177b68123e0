"""What is kept of the feed, and for whom: named cursors and pruning, as a part of a database's face.

An embedded database keeps everything in this release; a cluster does as it is told.
"""

from __future__ import annotations

from datetime import timedelta

from motet.client.cursor import parse_cursor
from motet.client.named_cursor import NamedCursor, pruned_up_to
from motet.client.rows import stream_names
from motet.core.clock.hlc import ZERO, Clock
from motet.errors import NodeError


class Keeping:
    """The part of the face."""

    async def save_cursor(self, name: str, cursor: str) -> None:
        """Keep what is behind a cursor until it is saved again, further on, or dropped."""
        at = parse_cursor(cursor)
        raise _not_embedded(f"named cursor {name!r} of {', '.join(at.streams)}")

    async def drop_cursor(self, name: str) -> None:
        """Keep nothing for a named cursor any more; one that is not there is fine."""
        raise _not_embedded(f"named cursor {name!r}")

    async def cursors(self) -> list[NamedCursor]:
        """All named cursors, by name."""
        return []

    async def prune(
        self,
        *streams: str,
        older_than: timedelta | None = None,
        up_to: Clock | None = None,
        force: bool = False,
    ) -> Clock:
        """Forget the feed of these streams up to a clock, or what is older than so long; the horizon then.

        ``CursorInTheWay`` if a named cursor has not read that yet, unless it is forced.
        """
        names, how = stream_names(streams), "by force" if force else "up to a clock"
        pruned_up_to(ZERO, older_than, up_to)
        raise _not_embedded(f"pruning of {', '.join(names)} {how}")

    async def horizon(self, *streams: str) -> Clock:
        """Everything of these streams up to this clock is pruned; zero: nothing."""
        stream_names(streams)
        return ZERO


def _not_embedded(what: str) -> NodeError:
    return NodeError(
        f"an embedded database keeps its whole feed in this release, there is no {what}",
        hint="use a cluster: `motet dev`",
    )
