"""What a front end and the connections of its clients say to each other.

A connection is an address of its own, ``zk/<n>``, that is never used again. Whoever holds the socket turns
bytes into these messages and back, and knows nothing of what they mean. They never travel between nodes.
"""

from __future__ import annotations

import msgspec

from motet.core.machine import Message
from motet.format.zookeeper.messages import (
    AnyResult,
    Children,
    Children2,
    Data,
    MultiResult,
    WatchEvent,
)
from motet.format.zookeeper.records import AnyRequest
from motet.limits import (
    keeper_unsent_bytes_all_max,
    keeper_unsent_bytes_free,
    keeper_unsent_bytes_max,
)

CONNECTION_PREFIX = "zk/"


# From a connection


class Connect(Message, frozen=True, tag=True):
    """The first thing said: a new session (0), or one that was had before."""

    #: the newest the client has seen; a front end that is older sends it away
    last_zxid: int
    timeout_ms: int
    session: int
    password: bytes


class Ask(Message, frozen=True, tag=True):
    """A request; answered in order."""

    xid: int
    request: AnyRequest


class Gone(Message, frozen=True, tag=True):
    """The connection is lost; the session lives on until its time is over."""


class AnswersSent(Message, frozen=True, tag=True):
    """Answers of so many bytes have left, as :func:`answer_bytes` counts them."""

    size_bytes: int


FromConnection = Connect | Ask | Gone | AnswersSent


# To a connection


class Connected(Message, frozen=True, tag=True):
    """The session it has now. A timeout of 0: the one it wanted is no more, and ``Hangup`` follows."""

    timeout_ms: int
    session: int
    password: bytes


class Answer(Message, frozen=True, tag=True):
    """To a request. ``request`` is what was asked, where the wire needs it to put the answer into bytes."""

    xid: int
    zxid: int
    error: int
    result: AnyResult
    request: AnyRequest | None = None


class Happened(Message, frozen=True, tag=True):
    """A watch has fired."""

    event: WatchEvent


class Hangup(Message, frozen=True, tag=True):
    """Nothing more will come: close the connection when all before this has left."""

    why: str


ToConnection = Connected | Answer | Happened | Hangup

_around_bytes = 100
"""What is around a value: the header of an answer and a node's facts."""


def answer_bytes(result: AnyResult) -> int:
    """About how many bytes an answer is: both sides of a connection count with it."""
    if isinstance(result, Data):
        return _around_bytes + len(result.data or b"")
    if isinstance(result, Children | Children2):
        return _around_bytes + sum(map(len, result.children)) + 4 * len(result.children)
    if isinstance(result, MultiResult):
        return _around_bytes + sum(map(answer_bytes, result.results))
    return _around_bytes


def is_connection(address: str) -> bool:
    """Whether this is the address of a client's connection rather than of a node."""
    return address.startswith(CONNECTION_PREFIX)


class FrontEndConfig(msgspec.Struct, frozen=True):
    """How a front end serves."""

    #: reserved sessions of consensus that it owns: so many requests of it are under way at once
    lanes: int = 2
    #: reads without asking the primary: quick, and possibly old
    reads_are_local: bool = False
    #: all clients live in the process of this only replica: see ``timekeeping``
    is_in_process: bool = False
    #: how often it says which sessions were heard of, and the primary that time has passed
    pulse_ms: int = 500
    connections_max: int = 10_000
    #: requests of one connection that may wait for their answers; beyond that it is not read from
    requests_max: int = 1_000
    watches_max: int = 1_000_000
    #: answers of one connection, and of all, that have not left: see ``Unsent``
    unsent_bytes_max: int = keeper_unsent_bytes_max
    unsent_bytes_all_max: int = keeper_unsent_bytes_all_max
    unsent_bytes_free: int = keeper_unsent_bytes_free
    timeout_ms_min: int = 4_000
    timeout_ms_max: int = 40_000
    #: of the secret by which nodes of the cluster are known; empty: nobody is one
    node_secret_hash: bytes = b""
