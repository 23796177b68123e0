"""Requests to one HTTP server, from any threads, over connections that are used again.

Only requests that may be made twice belong here: one over a connection that the server has closed in the
meantime is made again over a new one. Connections are kept in a pool and not per thread, since the threads
of other libraries come and go.

It blocks. ``Unreachable`` says that nothing was sent, ``ConnectionLost`` that an answer did not come, or
not all of it.
"""

from __future__ import annotations

import contextlib
import http.client
import threading
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from motet.errors import BadInput

silence_seconds_max = 30.0
"""How long nothing may come before a connection counts as lost; a node syncs a large file meanwhile."""

connections_idle_max = 8

_ended = (OSError, http.client.HTTPException)


class Unreachable(Exception):
    """Nothing listens there: nothing was sent."""


class ConnectionLost(Exception):
    """The connection broke: what was asked for may have been done."""

    def __init__(self, what: str, *, by_peer: bool = False) -> None:
        super().__init__(what)
        #: the other side ended it; it was not we who lost patience
        self.by_peer = by_peer


class HttpAnswer:
    """An answer whose body is yet to be read; it belongs to the block of its ``ask``."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response
        self.status = response.status

    def header(self, name: str) -> str:
        return self._response.headers.get(name, "")

    @property
    def left_bytes(self) -> int:
        """How much of the body is still to come; -1 when the server does not say."""
        length = self._response.length
        return -1 if length is None else length

    def read(self, size_bytes: int) -> bytes:
        """Some bytes of the body, at most so many; none at its end."""
        try:
            data = self._response.read(size_bytes)
        except http.client.IncompleteRead as cut:
            data = cut.partial
        except _ended as error:
            raise _lost(error) from None
        if not data and self._response.length:
            raise ConnectionLost("the connection ended inside the answer", by_peer=True)
        return data

    def read_all(self, size_bytes_max: int) -> bytes:
        """The whole body; ``ConnectionLost`` when it is longer than anything we asked for."""
        body = b""
        while data := self.read(size_bytes_max + 1 - len(body)):
            body += data
            if len(body) > size_bytes_max:
                raise ConnectionLost(f"the answer is longer than {size_bytes_max} bytes")
        return body


class HttpCalls:
    """A server at ``http://host:port``; ``close`` ends the idle connections."""

    def __init__(self, base_url: str) -> None:
        parts = urlsplit(base_url)
        if parts.scheme != "http" or not parts.hostname or parts.port is None or parts.path:
            raise BadInput(f"{base_url!r} is no address", hint="write it as http://127.0.0.1:7403")
        self.base_url = base_url
        self._host, self._port = parts.hostname, parts.port
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []
        self._is_closed = False

    @contextlib.contextmanager
    def ask(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Iterator[HttpAnswer]:
        """Send a request; the block has its answer, and reads of its body what it wants."""
        connection, response = self._exchange(method, path, dict(headers or {}), body)
        is_done = False
        try:
            yield HttpAnswer(response)
            is_done = response.isclosed() and not response.will_close
        finally:
            if is_done:
                self._give_back(connection)
            else:
                response.close()  # it holds the socket too, when it is to be the last
                connection.close()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _exchange(
        self, method: str, path: str, headers: dict[str, str], body: bytes | None
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        while (used := self._take_idle()) is not None:
            try:
                return used, _send(used, method, path, headers, body)
            except ConnectionLost as lost:
                if not lost.by_peer:
                    raise
                # Most likely the server had closed it while it was idle: once more, over another.
        connection = http.client.HTTPConnection(self._host, self._port, timeout=silence_seconds_max)
        try:
            connection.connect()
        except OSError as error:
            connection.close()
            raise Unreachable(error.strerror or str(error) or "silence") from None
        return connection, _send(connection, method, path, headers, body)

    def _take_idle(self) -> http.client.HTTPConnection | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _give_back(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if not self._is_closed and len(self._idle) < connections_idle_max:
                self._idle.append(connection)
                return
        connection.close()


def _send(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    headers: dict[str, str],
    body: bytes | None,
) -> http.client.HTTPResponse:
    was_cut = False
    try:
        try:
            connection.request(method, path, body=body, headers=headers)
        except (BrokenPipeError, ConnectionResetError):
            # A server that refuses a body may close before it has read all of it: the answer says why.
            was_cut = True
        response = connection.getresponse()
    except _ended as error:
        connection.close()
        raise _lost(error) from None
    except BaseException:
        connection.close()
        raise
    response.will_close = response.will_close or was_cut
    return response


def _lost(error: BaseException) -> ConnectionLost:
    what = str(error) or type(error).__name__
    return ConnectionLost(what, by_peer=isinstance(error, ConnectionError))
