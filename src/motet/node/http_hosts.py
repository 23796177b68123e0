"""Who may speak to the HTTP port of a node: not a web page that has found a way to it.

A page from anywhere can have its reader's browser ask a server on the reader's own machine, by a name that it
lets point there. So:

H1  ``Host`` is one that means this node: a name or address of loopback, ``node.host``, the host by which
    ``node.peers`` knows the node, the address the connection came to, or one of ``http.allowed_hosts``.
    Else 421.
H2  A request with ``Origin`` comes from a page. It is refused with 403, unless the page is ours.
"""

from __future__ import annotations

import ipaddress

from starlette.types import ASGIApp, Receive, Scope, Send

from motet.errors import BadInput
from motet.node.config import Config
from motet.node.http_answers import error_answer

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
