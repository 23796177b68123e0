"""Who may do what to a node.

A1  A list of permissions is checked when it is set: ``world:anyone``, a digest ``user:hash``, ``motet:node``,
    or ``auth``, which stands for all identities the session has then. Anything else, an empty list, and
    ``auth`` of a session without identities are invalid. Addresses are no identities here: a session moves
    between front ends, and every replica must come to the same answer.
A2  What is there twice is kept once, in the order of the list.
A3  Any entry that gives one of the permissions asked for, to anyone or to an identity of the session, is
    enough. A node is read and written by its own list, and its children come and go by it too.
A4  A password never gets further than the front end that heard it: identities are digests.
A5  Who may read a list but not change it sees no digests.
A6  ``motet:node`` is a node of the cluster. It proves that with a secret that front ends know a hash of; the
    tree knows nothing of the secret, so that it can be changed.
"""

from __future__ import annotations

import base64
import hashlib
import hmac

import msgspec

from motet.core.keeper.config import KeeperConfig
from motet.format.zookeeper.messages import Acl

READ, WRITE, CREATE, DELETE, ADMIN = 1, 2, 4, 8, 16
ALL = READ | WRITE | CREATE | DELETE | ADMIN

NODE_SCHEME, NODE_ID = "motet", "node"
NODES_ACL = (Acl(READ, "world", "anyone"), Acl(ALL, NODE_SCHEME, NODE_ID))
"""What nodes of the cluster write and everybody reads."""

OPEN_ACL = (Acl(ALL, "world", "anyone"),)
"""What an empty list of a node stands for."""

_int_max = (1 << 31) - 1


class Identity(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """One who has proved to be somebody: scheme ``digest``, id ``user:base64(sha1(user:password))``."""

    scheme: str
    id: str


def node_secret_hash(secret: bytes) -> bytes:
    """What a front end keeps of the secret of nodes (A6)."""
    return hashlib.sha256(secret).digest()


def identity_of(scheme: str, auth: bytes, secret_hash: bytes = b"") -> Identity | None:
    """Whom these credentials prove; None if nobody. For front ends, see A4."""
    if scheme == NODE_SCHEME:
        is_node = hmac.compare_digest(node_secret_hash(auth), secret_hash)
        return Identity(NODE_SCHEME, NODE_ID) if is_node else None
    if scheme != "digest":
        return None
    text = auth.decode("utf-8", "replace")
    digest = hashlib.sha1(text.encode(), usedforsecurity=False).digest()
    user = text.partition(":")[0]
    return Identity("digest", f"{user}:{base64.b64encode(digest).decode()}")


def is_identity(config: KeeperConfig, identity: Identity) -> bool:
    """Could ``identity_of`` have made it?"""
    if identity == Identity(NODE_SCHEME, NODE_ID):
        return True
    return (
        identity.scheme == "digest"
        and _is_digest(identity.id)
        and len(identity.id) <= config.identity_bytes_max
    )


def _is_digest(text: str) -> bool:
    """Two parts, where empty parts at the end do not count: ``:x`` is one, ``x:`` is none."""
    return len(text.rstrip(":").split(":")) == 2


def settled(acl: tuple[Acl, ...], identities: tuple[Identity, ...]) -> tuple[Acl, ...] | None:
    """The list as a node keeps it; None if it is invalid (A1, A2)."""
    if acl == OPEN_ACL:
        return ()
    kept: dict[Acl, None] = {}
    for entry in acl:
        found = _expanded(entry, identities)
        if not found:
            return None
        kept.update(dict.fromkeys(found))
    if not kept:
        return None
    return () if tuple(kept) == OPEN_ACL else tuple(kept)


def _expanded(entry: Acl, identities: tuple[Identity, ...]) -> tuple[Acl, ...]:
    """What one entry stands for; nothing if it is invalid."""
    if not -_int_max - 1 <= entry.permissions <= _int_max:
        return ()
    if entry.scheme == "auth":
        return tuple(Acl(entry.permissions, who.scheme, who.id) for who in identities)
    is_anyone = entry.scheme == "world" and entry.id == "anyone"
    is_digest = entry.scheme == "digest" and _is_digest(entry.id)
    is_node = entry.scheme == NODE_SCHEME and entry.id == NODE_ID
    return (entry,) if is_anyone or is_digest or is_node else ()


def allows(acl: tuple[Acl, ...], permission: int, identities: tuple[Identity, ...]) -> bool:
    """May somebody with these identities do it? One of the permissions is enough (A3)."""
    if not acl:
        return True
    for entry in acl:
        if not entry.permissions & permission:
            continue
        if entry.scheme == "world" or Identity(entry.scheme, entry.id) in identities:
            return True
    return False


def shown(acl: tuple[Acl, ...], identities: tuple[Identity, ...]) -> tuple[Acl, ...]:
    """The list as it is answered (A5)."""
    if allows(acl, ADMIN, identities):
        return acl or OPEN_ACL
    return tuple(_masked(entry) for entry in acl)


def _masked(entry: Acl) -> Acl:
    if entry.scheme != "digest":
        return entry
    return Acl(entry.permissions, entry.scheme, f"{entry.id.partition(':')[0]}:x")
