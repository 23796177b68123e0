"""Named cursors and pruning without an event loop."""

from __future__ import annotations

from datetime import timedelta

from motet.client.keeping import Keeping
from motet.client.named_cursor import NamedCursor
from motet.client.portal import Portal
from motet.core.clock.hlc import Clock


class SyncKeeping:
    """A part of the face of a database."""

    _portal: Portal
    _inner: Keeping

    def save_cursor(self, name: str, cursor: str) -> None:
        """Keep what is behind a cursor until it is saved again, further on, or dropped."""
        self._portal.call(self._inner.save_cursor, name, cursor)

    def drop_cursor(self, name: str, *streams: str) -> None:
        """Keep nothing for a named cursor any more, or nothing of these streams; it need not be there."""
        self._portal.call(self._inner.drop_cursor, name, *streams)

    def cursors(self) -> list[NamedCursor]:
        """All named cursors, by name."""
        return self._portal.call(self._inner.cursors)

    def prune(
        self,
        *streams: str,
        older_than: timedelta | None = None,
        up_to: Clock | None = None,
        force: bool = False,
    ) -> Clock:
        """Forget the feed of these streams up to a clock, or what is older than so long; the horizon then.

        ``CursorInTheWay`` if a named cursor has not read that yet, unless it is forced.
        """
        return self._portal.call(
            self._inner.prune, *streams, older_than=older_than, up_to=up_to, force=force
        )

    def horizon(self, *streams: str) -> Clock:
        """Everything of these streams up to this clock is pruned; zero: nothing."""
        return self._portal.call(self._inner.horizon, *streams)
