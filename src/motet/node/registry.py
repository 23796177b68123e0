"""How a node is known to the others: which of its lives this is, and its entry in the keeper.

A node speaks to the keeper as a node of the cluster, and nobody else writes below ``/motet``:

P1  Everything below ``/motet`` is created with ``NODES_ACL``: everybody reads it, nodes write it.
P2  In a tree that an earlier release has made everything is open. An operator closes it, from the leaves up
    and ``/motet`` last: where that is closed, all is.

The *incarnation* is a number that rises with each process of a node's id. It is the time at which the process
was started, in milliseconds, as long as that rises. The last one is kept in the node's folder: if the wall
was set back between two starts, the later process still has the higher number; else peers and the keeper's
list of nodes would not let it take the place of the earlier one. Two processes that are started at the same
time in folders of their own may have the same number; to peers a node greets with random bits after it.

I1  A number is on disk before anybody hears of it, and no later process of this folder has it or a lower one.
    Only a full disk is no reason not to start: then the wall decides once more.

The *entry*, ``/motet/nodes/<id>``, is ephemeral and says what the node does, where it is, and its
incarnation. It belongs to a session of the node's own; when that has expired, because the node was cut off
for long, it begins a new one and enters itself again. An entry that an earlier life has left is replaced, one
of a later is let be:

R1  The entry of an id is that of its latest life: the one with the highest incarnation.
R2  A node is not ready before it has entered itself: nobody would place anything on it, and a stream that is
    created meanwhile would have fewer replicas than there are nodes. But a node can do without a keeper, so
    it is not waited for any longer than for one that is starting, too.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from motet.client.keeper.client import KeeperClient
from motet.client.keeper.errors import NoAuth, NodeExists, NoNode
from motet.client.keeper.watches import Watch
from motet.client.link import HTTP_PORT_OFFSET, ZOOKEEPER_PORT_OFFSET, parse_endpoint
from motet.core.keeper.acl import NODE_SCHEME, NODES_ACL
from motet.core.metadata.paths import NODES, ROOT
from motet.errors import MotetError
from motet.format.frame import UNDECODABLE
from motet.format.zookeeper.sizes import WriteLimits
from motet.ids import NodeId
from motet.node.config import Config
from motet.node.logs import logger
from motet.real.durable import FULL, replace_file


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


INCARNATION_FILE = "incarnation"

incarnation_max = (1 << 43) - 1
"""Beyond it is nonsense: in milliseconds, the year 2248."""


def next_incarnation(folder: Path, wall_ms: int) -> int:
    """The number of the process that starts now, which holds the folder's lock."""
    path = folder / INCARNATION_FILE
    number = max(_last(path) + 1, wall_ms)
    try:
        replace_file(path, f"{number}\n".encode())
    except OSError as error:
        if error.errno not in FULL:
            raise
        logger.warning("incarnation_not_kept", extra={"fields": {"why": error.strerror}})
    return number


def _last(path: Path) -> int:
    """The last one; -1 if there was none. What is damaged is replaced: the wall alone decides then."""
    try:
        number = int(path.read_bytes()[:32])
    except FileNotFoundError:
        return -1
    except ValueError:
        number = -1
    if 0 <= number < incarnation_max:
        return number
    fields = {"file": str(path), "hint": "nothing, unless the wall of this machine was set back"}
    logger.warning("incarnation_damaged", extra={"fields": fields})
    return -1


again_seconds = 0.2
"""How long to wait before another attempt."""

entry_seconds_max = 5.0
"""How long a node is not ready because it has not entered itself."""

look_seconds = 2.0
silent_seconds_max = 8.0
"""How often a node looks whether the keeper answers, and for how long it may not."""

leave_seconds_max = 2.0
session_ms = 10_000


class Entry(msgspec.Struct, frozen=True):
    """What a node says of itself."""

    id: NodeId
    roles: tuple[str, ...]
    native: str
    zookeeper: str
    http: str
    #: which life this is: when it began, in milliseconds since 1970, or one more than the last
    incarnation: int


