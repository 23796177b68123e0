"""The HTTP face of a node: is it alive, can it serve, what does it count, how is it; and the bytes of parts.

It runs inside the node's own loop, so an answer is one look at plain data and never waits; files are read
and written in threads (:mod:`motet.node.table_routes`). There is no access log. Every answer that is an error
is JSON with a code, what happened and what to do.

A page from anywhere can have its reader's browser ask a server on the reader's own machine, by a name that it
lets point there. So:

H1  ``Host`` is one that means this node: a name or address of loopback, ``node.host``, the host by which
    ``node.peers`` knows the node, the address the connection came to, or one of ``http.allowed_hosts``.
    Else 421.
H2  A request with ``Origin`` comes from a page. It is refused with 403, unless the page is ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from motet.errors import (
    BadInput,
    DiskFull,
    MotetError,
    NodeError,
    ObjectExists,
    ObjectMissing,
    TooLarge,
)
from motet.limits import http_connections_max
from motet.node.config import Config
from motet.node.http_connection import HttpConnections
from motet.node.logs import accept_failed, cannot_listen, logger
from motet.node.status import CONTENT_TYPE, Metrics, NodeStatus
from motet.real.admission import Acceptor, listen

_STATUS_CODES: tuple[tuple[type[MotetError], int], ...] = (
    (TooLarge, 413),
    (BadInput, 400),
    (ObjectMissing, 404),
    (ObjectExists, 409),
    (DiskFull, 507),
)
"""The first that fits; whatever is not the caller's doing is a 500."""


class JsonAnswer(Response):
    """Anything that can be JSON."""

    media_type = "application/json"

    def render(self, content: object) -> bytes:
        return msgspec.json.encode(content, enc_hook=str)


def status_code_of(error: MotetError) -> int:
    """The HTTP status for an error of ours."""
    for kind, status_code in _STATUS_CODES:
        if isinstance(error, kind):
            return status_code
    return 500


