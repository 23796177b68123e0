"""How a node speaks to the keeper: as a node of the cluster, and below ``/motet`` nobody else writes.

P1  Everything below ``/motet`` is created with ``NODES_ACL``: everybody reads it, nodes write it.
P2  In a tree that an earlier release has made everything is open. An operator closes it, from the leaves up
    and ``/motet`` last: where that is closed, all is.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import msgspec

from motet.client.keeper.client import KeeperClient
from motet.client.keeper.errors import NoAuth, NoNode
from motet.core.keeper.acl import NODE_SCHEME, NODES_ACL
from motet.core.metadata.paths import ROOT
from motet.format.zookeeper.sizes import WriteLimits
from motet.node.logs import logger


class KeeperAccess(msgspec.Struct, frozen=True):
    """Where the keeper is, and what proves to it that we are a node."""

    endpoints: str
    secret: bytes
    #: of the keeper: ``keeper.request_bytes_max``
    reply_bytes_max: int

    def __repr__(self) -> str:
        return f"KeeperAccess({self.endpoints!r})"

    @contextlib.asynccontextmanager
    async def session(self, timeout_ms: int) -> AsyncIterator[KeeperClient]:
        """A session of a node, from here to the end of the block."""
        limits = WriteLimits(reply_bytes_max=self.reply_bytes_max)
        async with KeeperClient(self.endpoints, timeout_ms=timeout_ms, limits=limits) as keeper:
            await keeper.add_auth(NODE_SCHEME, self.secret)
            yield keeper


async def close_tree(keeper: KeeperClient) -> None:
    """P2; costs one read where it is done already."""
    try:
        if (await keeper.get_acl(ROOT))[0] == NODES_ACL:
            return
        paths = [ROOT]
        for path in paths:  # grows while it is walked: parents first
            with contextlib.suppress(NoNode):
                paths += [f"{path}/{name}" for name in await keeper.children(path)]
        for path in reversed(paths):
            with contextlib.suppress(NoNode):
                await keeper.set_acl(path, NODES_ACL)
        logger.info("keeper_tree_closed", extra={"fields": {"root": ROOT, "nodes": len(paths)}})
    except NoAuth as error:
        fields = {"root": ROOT, "why": error.what, "hint": f"set the ACL of {ROOT} as its owner"}
        logger.warning("keeper_tree_not_closed", extra={"fields": fields})
