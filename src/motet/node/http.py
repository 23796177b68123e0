"""The HTTP face of a node: is it alive, can it serve, what does it count, how is it; and the bytes of parts.

It runs inside the node's own loop, so an answer is one look at plain data and never waits; files are read
and written in threads (:mod:`motet.node.part_routes`). There is no access log. Every answer that is an error
is JSON with a code, what happened and what to do.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from functools import partial

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from motet.errors import BadInput, MotetError, NodeError
from motet.limits import http_connections_max
from motet.node.http_answers import JsonAnswer, error_answer, status_code_of
from motet.node.http_connection import HttpConnections
from motet.node.http_hosts import HostCheck
from motet.node.listening import accept_failed, cannot_listen
from motet.node.logs import logger
from motet.node.metrics import CONTENT_TYPE, Metrics
from motet.node.part_routes import ServedParts
from motet.node.status import NodeStatus
from motet.real.admission import Acceptor, listen

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
        parts: ServedParts | None = None,
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
    parts: ServedParts | None = None,
) -> Starlette:
    """The routes; those of parts only where there are parts."""

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
            *([] if parts is None else parts.routes()),
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
