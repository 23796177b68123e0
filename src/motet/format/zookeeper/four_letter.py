"""The four-letter words: what people and their tools ask a ZooKeeper server without being clients of it.

A connection that begins with one of the words gets a text for an answer and is closed. As the length of a
message each of them would be beyond a gigabyte, so no client is ever taken for somebody with a question.

The formats are those of ZooKeeper 3.8, because programs read them: ``kazoo`` takes the server's version
from ``envi`` and whether it takes writes from ``isro``; monitoring takes ``mntr`` apart at its tabs, and
``srvr`` and ``stat`` at their colons. What is asked of the world is given as plain facts.

A server that cannot serve at present still answers ``ruok``, ``envi``, ``conf`` and ``isro``; to the other
words it says in a sentence known to those programs that it does not.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable

import msgspec

WORDS = (b"ruok", b"srvr", b"stat", b"mntr", b"envi", b"isro", b"conf", b"cons", b"dump", b"wchs")

VERSION = "3.8.0-motet"
"""Whose protocol it is. Clients compare the digits."""

_NOT_SERVING = "This ZooKeeper instance is not currently serving requests\n"
_WORD_BYTES = 4


class Greeting(enum.StrEnum):
    """How a connection begins."""

    WORD = "word"
    CONNECT = "connect"
    NEED_MORE = "need more"


def greeting_of(start: bytes) -> Greeting:
    """Judged by the first bytes of a connection. ``CONNECT`` also for what is neither: as a message it is
    refused soon enough."""
    if len(start) < _WORD_BYTES:
        return Greeting.NEED_MORE
    return Greeting.WORD if start[:_WORD_BYTES] in WORDS else Greeting.CONNECT


# Facts


class Traffic(msgspec.Struct, frozen=True):
    """Of one connection, or of all."""

    received: int = 0
    sent: int = 0
    outstanding: int = 0
    latency_min_ms: int = 0
    latency_max_ms: int = 0
    latency_total_ms: int = 0
    #: how many answers ``latency_total_ms`` is the sum of
    latency_count: int = 0

    @property
    def latency_avg_ms(self) -> float:
        return round(self.latency_total_ms / max(1, self.latency_count), 4)


class ConnectionFacts(msgspec.Struct, frozen=True):
    """A client that is connected; ``session`` 0 before it has one."""

    #: as in ``127.0.0.1:5000``
    address: str
    session: int
    timeout_ms: int
    #: milliseconds since 1970
    established_ms: int
    last_zxid: int
    traffic: Traffic


class ServerFacts(msgspec.Struct, frozen=True):
    """What the words tell."""

    #: leader, follower or standalone
    mode: str
    zxid: int
    is_serving: bool = True
    is_read_only: bool = False
    #: of our release, as a date; free text to all who read it
    built_on: str = "unknown"
    traffic: Traffic = Traffic()
    connections: tuple[ConnectionFacts, ...] = ()
    node_count: int = 0
    data_bytes: int = 0
    session_count: int = 0
    #: for ``dump`` alone: session and timeout_ms; session and its paths
    sessions: tuple[tuple[int, int], ...] = ()
    ephemerals: tuple[tuple[int, tuple[str, ...]], ...] = ()
    ephemeral_count: int = 0
    watch_count: int = 0
    watched_path_count: int = 0
    watching_connection_count: int = 0
    uptime_ms: int = 0
    #: for ``envi`` and ``conf``: names as ZooKeeper spells them
    environment: tuple[tuple[str, str], ...] = ()
    configuration: tuple[tuple[str, str], ...] = ()
    #: lines of ``mntr`` besides those that every server has, without the ``zk_``
    metrics: tuple[tuple[str, str], ...] = ()


# Answers


def answer_word(word: bytes, facts: ServerFacts) -> bytes:
    """The whole answer to one of ``WORDS``."""
    assert word in WORDS, "told apart by greeting_of"
    if not facts.is_serving and word not in _ALWAYS:
        return _NOT_SERVING.encode()
    return _ANSWERS[word](facts).encode()


def _ruok(_: ServerFacts) -> str:
    return "imok"


def _isro(facts: ServerFacts) -> str:
    if not facts.is_serving:
        return "null"
    return "ro" if facts.is_read_only else "rw"


def _full_version(facts: ServerFacts) -> str:
    return f"{VERSION}, built on {facts.built_on}"


def _srvr(facts: ServerFacts) -> str:
    return f"Zookeeper version: {_full_version(facts)}\n" + _statistics(facts)


def _stat(facts: ServerFacts) -> str:
    clients = _lines(f" {_brief(one)})" for one in facts.connections)
    return f"Zookeeper version: {_full_version(facts)}\nClients:\n{clients}\n" + _statistics(facts)


def _statistics(facts: ServerFacts) -> str:
    traffic = facts.traffic
    latencies = f"{traffic.latency_min_ms}/{traffic.latency_avg_ms}/{traffic.latency_max_ms}"
    return _lines(
        [
            f"Latency min/avg/max: {latencies}",
            f"Received: {traffic.received}",
            f"Sent: {traffic.sent}",
            f"Connections: {len(facts.connections)}",
            f"Outstanding: {traffic.outstanding}",
            f"Zxid: {facts.zxid:#x}",
            f"Mode: {facts.mode}",
            f"Node count: {facts.node_count}",
        ]
    )


def _brief(one: ConnectionFacts) -> str:
    traffic = one.traffic
    return (
        f"/{one.address}[1](queued={traffic.outstanding}"
        f",recved={traffic.received},sent={traffic.sent}"
    )


def _cons(facts: ServerFacts) -> str:
    return _lines(f" {_brief(one)}{_details(one)})" for one in facts.connections) + "\n"


def _details(one: ConnectionFacts) -> str:
    if one.session == 0:
        return ""
    traffic = one.traffic
    return (
        f",sid={_hex(one.session)},est={one.established_ms},to={one.timeout_ms}"
        f",lzxid={one.last_zxid:#x},minlat={traffic.latency_min_ms}"
        f",avglat={traffic.latency_avg_ms},maxlat={traffic.latency_max_ms}"
    )


def _mntr(facts: ServerFacts) -> str:
    traffic = facts.traffic
    values: tuple[tuple[str, object], ...] = (
        ("version", _full_version(facts)),
        ("server_state", facts.mode),
        ("avg_latency", traffic.latency_avg_ms),
        ("max_latency", traffic.latency_max_ms),
        ("min_latency", traffic.latency_min_ms),
        ("packets_received", traffic.received),
        ("packets_sent", traffic.sent),
        ("num_alive_connections", len(facts.connections)),
        ("outstanding_requests", traffic.outstanding),
        ("global_sessions", facts.session_count),
        ("znode_count", facts.node_count),
        ("watch_count", facts.watch_count),
        ("ephemerals_count", facts.ephemeral_count),
        ("approximate_data_size", facts.data_bytes),
        ("uptime", facts.uptime_ms),
        *facts.metrics,
    )
    return _lines(f"zk_{name}\t{value}" for name, value in values)


def _envi(facts: ServerFacts) -> str:
    version = ("zookeeper.version", _full_version(facts))
    return "Environment:\n" + _pairs((version, *facts.environment))


def _conf(facts: ServerFacts) -> str:
    return _pairs(facts.configuration)


def _dump(facts: ServerFacts) -> str:
    sessions = _lines(f"{_hex(session)}\t{timeout_ms}ms" for session, timeout_ms in facts.sessions)
    ephemerals = "".join(
        f"{_hex(session)}:\n" + _lines(f"\t{path}" for path in paths)
        for session, paths in facts.ephemerals
    )
    return (
        f"SessionTracker dump:\nGlobal Sessions({len(facts.sessions)}):\n{sessions}"
        "ephemeral nodes dump:\n"
        f"Sessions with Ephemerals ({len(facts.ephemerals)}):\n{ephemerals}"
    )


def _wchs(facts: ServerFacts) -> str:
    return (
        f"{facts.watching_connection_count} connections watching "
        f"{facts.watched_path_count} paths\nTotal watches:{facts.watch_count}\n"
    )


def _hex(session: int) -> str:
    """A session is a signed number on the wire, and never shown as one."""
    return hex(session & (1 << 64) - 1)


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _pairs(pairs: Iterable[tuple[str, str]]) -> str:
    return _lines(f"{name}={value}" for name, value in pairs)


_ANSWERS: dict[bytes, Callable[[ServerFacts], str]] = {
    b"ruok": _ruok,
    b"srvr": _srvr,
    b"stat": _stat,
    b"mntr": _mntr,
    b"envi": _envi,
    b"isro": _isro,
    b"conf": _conf,
    b"cons": _cons,
    b"dump": _dump,
    b"wchs": _wchs,
}

_ALWAYS = (b"ruok", b"envi", b"conf", b"isro")
"""Asked of a server before one knows whether it serves."""
