"""The client: what it sends, to whom, how often; and what it believes."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from motet.core.machine import CancelTimer, Effect, Message, Now, Send, SetTimer
from motet.core.vsr.client import RETRY, Client, Evicted, ReadAt, Replied, retry_ms_max
from motet.core.vsr.config import VsrConfig
from motet.core.vsr.header import NO_CHECKSUM, OPERATION_MIN, REGISTER
from motet.core.vsr.messages import (
    Eviction,
    PingClient,
    PongClient,
    ReadBarrier,
    ReadPoint,
    Reply,
    Request,
    request_checksum,
)
from motet.core.vsr.sessions import RESERVED_BODY, reply_checksum
from motet.ids import Address, ClientId, ClusterId, Op, ReplicaIndex, TimerName, View

CLUSTER = ClusterId(7)
CONFIG = VsrConfig(CLUSTER, (Address("n1"), Address("n2"), Address("n3")))
ANN = ClientId(1000)
NOW = Now(0, 0)
N1 = Address("n1")


def reply(request: int, op: int, body: bytes = b"", view: int = 0) -> Reply:
    digest = reply_checksum(ANN, request, Op(op), body)
    return Reply(CLUSTER, ReplicaIndex(0), View(view), ANN, request, Op(op), body, digest)


def pong(view: int) -> PongClient:
    return PongClient(CLUSTER, ReplicaIndex(0), View(view))


def eviction(view: int, client: ClientId = ANN) -> Eviction:
    return Eviction(CLUSTER, ReplicaIndex(0), View(view), client, "no_session")


def point(request: int, op: int) -> ReadPoint:
    return ReadPoint(CLUSTER, ReplicaIndex(0), View(0), request, Op(op))


def sent(effects: list[Effect]) -> list[tuple[str, Message]]:
    return [(effect.to, effect.message) for effect in effects if isinstance(effect, Send)]


def asked(effects: list[Effect]) -> tuple[str, Request | ReadBarrier]:
    """The one thing that was asked, and of whom."""
    [(to, message)] = [pair for pair in sent(effects) if not isinstance(pair[1], PingClient)]
    assert isinstance(message, Request | ReadBarrier)
    return to, message


def waits_ms(effects: list[Effect]) -> list[int]:
    return [effect.after_ms for effect in effects if isinstance(effect, SetTimer)]


def registered(session: int = 5) -> Client:
    client = Client(CONFIG, ANN)
    client.begin(NOW)
    assert client.on_message(N1, reply(0, session), NOW) == [CancelTimer(RETRY)]
    assert client.take_result() == Replied(0, Op(session), b"")
    return client


def test_a_client_greets_all_and_registers_with_the_primary() -> None:
    client = Client(CONFIG, ANN)
    effects = client.begin(NOW)
    greeted = [to for to, message in sent(effects) if isinstance(message, PingClient)]
    assert greeted == ["n1", "n2", "n3"]
    to, request = asked(effects)
    assert isinstance(request, Request)
    assert (to, request.operation, request.session, request.request) == ("n1", REGISTER, 0, 0)
    assert request.checksum == request_checksum(request)
    assert not client.is_idle


def test_a_reserved_session_is_asked_for_in_the_body() -> None:
    _, request = asked(Client(CONFIG, ANN, reserved=True).begin(NOW))
    assert isinstance(request, Request)
    assert request.body == RESERVED_BODY


def test_each_request_names_the_reply_before_it() -> None:
    client = registered(session=5)
    _, first = asked(client.submit(OPERATION_MIN, b"one", NOW))
    assert isinstance(first, Request)
    assert (first.session, first.request) == (5, 1)
    assert first.parent == reply(0, 5).checksum
    client.on_message(N1, reply(1, 6, b"done"), NOW)
    assert client.take_result() == Replied(1, Op(6), b"done")
    assert client.take_result() is None
    _, second = asked(client.submit(OPERATION_MIN, b"two", NOW))
    assert isinstance(second, Request)
    assert (second.request, second.parent) == (2, reply(1, 6, b"done").checksum)


def test_retries_go_round_all_replicas_and_slow_down() -> None:
    client = registered()
    first = client.submit(OPERATION_MIN, b"one", NOW)
    rounds = [first] + [client.on_timer(RETRY, NOW) for _ in range(6)]
    assert [asked(effects)[0] for effects in rounds] == ["n1", "n2", "n3"] * 2 + ["n1"]
    assert [waits_ms(effects) for effects in rounds] == [
        [200],
        [400],
        [800],
        *([[retry_ms_max]] * 4),
    ]


def test_what_is_sent_again_is_the_same_but_for_the_view() -> None:
    client = registered()
    _, first = asked(client.submit(OPERATION_MIN, b"one", NOW))
    client.on_message(N1, pong(4), NOW)
    _, again = asked(client.on_timer(RETRY, NOW))
    assert isinstance(first, Request)
    assert isinstance(again, Request)
    assert again.view == 4
    assert again == msgspec.structs.replace(first, view=View(4))


def test_a_new_request_goes_to_the_primary_of_the_newest_view() -> None:
    client = registered()
    client.on_message(N1, pong(4), NOW)
    client.on_message(N1, pong(3), NOW)
    assert asked(client.submit(OPERATION_MIN, b"one", NOW))[0] == "n2"


@pytest.mark.parametrize(
    "wrong",
    [
        reply(0, 5),
        reply(2, 9),
        msgspec.structs.replace(reply(1, 6), body=b"another"),
        msgspec.structs.replace(reply(1, 6), client=ClientId(8)),
        msgspec.structs.replace(reply(1, 6), cluster=ClusterId(8)),
        msgspec.structs.replace(reply(1, 6), checksum=NO_CHECKSUM),
        eviction(0, ClientId(8)),
        point(1, 6),
        PingClient(CLUSTER, ANN),
    ],
)
def test_what_does_not_answer_the_request_is_ignored(wrong: Message) -> None:
    client = registered()
    client.submit(OPERATION_MIN, b"one", NOW)
    assert client.on_message(N1, wrong, NOW) == []
    assert client.take_result() is None


def test_only_replicas_are_believed() -> None:
    client = registered()
    client.submit(OPERATION_MIN, b"one", NOW)
    assert client.on_message(Address("stranger"), reply(1, 6), NOW) == []
    assert client.take_result() is None


def test_an_evicted_client_is_over() -> None:
    client = registered()
    client.submit(OPERATION_MIN, b"one", NOW)
    assert client.on_message(N1, eviction(2), NOW) == [CancelTimer(RETRY)]
    assert client.take_result() == Evicted("no_session")
    assert client.on_timer(RETRY, NOW) == []
    assert client.on_message(N1, eviction(2), NOW) == []
    assert not client.is_idle


def test_an_eviction_of_an_older_view_is_not_believed() -> None:
    client = registered()
    client.on_message(N1, pong(3), NOW)
    client.submit(OPERATION_MIN, b"one", NOW)
    assert client.on_message(N1, eviction(2), NOW) == []
    client.on_message(N1, reply(1, 6), NOW)
    assert client.take_result() == Replied(1, Op(6), b"")


def test_a_read_is_answered_by_its_own_point_only() -> None:
    client = registered()
    to, barrier = asked(client.read_barrier(NOW))
    assert isinstance(barrier, ReadBarrier)
    assert to == "n1"
    assert client.on_message(N1, point(barrier.request - 1, 9), NOW) == []
    assert asked(client.on_timer(RETRY, NOW)) == ("n2", barrier)
    client.on_message(N1, point(barrier.request, 9), NOW)
    assert client.take_result() == ReadAt(Op(9))
    assert client.is_idle


def test_clients_at_one_address_number_their_reads_differently() -> None:
    first, second = registered(), Client(CONFIG, ClientId(2000))
    second.state.session = 1
    assert asked(first.read_barrier(NOW))[1] != asked(second.read_barrier(NOW))[1]


def test_one_thing_at_a_time() -> None:
    client = registered()
    client.submit(OPERATION_MIN, b"one", NOW)
    with pytest.raises(AssertionError, match="L1"):
        client.submit(OPERATION_MIN, b"two", NOW)
    with pytest.raises(AssertionError, match="L1"):
        client.read_barrier(NOW)


def test_a_foreign_timer_means_nothing() -> None:
    client = registered()
    client.submit(OPERATION_MIN, b"one", NOW)
    assert client.on_timer(TimerName("other"), NOW) == []


_heard = st.one_of(
    st.builds(pong, st.integers(0, 9)),
    st.builds(reply, st.integers(0, 3), st.integers(1, 9)),
    st.builds(eviction, st.integers(0, 9)),
    st.builds(point, st.integers(ANN, ANN + 3), st.integers(0, 9)),
)


@given(st.lists(_heard, max_size=20))
@settings(max_examples=100, deadline=None)
def test_whatever_is_heard_the_view_rises_and_a_copy_stays_a_copy(heard: list[Message]) -> None:
    client = Client(CONFIG, ANN)
    client.begin(NOW)
    for message in heard:
        before, twin = client.state.view, client.clone()
        client.on_message(N1, message, NOW)
        twin.on_message(N1, message, NOW)
        assert client.state.view >= before
        assert client.fingerprint() == twin.fingerprint()
        if client.take_result() is not None and client.is_idle:
            client.submit(OPERATION_MIN, b"next", NOW)
