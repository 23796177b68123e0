"""The four-letter words: told from clients, and answered as their readers expect."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kazoo.client import ENVI_VERSION, ENVI_VERSION_KEY

from motet.errors import BadFrame
from motet.format.zookeeper.four_letter import (
    WORDS,
    ConnectionFacts,
    Greeting,
    ServerFacts,
    Traffic,
    answer_word,
    greeting_of,
)
from motet.format.zookeeper.jute import PAYLOAD_BYTES_MAX, FrameCutter
from motet.format.zookeeper.records import ConnectRequest, encode_connect_request

FACTS = ServerFacts(
    mode="leader",
    zxid=0x1_0000_00FF,
    built_on="2026-01-01",
    traffic=Traffic(90, 80, 2, 1, 30, 50, 3),
    connections=(
        ConnectionFacts("127.0.0.1:5000", -2, 30_000, 1_700_000_000_000, 255, Traffic(9, 8, 1)),
        ConnectionFacts("127.0.0.1:5001", 0, 0, 1_700_000_000_001, 0, Traffic()),
    ),
    node_count=12,
    data_bytes=3456,
    session_count=2,
    sessions=((-2, 30_000), (7, 10_000)),
    ephemerals=((7, ("/a", "/b")),),
    ephemeral_count=2,
    watch_count=5,
    watched_path_count=4,
    watching_connection_count=1,
    uptime_ms=60_000,
    environment=(("host.name", "here"),),
    configuration=(("clientPort", "7401"), ("tickTime", "2000")),
    metrics=(("view", "6"),),
)
STATISTICS = """\
Latency min/avg/max: 1/16.6667/30
Received: 90
Sent: 80
Connections: 2
Outstanding: 2
Zxid: 0x1000000ff
Mode: leader
Node count: 12
"""


def answer(word: bytes, facts: ServerFacts = FACTS) -> str:
    return answer_word(word, facts).decode()


# Greetings


@pytest.mark.parametrize("word", WORDS)
def test_a_word_is_known_by_its_fourth_letter(word: bytes) -> None:
    for end in range(4):
        assert greeting_of(word[:end]) is Greeting.NEED_MORE
    assert greeting_of(word) is Greeting.WORD
    assert greeting_of(word + b"\n") is Greeting.WORD


@given(st.integers(0, PAYLOAD_BYTES_MAX))
def test_no_message_within_its_bound_is_taken_for_a_word(length: int) -> None:
    assert greeting_of(length.to_bytes(4, "big")) is Greeting.CONNECT


def test_a_client_is_a_client() -> None:
    hello = encode_connect_request(ConnectRequest(0, 0, 30_000, 0, bytes(16), False))
    assert greeting_of(hello) is Greeting.CONNECT
    assert FrameCutter().feed(hello) == [hello[4:]]


@pytest.mark.parametrize("start", [b"kill", b"GET / HTTP", b"\xff\xff\xff\xff"])
def test_who_is_neither_is_refused_as_a_message(start: bytes) -> None:
    assert greeting_of(start) is Greeting.CONNECT
    with pytest.raises(BadFrame):
        FrameCutter().feed(start)


# Answers


def test_short_questions_have_short_answers() -> None:
    assert answer(b"ruok") == "imok"
    assert answer(b"isro") == "rw"
    assert answer(b"isro", ServerFacts(mode="follower", zxid=0, is_read_only=True)) == "ro"


def test_kazoo_finds_the_version() -> None:
    pairs = dict(line.split("=", 1) for line in answer(b"envi").splitlines() if "=" in line)
    found = ENVI_VERSION.match(pairs[ENVI_VERSION_KEY])
    assert found is not None
    assert tuple(map(int, found.group(1).split("."))) == (3, 8, 0)
    assert pairs["host.name"] == "here"


def test_the_server_describes_itself() -> None:
    version = "Zookeeper version: 3.8.0-motet, built on 2026-01-01\n"
    assert answer(b"srvr") == version + STATISTICS
    clients = (
        "Clients:\n"
        " /127.0.0.1:5000[1](queued=1,recved=9,sent=8)\n"
        " /127.0.0.1:5001[1](queued=0,recved=0,sent=0)\n"
        "\n"
    )
    assert answer(b"stat") == version + clients + STATISTICS


def test_a_server_that_has_done_nothing_yet_has_an_average() -> None:
    assert "Latency min/avg/max: 0/0.0/0\n" in answer(b"srvr", ServerFacts("standalone", 0))


def test_monitoring_reads_names_and_values_at_tabs() -> None:
    values = dict(line.split("\t") for line in answer(b"mntr").splitlines())
    assert values == {
        "zk_version": "3.8.0-motet, built on 2026-01-01",
        "zk_server_state": "leader",
        "zk_avg_latency": "16.6667",
        "zk_max_latency": "30",
        "zk_min_latency": "1",
        "zk_packets_received": "90",
        "zk_packets_sent": "80",
        "zk_num_alive_connections": "2",
        "zk_outstanding_requests": "2",
        "zk_global_sessions": "2",
        "zk_znode_count": "12",
        "zk_watch_count": "5",
        "zk_ephemerals_count": "2",
        "zk_approximate_data_size": "3456",
        "zk_uptime": "60000",
        "zk_view": "6",
    }


def test_connections_sessions_and_watches_are_listed() -> None:
    assert answer(b"cons") == (
        " /127.0.0.1:5000[1](queued=1,recved=9,sent=8,sid=0xfffffffffffffffe,est=1700000000000"
        ",to=30000,lzxid=0xff,minlat=0,avglat=0.0,maxlat=0)\n"
        " /127.0.0.1:5001[1](queued=0,recved=0,sent=0)\n"
        "\n"
    )
    assert answer(b"dump") == (
        "SessionTracker dump:\nGlobal Sessions(2):\n0xfffffffffffffffe\t30000ms\n0x7\t10000ms\n"
        "ephemeral nodes dump:\nSessions with Ephemerals (1):\n0x7:\n\t/a\n\t/b\n"
    )
    assert answer(b"wchs") == "1 connections watching 4 paths\nTotal watches:5\n"
    assert answer(b"conf") == "clientPort=7401\ntickTime=2000\n"


@pytest.mark.parametrize("word", WORDS)
def test_a_server_that_cannot_serve_says_so(word: bytes) -> None:
    facts = ServerFacts(mode="follower", zxid=0, is_serving=False)
    refusal = "This ZooKeeper instance is not currently serving requests\n"
    is_refused = answer(word, facts) == refusal
    assert is_refused == (word not in (b"ruok", b"envi", b"conf", b"isro"))
    assert answer(b"isro", facts) == "null"
