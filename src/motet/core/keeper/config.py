"""How large things may be. The same on all replicas, for ever: what is refused is part of the state."""

from __future__ import annotations

import msgspec

from motet.limits import keeper_multi_operations_max


class KeeperConfig(msgspec.Struct, frozen=True):
    """One keeper."""

    #: the data of one node: what fits into one packet of ZooKeeper's
    node_bytes_max: int = 1_048_575
    nodes_max: int = 4_000_000
    #: paths, data and lists of permissions of all nodes together
    tree_bytes_max: int = 2 << 30
    multi_operations_max: int = keeper_multi_operations_max
    #: one write in pieces: the largest node, or a multi, and what is around it
    write_bytes_max: int = (1 << 20) + (64 << 10)
    #: the reply to one batch; an operation whose answer might not fit any more is not done
    reply_bytes_max: int = 2 << 20

    sessions_max: int = 10_000
    password_bytes_max: int = 64
    identities_max: int = 16
    identity_bytes_max: int = 1024
    #: what a client asks for is moved into these bounds
    timeout_ms_min: int = 4_000
    timeout_ms_max: int = 40_000
    #: one pulse is worth no more, however long the primary was away
    pulse_ms_max: int = 1_000
    #: a touch counts from the pulse before it: sessions live so much longer than they were promised
    grace_ms: int = 1_000

    #: pages of a checkpoint; a million nodes make pages of 16
    node_pages: int = 1 << 16
    session_pages: int = 256

    #: writes with events that wait to be taken by a front end, on this replica alone
    applied_max: int = 1 << 16

    def __post_init__(self) -> None:
        assert self.nodes_max >= 1, "there is always a root"
        assert self.node_pages >= 1
        assert self.session_pages >= 1
        assert 0 < self.timeout_ms_min <= self.timeout_ms_max
        assert self.pulse_ms_max > 0
        assert self.reply_bytes_max >= 1024, "a refusal always fits"
        assert self.applied_max >= 1
