"""Requests of clients are taken as there is room for their answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import msgspec
import pytest
from tests.node.fakes import ManualTime

from motet.core.machine import Message
from motet.ids import Address
from motet.limits import MIB, client_unsent_bytes_all_max, client_unsent_bytes_max
from motet.node import client_requests
from motet.node.client_requests import ClientRequests, reserved_seconds_max
from motet.node.hosted import Hosted
from motet.real.hello import Refusal
from motet.real.network import TcpNetwork

ONE, TWO, NODE = Address("client-1"), Address("client-2"), Address("n2")


class Ask(Message, frozen=True):
    request: int
    size_bytes: int = MIB


class Clients:
    """What a network keeps for its clients, as a test says."""

    def __init__(self) -> None:
        self.kept: dict[Address, int] = {}
        self.parked: dict[Address, bool] = {}
        self.closed: list[tuple[Address, Refusal]] = []

    def kept_for(self, client: Address) -> tuple[int, int]:
        return self.kept.get(client, 0), sum(self.kept.values())

    def measure(self) -> None:
        pass

    def set_parked(self, client: Address, has_parked: bool) -> None:
        self.parked[client] = has_parked

    def cut_off(self, client: Address, why: Refusal) -> None:
        self.closed.append((client, why))


class Hosting(msgspec.Struct, frozen=True):
    answer_bytes: Callable[[Ask], int] = lambda message: message.size_bytes


class Network(msgspec.Struct):
    clients: Clients


class Machine(msgspec.Struct):
    hosting: Hosting = Hosting()


class Bench:
    def __init__(self) -> None:
        self.clients, self.wakes, self.time = Clients(), 0, ManualTime()
        self.requests = ClientRequests(self.time, self._wake)
        self.requests.attach(cast("TcpNetwork", Network(self.clients)))
        self.machine = cast("Hosted", Machine())

    def _wake(self) -> None:
        self.wakes += 1

    def ask(self, client: Address, *numbers: int, size_bytes: int = MIB) -> list[int]:
        """Which of these were taken at once."""
        return [
            number
            for number in numbers
            if self.requests.admit(self.machine, client, Ask(number, size_bytes))
        ]

    def answer(self, client: Address, *numbers: int, kept_bytes: int = 0) -> None:
        for number in numbers:
            self.requests.answered(client, Ask(number))
            self.clients.kept[client] = self.clients.kept.get(client, 0) + kept_bytes

    def ready(self, limit: int = 1000) -> list[tuple[Address, int]]:
        taken = self.requests.take_ready(limit)
        return [(client, cast("Ask", message).request) for _, client, message in taken]


FULL = client_unsent_bytes_max // MIB


def test_answers_that_are_being_made_count() -> None:
    bench = Bench()
    assert bench.ask(ONE, *range(FULL + 2)) == list(range(FULL))
    assert bench.clients.parked == {ONE: True}
    assert bench.ask(TWO, 1) == [1], "another client has room of its own"
    bench.answer(ONE, 0)
    assert bench.requests.is_due
    assert bench.ready() == [(ONE, FULL)]
    bench.answer(ONE, 1, 2)
    assert bench.ready() == [(ONE, FULL + 1)]
    assert bench.clients.parked == {ONE: False}
    assert bench.requests.parked_count == 0


def test_answers_that_have_not_left_count_with_their_real_size() -> None:
    bench = Bench()
    bench.ask(ONE, 1)
    bench.answer(ONE, 1, kept_bytes=client_unsent_bytes_max)
    assert bench.ask(ONE, 2, size_bytes=1) == []
    assert bench.ask(ONE, 3, size_bytes=0) == [], "in the order of its client"
    assert bench.ready() == []
    bench.clients.kept[ONE] = 0
    bench.requests.has_room()
    assert bench.wakes == 1
    assert bench.ready() == [(ONE, 2), (ONE, 3)]


def test_all_clients_together_have_a_budget_and_small_answers_pass() -> None:
    bench = Bench()
    bench.clients.kept = {Address(f"client-{n}"): FULL * MIB for n in range(10, 18)}
    assert sum(bench.clients.kept.values()) == client_unsent_bytes_all_max
    assert bench.ask(ONE, 1) == []
    assert bench.ask(TWO, 1, size_bytes=0) == [1]
    assert bench.ask(NODE, 1) == [1], "nodes are not clients"
    bench.clients.kept.popitem()
    bench.requests.has_room()
    assert bench.ready() == [(ONE, 1)]


def test_one_client_after_the_other() -> None:
    bench = Bench()
    bench.clients.kept = {ONE: client_unsent_bytes_max, TWO: client_unsent_bytes_max}
    bench.ask(ONE, 1, 2, 3)
    bench.ask(TWO, 1, 2)
    bench.clients.kept = {}
    bench.requests.has_room()
    assert bench.ready(3) == [(ONE, 1), (TWO, 1), (ONE, 2), (TWO, 2)], "a round is finished"
    assert bench.ready() == [(ONE, 3)]


def test_what_is_parked_or_reserved_goes_with_its_connection() -> None:
    bench = Bench()
    bench.ask(ONE, *range(FULL + 5))
    assert bench.requests.parked_count == 5
    bench.requests.gone(ONE)
    assert (bench.requests.parked_count, bench.requests.reserved_bytes) == (0, 0)
    bench.answer(ONE, 0)
    assert bench.ready() == []


def test_an_answer_that_never_comes_gives_its_room_back() -> None:
    bench = Bench()
    bench.ask(ONE, *range(FULL + 1))
    bench.requests.has_room()
    assert bench.ready() == []
    bench.time.move_ms(reserved_seconds_max * 1000 + 1)
    bench.requests.has_room()
    assert bench.ready() == [(ONE, FULL)]


def test_the_same_number_twice_is_answered_one_after_the_other() -> None:
    bench = Bench()
    assert bench.ask(ONE, 7) == [7]
    assert bench.ask(ONE, 7, size_bytes=2 * MIB) == []
    bench.requests.has_room()
    assert bench.ready() == []
    bench.answer(ONE, 7)
    assert bench.ready() == [(ONE, 7)]


def test_the_same_message_again_is_dropped_until_it_is_answered() -> None:
    bench = Bench()
    assert bench.ask(ONE, 7, 7) == [7]
    assert bench.requests.parked_count == 0
    assert bench.ask(TWO, 7) == [7], "a message of somebody else"
    bench.answer(ONE, 7)
    assert bench.ready() == []
    assert bench.ask(ONE, 7) == [7]


def test_a_repeat_that_is_parked_after_the_first_is_dropped_too() -> None:
    bench = Bench()
    bench.clients.kept = {ONE: client_unsent_bytes_max}
    assert bench.ask(ONE, 7, 7, 8) == []
    assert bench.requests.parked_count == 3
    bench.clients.kept = {}
    bench.requests.has_room()
    assert bench.ready() == [(ONE, 7), (ONE, 8)]
    assert bench.requests.parked_count == 0
    assert bench.clients.parked == {ONE: False}


def test_whoever_has_most_of_too_many_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_requests, "parked_requests_max", 10)
    bench = Bench()
    bench.clients.kept = {ONE: client_unsent_bytes_max, TWO: client_unsent_bytes_max}
    bench.ask(ONE, *range(8))
    bench.ask(TWO, *range(3))
    assert bench.clients.closed == [(ONE, Refusal.OVERRUN)]
    assert bench.requests.parked_count == 3
