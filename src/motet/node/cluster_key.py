"""The cluster key of a node: found in its settings or in the file that they name."""

from __future__ import annotations

import hashlib
import stat
from pathlib import Path

from motet.errors import BadConfig
from motet.node.config import Config
from motet.node.logs import logger
from motet.real.hello import ClusterKey, Refusal

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_HINTS = {
    Refusal.UNPROVEN: "give all nodes the same cluster.key or cluster.key_file; a stranger is harmless",
    Refusal.NOT_LOOPBACK: "without a cluster key nodes are on one machine: set cluster.key_file on all",
    Refusal.DUPLICATE: "two processes have this node.id: stop one, or give it an id of its own",
    Refusal.WRONG_ADDRESS: "check node.id and node.peers on both sides",
    Refusal.WRONG_CLUSTER: "check node.cluster on both sides",
}
"""What to do when a connection was closed for this; the other reasons are nobody's configuration."""


def load_cluster_key(config: Config) -> ClusterKey | None:
    """The key; None if there is none. ``BadConfig`` for one that cannot be read or is too short."""
    settings = config.cluster
    if settings.key:
        return ClusterKey(settings.key)
    if not settings.key_file:
        return None
    path = Path(settings.key_file)
    try:
        text = path.read_text("utf-8").strip()
        if path.stat().st_mode & _OTHERS:
            fields = {"file": str(path), "hint": f"chmod 600 {path}"}
            logger.warning("cluster_key_readable_by_others", extra={"fields": fields})
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise BadConfig(
            f"cannot read the cluster key in {path}: {why}",
            hint="set cluster.key_file to a file that this user can read",
        ) from None
    return ClusterKey(text)


def keeper_secret(config: Config, key: ClusterKey | None) -> bytes:
    """By which keepers know the nodes of this cluster.

    Without a key it follows from the cluster's name: that keeps strangers from writing by accident, and
    nobody who wants to.
    """
    if key is None:
        return (
            hashlib.sha256(f"motet keeper nodes of {config.node.cluster}".encode())
            .hexdigest()
            .encode()
        )
    return key.derive("keeper nodes 1").hex().encode()


def vote_key(key: ClusterKey | None) -> bytes:
    """What data nodes seal votes about transactions with.

    Without a key it is empty: that keeps clients from bringing wrong votes by mistake, and nobody who
    wants to.
    """
    return b"" if key is None else key.derive("transaction votes 1")


def hint_for(why: Refusal) -> str | None:
    """What to do about a refused connection; None if nobody needs to."""
    return _HINTS.get(why)