def error_answer(
    error: MotetError, status_code: int | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    """The answer that says what went wrong."""
    answer = {"code": error.code, "what": error.what, "advice": error.advice}
    code = status_code_of(error) if status_code is None else status_code
    return JsonAnswer({"error": answer}, code, headers)


_LOOPBACK_NAME = "localhost"


def allowed_hosts(config: Config) -> frozenset[str]:
    """The hosts, in lower case and without brackets, that mean this node besides those of loopback."""
    settings = config.node
    hosts = {settings.host, *config.http.allowed_hosts}
    own = settings.peers.get(settings.id)
    if own is not None:
        hosts.add(own.rpartition(":")[0])
    return frozenset(_bare(host) for host in hosts)


class HostCheck:
    """Lets through to ``app`` what is meant for this node (H1, H2)."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str]) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
            host, origin = headers.get(b"host"), headers.get(b"origin")
            refusal = None
            if host is not None and not self._is_ours(host, scope.get("server")):
                refusal = _not_this_host(host), 421
            elif origin is not None and origin.lower() != f"http://{host}".lower():
                refusal = _a_page(origin), 403
            if refusal is not None:
                answer = error_answer(*refusal, headers={"connection": "close"})
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _is_ours(self, host: str, server: tuple[str, int] | None) -> bool:
        name = _bare(_without_port(host))
        return (
            name == _LOOPBACK_NAME
            or name in self._hosts
            or _is_loopback(name)
            or (server is not None and name == _bare(server[0]))
        )


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0]
    return host.partition(":")[0]


def _bare(host: str) -> str:
    return host.strip().removeprefix("[").removesuffix("]").lower().removesuffix(".")


def _is_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _not_this_host(host: str) -> BadInput:
    return BadInput(
        f"this node does not answer for the host {host[:200]!r}",
        hint="add that name to http.allowed_hosts in motet.toml if it means this node",
    )


def _a_page(origin: str) -> BadInput:
    return BadInput(
        f"pages of {origin[:200]!r} may not use this node",
        hint="ask from a program, or from a page under one of http.allowed_hosts that this node serves",
    )


_LIST_OF_PATHS = "ask for /livez, /readyz, /metrics or /api/status"
_graceful_seconds_max = 1
_idle_seconds_max = 60
"""How long a connection is kept on which nothing is asked: readers of parts pause to work."""


class HttpServer:
    """Serves between ``start`` and ``stop``."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        metrics: Metrics,
        status: Callable[[], NodeStatus],
        not_serving: Callable[[], list[str]],
        parts: Sequence[Route] = (),
        connections_max: int = http_connections_max,
        hosts: frozenset[str] = frozenset(),
    ) -> None:
        self._host, self._port = host, port
        self._app = HostCheck(make_app(metrics, status, not_serving, parts), hosts)
        self.connections = HttpConnections(connections_max)

    async def start(self, listening: socket.socket | None = None) -> None:
        """Listen, unless somebody does so already for us. ``NodeError`` when the port is taken."""
        sockets = [] if listening is None else [listening]
        if listening is None:
            try:
                sockets = listen(self._host, self._port)
            except OSError as error:
                raise cannot_listen("HTTP", self._host, self._port, error) from None
        protocol = self.connections.protocol()
        config = uvicorn.Config(
            self._app,
            http=protocol,
            ws="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            timeout_keep_alive=_idle_seconds_max,
        )
        config.load()
        self._server = _Server(config)
        self._serving = asyncio.create_task(self._server.serve(sockets=[]))
        state = self._server.server_state
        self._acceptor = Acceptor(
            sockets,
            lambda: protocol(config=config, server_state=state, app_state={}),
            partial(accept_failed, "http"),
        )
        self._acceptor.start()

    async def stop(self) -> None:
        """Finish the answers under way, but do not wait for ever for whoever takes them; then close."""
        self._acceptor.close()
        self._server.should_exit = True
        await asyncio.wait([self._serving], timeout=_graceful_seconds_max)
        if not self._serving.done():
            for connection in list(self._server.server_state.connections):
                if connection.transport is not None:
                    connection.transport.abort()
        await self._serving


class _Server(uvicorn.Server):
    """Leaves signals to the node."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def make_app(
    metrics: Metrics,
    status: Callable[[], NodeStatus],
    not_serving: Callable[[], list[str]],
    parts: Sequence[Route] = (),
) -> Starlette:
    """The routes; ``parts`` are those of parts, where there are parts."""

    async def livez(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(_: Request) -> Response:
        reasons = not_serving()
        return JsonAnswer({"ready": not reasons, "reasons": reasons}, 503 if reasons else 200)

    async def read_metrics(_: Request) -> Response:
        return Response(metrics.text(), media_type=CONTENT_TYPE)

    async def read_status(_: Request) -> Response:
        return JsonAnswer(status())

    app = Starlette(
        routes=[
            Route("/livez", livez),
            Route("/readyz", readyz),
            Route("/metrics", read_metrics),
            Route("/api/status", read_status),
            *parts,
        ],
        exception_handlers={HTTPException: _refuse, MotetError: _say, Exception: _fail},
    )
    app.router.redirect_slashes = False  # there is nothing at a path that is nearly right
    return app


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        what = f"there is nothing at {request.url.path}"
    else:
        what = f"{request.method} {request.url.path}: {error.detail}"
    return error_answer(BadInput(what, hint=_LIST_OF_PATHS), error.status_code)


async def _say(request: Request, error: Exception) -> Response:
    assert isinstance(error, MotetError)
    if status_code_of(error) >= 500:
        fields = {"path": request.url.path, "why": str(error)}
        logger.error("http_failed", extra={"fields": fields})
    return error_answer(error)


async def _fail(request: Request, error: Exception) -> Response:
    logger.error("http_failed", exc_info=error, extra={"fields": {"path": request.url.path}})
    return error_answer(NodeError(f"{request.url.path} failed: {error!r}"), 500)
