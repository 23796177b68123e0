"""The HTTP face of a node: is it alive, can it serve, what does it count, how is it.

It runs inside the node's own loop, so an answer is one look at plain data and never waits. There is no
access log. Every answer that is not 200 is JSON with a code, what happened and what to do.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Iterator

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from motet.errors import BadInput, MotetError, NodeError
from motet.node.logs import logger
from motet.node.metrics import CONTENT_TYPE, Metrics
from motet.node.status import NodeStatus

_LIST_OF_PATHS = "ask for /livez, /readyz, /metrics or /api/status"
_graceful_seconds_max = 1


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
    ) -> None:
        self._host, self._port = host, port
        self._app = make_app(metrics, status, not_serving)

    async def start(self) -> None:
        """Listen. ``NodeError`` when the port is taken."""
        try:
            family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
            listening = socket.create_server((self._host, self._port), family=family)
        except OSError as error:
            raise cannot_listen("HTTP", self._host, self._port, error) from None
        config = uvicorn.Config(
            self._app,
            http="h11",
            ws="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            timeout_graceful_shutdown=_graceful_seconds_max,
        )
        self._server = _Server(config)
        self._serving = asyncio.create_task(self._server.serve(sockets=[listening]))

    async def stop(self) -> None:
        """Finish the answers under way, then close."""
        self._server.should_exit = True
        await self._serving


def cannot_listen(what: str, host: str, port: int, error: OSError) -> NodeError:
    """The error for a port that cannot be had."""
    return NodeError(
        f"cannot listen at {host}:{port} for {what}: {os.strerror(error.errno or 0)}",
        hint="stop what runs there, or choose another node.port",
    )


class _Server(uvicorn.Server):
    """Leaves signals to the node."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Json(Response):
    media_type = "application/json"

    def render(self, content: object) -> bytes:
        return msgspec.json.encode(content, enc_hook=str)


def make_app(
    metrics: Metrics, status: Callable[[], NodeStatus], not_serving: Callable[[], list[str]]
) -> Starlette:
    """The routes."""

    async def livez(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(_: Request) -> Response:
        reasons = not_serving()
        return _Json({"ready": not reasons, "reasons": reasons}, 503 if reasons else 200)

    async def read_metrics(_: Request) -> Response:
        return Response(metrics.text(), media_type=CONTENT_TYPE)

    async def read_status(_: Request) -> Response:
        return _Json(status())

    return Starlette(
        routes=[
            Route("/livez", livez),
            Route("/readyz", readyz),
            Route("/metrics", read_metrics),
            Route("/api/status", read_status),
        ],
        exception_handlers={HTTPException: _refuse, Exception: _fail},
    )


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        what = f"there is nothing at {request.url.path}"
    else:
        what = f"{request.method} {request.url.path}: {error.detail}"
    return _error_answer(BadInput(what, hint=_LIST_OF_PATHS), error.status_code)


async def _fail(request: Request, error: Exception) -> Response:
    logger.error("http_failed", exc_info=error, extra={"fields": {"path": request.url.path}})
    return _error_answer(NodeError(f"{request.url.path} failed: {error!r}"), 500)


def _error_answer(error: MotetError, status_code: int) -> Response:
    answer = {"code": error.code, "what": error.what, "advice": error.advice}
    return _Json({"error": answer}, status_code)
