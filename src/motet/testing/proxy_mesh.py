"""Links between the nodes of a local cluster that can be cut, in one direction or both.

The links of some nodes go through a :class:`motet.testing.fault_proxy.FaultProxy` each way, one for each pair
of who dials and whom. Clients are not concerned: they reach the nodes past all proxies.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from motet.errors import BadInput
from motet.testing.fault_proxy import FaultProxy
from motet.testing.proxy_lane import ProxyMode


class ProxyMesh:
    """Proxies for the links of the nodes in ``proxied``, from ``open`` to ``close``."""

    def __init__(self, proxied: Sequence[int]) -> None:
        self._proxied = tuple(proxied)
        self._opened = contextlib.ExitStack()
        #: (who dials, whom) -> the proxy between them
        self._proxies: dict[tuple[int, int], FaultProxy] = {}

    def open(self, endpoints: Sequence[str]) -> None:
        """Listen in front of these nodes, each at ``host:port``."""
        for i in self._proxied:
            for j in range(len(endpoints)):
                for pair in ((i, j), (j, i)):
                    if i != j and pair not in self._proxies:
                        proxy = FaultProxy(endpoints[pair[1]])
                        self._proxies[pair] = self._opened.enter_context(proxy)

    def close(self) -> None:
        self._opened.close()
        self._proxies = {}

    def endpoint(self, dialer: int, other: int, direct: str) -> str:
        """Where one node reaches another."""
        proxy = self._proxies.get((dialer, other))
        return direct if proxy is None else proxy.endpoint

    def isolate(self, i: int, mode: ProxyMode | None = None) -> None:
        """Swallow what the other nodes and this one say to each other, or do as ``mode`` says."""
        lost = ProxyMode(to_target=False, to_client=False) if mode is None else mode
        for proxy in self._links(i):
            proxy.set_mode(lost)

    def heal(self, i: int) -> None:
        """Let everything pass again."""
        for proxy in self._links(i):
            proxy.heal()

    def deafen(self, i: int) -> None:
        """Let this node speak to the others, and hear nothing from them."""
        self._one_way(i, is_heard=True)

    def mute(self, i: int) -> None:
        """Let this node hear the others, and not be heard."""
        self._one_way(i, is_heard=False)

    def _one_way(self, i: int, *, is_heard: bool) -> None:
        self._links(i)
        for (dialer, other), proxy in self._proxies.items():
            if i in (dialer, other):
                # What the one who dialed says, goes to the target.
                is_forward = (dialer == i) == is_heard
                proxy.one_way("to_target" if is_forward else "to_client")

    def _links(self, i: int) -> list[FaultProxy]:
        if i not in self._proxied:
            raise BadInput(f"there is no proxy before node {i}", hint="name it in `proxied`")
        return [proxy for pair, proxy in self._proxies.items() if i in pair]
