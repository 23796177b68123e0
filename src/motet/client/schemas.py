"""The schemas of streams, as far as this client knows them.

A stream keeps its schema for ever, but another stream may have its name one day: what is known follows the
map of a cluster. A stream that is not known is asked for when it is first needed: nothing is written to it
before its schema is known, or known to be none.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import NamedTuple

from motet.client.calls import Calls
from motet.core.onelog.messages import Describe, Described, StreamInfo
from motet.errors import MissingLibrary, NodeError, NoSuchStream, OutcomeUnknown
from motet.ids import StreamName


class StreamSchema(NamedTuple):
    """A stream and its schema, as its IPC bytes; None for rows of JSON."""

    name: StreamName
    schema: bytes | None


class Schemas:
    """The schemas of the streams of one database."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._known: dict[StreamName, bytes | None] = {}

    def learn(self, streams: Iterable[StreamInfo]) -> None:
        """A node has said what these streams are."""
        for info in streams:
            self._known[info.name] = info.schema

    def replace(self, streams: Iterable[StreamInfo]) -> None:
        """These are all the streams that there are."""
        self._known = {info.name: info.schema for info in streams}

    def knows(self, name: StreamName) -> bool:
        return name in self._known

    def known(self, name: StreamName) -> bytes | None:
        """The schema of a stream that is known."""
        return self._known[name]

    async def look_for(self, *names: StreamName) -> None:
        """Ask for those that are not known; a stream that is not there stays unknown."""
        if all(map(self.knows, names)):
            return
        try:
            self.learn((await self._calls.repeated(Describe, Described)).streams)
        except OutcomeUnknown as error:
            # Nothing is unknown to whoever was about to write: it has not been sent.
            raise NodeError(
                f"the streams of {self._calls.name} cannot be asked for: {error.what}",
                hint="nothing was changed; try again",
            ) from None

    async def of(self, name: StreamName) -> bytes | None:
        """The schema of a stream; ``NoSuchStream`` if there is none of that name."""
        await self.look_for(name)
        if not self.knows(name):
            raise NoSuchStream(f"there is no stream {name!r}")
        return self._known[name]

    def encoded(self, schema: object | None, stream: StreamName) -> bytes | None:
        """The schema of a stream to be created, as it is kept; None for rows of JSON."""
        if schema is None:
            return None
        need_pyarrow("a stream with a schema")
        from motet.columnar.schema import decode_schema, encode_schema

        data = encode_schema(schema, what=f"stream {stream!r}")
        there = self._known.get(stream)
        # Another version of Arrow may have written the same schema in other bytes.
        same = there is not None and decode_schema(there) == decode_schema(data)
        return there if same else data


def need_pyarrow(what: str) -> None:
    """``MissingLibrary`` if it is not installed; ``what`` cannot do without it."""
    try:
        import_module("pyarrow")
    except ImportError:
        raise MissingLibrary(
            f"{what} needs pyarrow, which is not installed",
            hint="install it, for instance with `pip install motet[sql]`",
        ) from None
