"""Every setting of a node: one tree of frozen structs, each key with its meaning and its bounds.

A setting comes from, in rising order, its default, ``motet.toml``, the environment
(``MOTET_SECTION__KEY``) and the command line; :mod:`motet.node.settings` finds it and remembers where
it came from. A key that does not exist is refused: a typing error must not become a default.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from motet.client.link import HTTP_PORT_OFFSET, ZOOKEEPER_PORT_OFFSET
from motet.errors import BadConfig
from motet.ids import NodeId
from motet.limits import keeper_reply_bytes_default
from motet.node.logs import LogFormat, LogLevel

KEEPER_ROLE = "keeper"
DATA_ROLE = "data"
OPERATOR_ROLE = "operator"
ROLES = (KEEPER_ROLE, DATA_ROLE, OPERATOR_ROLE)
"""Every role there is."""


def check_roles(roles: Sequence[str]) -> None:
    """``BadConfig`` for a role that does not exist."""
    for role in roles:
        if role not in ROLES:
            close = difflib.get_close_matches(role, ROLES, n=1)
            hint = f"did you mean {close[0]}?" if close else f"roles are {', '.join(ROLES)}"
            raise BadConfig(f"there is no role {role}", hint=hint)


_PORT_MAX = 65_535 - HTTP_PORT_OFFSET
_ADDRESS = r"^.+:[0-9]{1,5}$"
HIDDEN = "(hidden)"
"""What is shown of a secret."""

_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"


class NodeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[node]``: who this node is and where it lives."""

    id: Annotated[
        NodeId, Meta(pattern=_NAME, description="Name of the node in its cluster; never changes.")
    ] = NodeId("n0")
    cluster: Annotated[
        str, Meta(pattern=_NAME, description="Name of the cluster, the same on all its nodes.")
    ] = "motet"
    host: Annotated[
        str,
        Meta(min_length=1, description="Address to listen at; the default is this machine only."),
    ] = "127.0.0.1"
    port: Annotated[
        int,
        Meta(
            ge=1,
            le=_PORT_MAX,
            description="Base port: native protocol at +0, ZooKeeper's at +1, HTTP at +3.",
        ),
    ] = 7400
    data: Annotated[
        str, Meta(min_length=1, description="Folder of the node's files; one process at a time.")
    ] = "motet-data"
    roles: Annotated[
        tuple[str, ...], Meta(description="What the node does: keeper, data, operator.")
    ] = ROLES
    peers: Annotated[
        dict[NodeId, Annotated[str, Meta(pattern=_ADDRESS)]],
        Meta(description="All nodes of the cluster with their native addresses: id=host:port."),
    ] = {}


class ClusterSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[cluster]``: what its nodes share and nobody else knows."""

    key: Annotated[
        str,
        Meta(description="Secret that nodes prove to each other, the same on all; none: loopback."),
    ] = ""
    key_file: Annotated[
        str, Meta(description="File with that secret, instead of cluster.key; mode 0600.")
    ] = ""

    def __repr__(self) -> str:
        return f"ClusterSettings(key={HIDDEN if self.key else ''!r}, key_file={self.key_file!r})"


class KeeperSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[keeper]``: for nodes with the role keeper. The sizes never change after the first start."""

    members: Annotated[
        tuple[NodeId, ...],
        Meta(description="The nodes that keep the tree, at most 6; none: all of node.peers."),
    ] = ()
    format: Annotated[
        bool,
        Meta(description="Make the files of a keeper that has never been. Never if they are lost."),
    ] = False
    reads: Annotated[
        Literal["linearizable", "local"],
        Meta(description="local: from this node as it is, quick and possibly old."),
    ] = "linearizable"
    log_slots: Annotated[
        int,
        Meta(ge=64, description="Places in the log; each takes as much as the largest request."),
    ] = 2048
    checkpoint_ops: Annotated[
        int, Meta(ge=16, description="A checkpoint every so many requests.")
    ] = 1000
    request_bytes_max: Annotated[
        int, Meta(ge=4096, le=1 << 20, description="The largest batch of writes in one request.")
    ] = keeper_reply_bytes_default


class HttpSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[http]``: who may use the HTTP port."""

    allowed_hosts: Annotated[
        tuple[str, ...],
        Meta(
            description="Names besides node.host and loopback by which HTTP clients may call this node."
        ),
    ] = ()


class LogSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[log]``: what the node writes to stderr."""

    level: Annotated[LogLevel, Meta(description="The least severe lines to write.")] = "info"
    format: Annotated[
        LogFormat, Meta(description="text: key=value lines; json: one object per line.")
    ] = "text"


class DebugSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[debug]``: for finding faults; all of it costs speed."""

    invariants: Annotated[
        bool, Meta(description="Check the machines' invariants after every step.")
    ] = False
    trace: Annotated[
        str, Meta(description="File to which every step is recorded for a replay; empty: none.")
    ] = ""
    protocol: Annotated[
        str,
        Meta(
            description="File for the steps of shards, their metadata and the keeper's replica, "
            "for `motet verify trace`."
        ),
    ] = ""
    wall: Annotated[
        str,
        Meta(
            description="File with milliseconds by which the node's wall clock is wrong, "
            "for tests; empty: none."
        ),
    ] = ""


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All settings of a node."""

    node: NodeSettings = NodeSettings()
    cluster: ClusterSettings = ClusterSettings()
    keeper: KeeperSettings = KeeperSettings()
    http: HttpSettings = HttpSettings()
    log: LogSettings = LogSettings()
    debug: DebugSettings = DebugSettings()

    @property
    def http_port(self) -> int:
        return self.node.port + HTTP_PORT_OFFSET

    @property
    def zookeeper_port(self) -> int:
        return self.node.port + ZOOKEEPER_PORT_OFFSET
