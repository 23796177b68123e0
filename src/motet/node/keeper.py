"""The role keeper: a replica of the tree and a front end for ZooKeeper clients, as a node hosts them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec

from motet.core.keeper.acl import node_secret_hash
from motet.core.keeper.config import KeeperConfig
from motet.core.keeper.front.node import KeeperNode
from motet.core.keeper.messages import FrontEndConfig
from motet.core.vsr.config import Timeouts
from motet.core.vsr.divergence import divergence
from motet.core.vsr.messages import VsrCall
from motet.core.vsr.replica import Replica
from motet.core.vsr.state import Status
from motet.errors import BadConfig
from motet.format.frame import FrameKind
from motet.format.zookeeper.four_letter import ServerFacts
from motet.ids import Address, ClusterId, Op, ReplicaIndex
from motet.node.config import KEEPER_ROLE, Config
from motet.node.hosting import Hosting
from motet.node.replica_files import Format, Sizes
from motet.node.zookeeper.server import ZooKeeperServer
from motet.ports import Disk

KEEPER_MACHINE = KEEPER_ROLE
_members_max = 6


def keeper_format(config: Config) -> Format:
    """For whom the files of this node's replica are; ``BadConfig`` if it is no member."""
    own, settings = config.node.id, config.keeper
    members = settings.members or tuple(config.node.peers) or (own,)
    if own not in members:
        hint = "give the role keeper to members alone"
        raise BadConfig(f"keeper.members does not name this node, {own}", hint=hint)
    if len(members) > _members_max or len(dict.fromkeys(members)) != len(members):
        hint = f"name up to {_members_max} nodes, each once"
        raise BadConfig(f"a keeper cannot have these {len(members)} members", hint=hint)
    return Format(
        cluster=cluster_id(config.node.cluster),
        replica=ReplicaIndex(members.index(own)),
        members=tuple(map(Address, members)),
        sizes=Sizes(
            slots=settings.log_slots,
            checkpoint_ops=settings.checkpoint_ops,
            body_bytes_max=settings.request_bytes_max,
        ),
    )


def cluster_id(name: str) -> ClusterId:
    """The number under which the replicas of a cluster of this name know each other."""
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    return ClusterId(int.from_bytes(digest, "big") >> 1)


def host_keeper(
    wanted: Format,
    disk: Disk,
    local: ZooKeeperServer,
    *,
    keeper: KeeperConfig | None = None,
    timeouts: Timeouts = Timeouts(),  # noqa: B008 - it is frozen
    front: FrontEndConfig = FrontEndConfig(),  # noqa: B008 - it is frozen
    node_secret: bytes | None = None,
) -> Hosting[KeeperNode]:
    """This replica and its front end, which talks to the connections of ``local``.

    Who knows ``node_secret`` is a node of the cluster to it.
    """
    vsr = wanted.config(timeouts)
    known = msgspec.structs.replace(
        KeeperConfig() if keeper is None else keeper, reply_bytes_max=wanted.sizes.body_bytes_max
    )
    secret_hash = b"" if node_secret is None else node_secret_hash(node_secret)
    front = msgspec.structs.replace(front, node_secret_hash=secret_hash)
    return Hosting(
        name=KEEPER_MACHINE,
        kind=FrameKind.VSR,
        messages=VsrCall,
        machine=lambda: KeeperNode(vsr, wanted.replica, known, front),
        disk=disk,
        from_clients=frozenset(),  # they speak ZooKeeper's protocol, to a front end
        serving=lambda node: why_replica_does_not_serve(node.replica),
        describe=lambda node: {**describe_keeper(node), "connections": local.count},
        local=local,
    )


def why_replica_does_not_serve(replica: Replica) -> str | None:
    """In which of its troubles it is; None for one that takes part in a view with its state at hand."""
    state = replica.core.state
    if state.status is Status.REFUSED:
        return state.refusal
    if state.status is not Status.NORMAL:
        return f"it is {state.status.value}"
    if state.restore is not None or replica.core.is_syncing:
        return "it reads its checkpoint"
    return None


def describe_replica(replica: Replica) -> Mapping[str, object]:
    """Where it is, and what it has lost and not got back yet."""
    core, state = replica.core, replica.core.state
    return {
        "replica": state.own,
        "status": state.status.value,
        "view": state.view,
        "is_primary": core.is_primary,
        "op": state.op,
        "commit_min": state.commit_min,
        "commit_max": state.commit_max,
        "checkpoint_op": core.checkpoint_op,
        "diverged": divergence(core),
        "sessions": len(state.sessions.by_client),
        "sessions_reserved": sum(one.is_reserved for one in state.sessions.by_client.values()),
        "prepares_faulty": sum(
            state.journal.is_faulty(Op(op)) for op in range(core.checkpoint_op + 1, state.op + 1)
        ),
        "replies_faulty": len(state.replies_faulty),
        "blocks_faulty": len(state.blocks_faulty),
        "is_disk_full": state.is_disk_full,
        "dropped": dict(state.counts),
    }


def describe_keeper(node: KeeperNode) -> Mapping[str, object]:
    """The replica, and how much it keeps."""
    counts = node.keeper.counts()
    return {
        **describe_replica(node.replica),
        "zxid": node.keeper.zxid,
        "nodes": counts.nodes,
        "ephemerals": counts.ephemerals,
        "tree_bytes": counts.tree_bytes,
        "client_sessions": counts.sessions,
        "watches": node.front.context.state.watches.count,
    }


def server_facts(
    config: Config, node: KeeperNode, server: ZooKeeperServer, uptime_ms: int
) -> ServerFacts:
    """What the four-letter words tell."""
    counts, core = node.keeper.counts(), node.replica.core
    watches = node.front.context.state.watches
    mode = "standalone" if core.is_solo else "leader" if core.is_primary else "follower"
    return ServerFacts(
        mode=mode,
        zxid=node.keeper.zxid,
        is_serving=why_replica_does_not_serve(node.replica) is None,
        traffic=server.traffic(),
        connections=server.connection_facts(),
        node_count=counts.nodes,
        data_bytes=counts.tree_bytes,
        session_count=counts.sessions,
        sessions=tuple(node.keeper.sessions().items()),
        ephemerals=tuple(pair for pair in node.keeper.ephemerals().items() if pair[1]),
        ephemeral_count=counts.ephemerals,
        watch_count=watches.count,
        watched_path_count=len({path for _, path in watches.by_path}),
        watching_connection_count=len(watches.by_connection),
        uptime_ms=uptime_ms,
        configuration=(
            ("clientPort", str(config.zookeeper_port)),
            ("dataDir", config.node.data),
            ("minSessionTimeout", str(node.keeper.config.timeout_ms_min)),
            ("maxSessionTimeout", str(node.keeper.config.timeout_ms_max)),
            ("serverId", str(core.own)),
        ),
    )