class Registry:
    """Enters a node, from ``start`` to ``stop``."""

    def __init__(self, config: Config, access: KeeperAccess, incarnation: int) -> None:
        host, port = config.node.host, config.node.port
        self.entry = Entry(
            id=config.node.id,
            roles=config.node.roles,
            native=f"{host}:{port}",
            zookeeper=f"{host}:{port + ZOOKEEPER_PORT_OFFSET}",
            http=f"{host}:{port + HTTP_PORT_OFFSET}",
            incarnation=incarnation,
        )
        self._path = f"{NODES}/{config.node.id}"
        self._access = access
        self._has_entered = False
        #: when the keeper last answered, by the loop's clock
        self._answered_seconds = 0.0

    def not_entered(self) -> list[str]:
        """Why this life is not known to the others yet, or the keeper has no quorum for it."""
        now = asyncio.get_running_loop().time()
        if self._has_entered:
            silent_seconds = now - self._answered_seconds
            if silent_seconds <= silent_seconds_max:
                return []
            return [f"keeper: no quorum has answered for {silent_seconds:.0f} s"]
        if now - self._started_seconds > entry_seconds_max:
            return []
        return ["registry: not entered in the keeper yet"]

    def start(self) -> None:
        self._started_seconds = asyncio.get_running_loop().time()
        self._task = asyncio.get_running_loop().create_task(self._stay_entered())

    async def stop(self) -> None:
        """Leave. The entry goes with the session, at once if the keeper can be reached soon."""
        self._task.cancel()
        await asyncio.wait([self._task], timeout=leave_seconds_max)

    async def _stay_entered(self) -> None:
        while True:
            try:
                async with self._access.session(session_ms) as keeper:
                    while True:
                        lost = await self._enter(keeper)
                        self._has_entered = True
                        await self._watch(keeper, lost)
            except MotetError as error:
                logger.info("not_registered", extra={"fields": {"why": error.what}})
            await asyncio.sleep(again_seconds)

    async def _watch(self, keeper: KeeperClient, lost: Watch) -> None:
        """Look at the entry now and then, until it may be gone: each answer needs a quorum of the keeper."""
        gone = asyncio.get_running_loop().create_task(lost.wait())
        try:
            while not gone.done():
                with contextlib.suppress(MotetError):  # a session that is over ends the watch
                    await keeper.exists(self._path, seconds=silent_seconds_max)
                    self._answered_seconds = asyncio.get_running_loop().time()
                await asyncio.wait([gone], timeout=look_seconds)
            await gone
        finally:
            gone.cancel()

    async def _enter(self, keeper: KeeperClient) -> Watch:
        """See to it that the entry is there; what fires when it may no longer be."""
        await keeper.ensure_path(NODES, acl=NODES_ACL)
        while True:
            with contextlib.suppress(NodeExists):
                data = msgspec.json.encode(self.entry)
                await keeper.create(self._path, data, acl=NODES_ACL, ephemeral=True)
                logger.info("registered", extra={"fields": {"path": self._path}})
            watch = Watch()
            try:
                data, stat = await keeper.get(self._path, watch)
                if stat.ephemeral_owner == keeper.session or not self._is_older(data):
                    return watch
                await keeper.delete(self._path, stat.version)
            except NoNode:
                continue

    def _is_older(self, data: bytes) -> bool:
        """Whether this is the entry of an earlier life (R1), or none at all."""
        try:
            return msgspec.json.decode(data, type=Entry).incarnation < self.entry.incarnation
        except UNDECODABLE:
            return True


def keeper_endpoints(config: Config) -> str:
    """Where the members of the keeper speak ZooKeeper's protocol, as this node reaches them."""
    node = config.node
    peers = dict(node.peers) or {node.id: f"{node.host}:{node.port}"}
    members = config.keeper.members or tuple(peers)
    # The own front end first: it is the nearest, and fails only together with the node.
    in_order = sorted(members, key=lambda member: member != node.id)
    places = (parse_endpoint(peers[member]) for member in in_order)
    return ",".join(f"{host}:{port + ZOOKEEPER_PORT_OFFSET}" for host, port in places)
