"""What every network promises (:mod:`motet.ports`), while nobody disturbs it."""

from __future__ import annotations

from collections.abc import Sequence

from tests.contract.network_harness import NetworkHarness

from motet.format.frame import FRAME_HEADER_BYTES, Frame
from motet.ids import Address
from motet.limits import MIB, peer_queue_bytes_max
from motet.ports import Delivery, Network

KIND = 16


def frame(number: int, body: bytes = b"") -> Frame:
    return Frame(KIND, number, body)


def receive(harness: NetworkHarness, at: Network, count: int) -> list[Delivery]:
    """Exactly so many deliveries."""
    got: list[Delivery] = []

    def is_done() -> bool:
        got.extend(at.take(count - len(got)))
        return len(got) == count

    harness.pump(is_done)
    return got


def ids(deliveries: Sequence[Delivery]) -> list[int]:
    return [delivery.frame.id for delivery in deliveries]


def test_a_frame_arrives_unchanged_and_says_who_sent_it(network_harness: NetworkHarness) -> None:
    n1, n2, _ = network_harness.endpoints
    sent = Frame(255, 2**64 - 1, bytes(range(256)))
    assert n1.send(n2.address, sent)
    n1.flush()
    assert receive(network_harness, n2, 1) == [Delivery(n1.address, sent)]


def test_an_answer_goes_to_the_sender(network_harness: NetworkHarness) -> None:
    n1, n2, _ = network_harness.endpoints
    n1.send(n2.address, frame(1))
    n1.flush()
    (request,) = receive(network_harness, n2, 1)
    assert n2.send(request.sender, frame(2))
    n2.flush()
    assert receive(network_harness, n1, 1) == [Delivery(n2.address, frame(2))]


def test_everybody_reaches_everybody(network_harness: NetworkHarness) -> None:
    endpoints = network_harness.endpoints
    for number, sender in enumerate(endpoints):
        for receiver in endpoints:
            if receiver is not sender:
                assert sender.send(receiver.address, frame(number, sender.address.encode()))
        sender.flush()
    for receiver in endpoints:
        others = [other.address for other in endpoints if other is not receiver]
        deliveries = receive(network_harness, receiver, len(others))
        assert sorted(delivery.sender for delivery in deliveries) == sorted(others)
        assert all(delivery.frame.body.decode() == delivery.sender for delivery in deliveries)


def test_every_frame_of_many_arrives_once(network_harness: NetworkHarness) -> None:
    n1, n2, _ = network_harness.endpoints
    for turn in range(20):
        for number in range(100):
            assert n1.send(n2.address, frame(100 * turn + number, b"%d" % number * number))
        n1.flush()
    deliveries = receive(network_harness, n2, 2000)
    assert sorted(ids(deliveries)) == list(range(2000))
    for delivery in deliveries:
        number = delivery.frame.id % 100
        assert delivery.frame.body == b"%d" % number * number
    assert n2.take(1) == []


def test_large_frames_arrive_whole(network_harness: NetworkHarness) -> None:
    n1, n2, _ = network_harness.endpoints
    bodies = [bytes([number]) * (number * MIB + number) for number in (1, 0, 8, 3)]
    for number, body in enumerate(bodies):
        assert n1.send(n2.address, frame(number, body))
    n1.flush()
    deliveries = receive(network_harness, n2, len(bodies))
    assert {one.frame.id: one.frame.body for one in deliveries} == dict(enumerate(bodies))


def test_nothing_leaves_before_it_is_flushed(network_harness: NetworkHarness) -> None:
    n1, n2, n3 = network_harness.endpoints
    for sender in (n1, n3):  # so that both can be heard at n2
        sender.send(n2.address, frame(0))
        sender.flush()
    receive(network_harness, n2, 2)
    n1.send(n2.address, frame(1))
    for number in range(10):
        n3.send(n2.address, frame(number))
        n3.flush()
        (delivery,) = receive(network_harness, n2, 1)
        assert delivery.sender == n3.address
    n1.flush()
    assert receive(network_harness, n2, 1) == [Delivery(n1.address, frame(1))]


def test_take_gives_no_more_than_asked_for_and_forgets_nothing(
    network_harness: NetworkHarness,
) -> None:
    n1, n2, _ = network_harness.endpoints
    for number in range(10):
        n1.send(n2.address, frame(number))
    n1.flush()
    got: list[int] = []

    def is_done() -> bool:
        taken = n2.take(3)
        assert len(taken) <= 3
        got.extend(ids(taken))
        return len(got) == 10

    network_harness.pump(is_done)
    assert sorted(got) == list(range(10))
    assert n2.take(3) == []


def test_flushing_nothing_and_taking_nothing(network_harness: NetworkHarness) -> None:
    n1, *_ = network_harness.endpoints
    n1.flush()
    assert n1.take(10) == []


def test_nobody_of_that_name(network_harness: NetworkHarness) -> None:
    n1, *_ = network_harness.endpoints
    assert n1.send(Address("nobody"), frame(1)) is False
    n1.flush()


def test_a_dead_peer_holds_nobody_up(network_harness: NetworkHarness) -> None:
    n1, n2, _ = network_harness.endpoints
    for number in range(200):
        n1.send(network_harness.gone, frame(number))
        n1.send(n2.address, frame(number))
        n1.flush()
    assert sorted(ids(receive(network_harness, n2, 200))) == list(range(200))


def test_a_full_queue_is_one_peer_s_matter(network_harness: NetworkHarness) -> None:
    n1, n2, _ = network_harness.endpoints
    body = bytes(MIB - FRAME_HEADER_BYTES)
    room = peer_queue_bytes_max // MIB
    results = [n1.send(network_harness.gone, frame(number, body)) for number in range(room + 3)]
    assert results == [True] * room + [False] * 3
    assert n1.send(n2.address, frame(1))
    n1.flush()
    assert ids(receive(network_harness, n2, 1)) == [1]
