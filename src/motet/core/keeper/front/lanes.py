"""Lanes: the sessions of consensus that a front end has its clients' operations done by.

A connection is pinned to a lane. What waits for a lane goes as one request, and the next when that is
answered, so the operations of one connection are done in its order. One more lane, the *asker*, asks for read
points and nothing else; it needs no place that is kept for it.

N1  Operations go once. What a lane had in flight when it was evicted may be done or not: nobody is told that
    it is either, and nobody tries again.
N2  An evicted lane begins anew, under an id that was never used. Ids come from the nonce of this incarnation.
    Its place in the client table is its own, and this member's: the next incarnation takes it over, so that
    restarts do not use the places up.
N3  A batch fits into a request, and the answers to it into a reply, whatever they are.
N4  When this replica has come to another view, what is in flight is sent to its primary at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Self

import msgspec

from motet.core.fingerprint import fingerprint
from motet.core.keeper.operations import (
    BATCH,
    AnyOperation,
    Piece,
    WholeOperation,
    Write,
    answer_bytes,
    encode_batch,
)
from motet.core.keeper.pieces import split
from motet.core.machine import CancelTimer, Effect, Message, Now, Send, SetTimer
from motet.core.vsr.client import RETRY, Client, Result, retry_ms_max
from motet.core.vsr.config import VsrConfig
from motet.core.vsr.messages import Eviction, Reply
from motet.core.vsr.sessions import LaneOwner
from motet.format.zookeeper.sizes import empty_reply_bytes
from motet.ids import Address, ClientId, ReplicaIndex, TimerName, View

RETRY_PREFIX = "front/retry/"
NOBODY = Address("")
"""Owns what the front end wants done for itself."""

_batch_bytes_least = 8  # of a batch, besides its operations


class Item(msgspec.Struct, frozen=True):
    """An operation on its way."""

    owner: Address
    #: of the entry it answers
    number: int
    operation: AnyOperation
    request_bytes: int
    reply_bytes: int

    @property
    def is_part(self) -> bool:
        """A piece of a write that is not its last: nobody waits for what becomes of it."""
        return isinstance(self.operation, Piece) and not self.operation.is_last


class Lane:
    """One client of the cluster, and what waits for it."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.queue: list[Item] = []
        self.in_flight: list[Item] = []

    def take_in_flight(self) -> list[Item]:
        taken, self.in_flight = self.in_flight, []
        return taken

    def clone(self) -> Lane:
        twin = Lane(self.client.clone())
        twin.queue, twin.in_flight = list(self.queue), list(self.in_flight)
        return twin


class Lanes:
    """All lanes of one front end; the last is the asker."""

    def __init__(
        self, config: VsrConfig, own: ReplicaIndex, count: int, reply_bytes_max: int
    ) -> None:
        assert count >= 1
        self._config = config
        self._own = own
        self._count = count
        self._reply_bytes_max = reply_bytes_max
        self._nonce = 0
        #: when this incarnation began
        self._began_ms = 0
        self._ids_drawn = 0
        self._lanes: list[Lane] = []

    def begin(self, nonce: int, now: Now) -> list[Effect]:
        """Register all; nothing is done before that."""
        self._nonce, self._began_ms = nonce, max(now.wall_ms, 0)
        self._lanes = [Lane(self._fresh_client(number)) for number in range(self._count + 1)]
        effects: list[Effect] = []
        for number, lane in enumerate(self._lanes):
            effects += _named(number, lane.client.begin(now))
        return effects

    def _fresh_client(self, number: int) -> Client:
        self._ids_drawn += 1
        seed = f"{self._nonce} {self._ids_drawn}".encode()
        digest = hashlib.blake2b(seed, digest_size=8, person=b"keeper lane").digest()
        client = ClientId(int.from_bytes(digest, "big") >> 1 or 1)
        is_asker = number == self._count
        owner = None if is_asker else LaneOwner(self._own, number, self._began_ms)
        return Client(self._config, client, owner=owner)

    @property
    def is_begun(self) -> bool:
        return bool(self._lanes)

    @property
    def _asker(self) -> Lane:
        return self._lanes[-1]

    def is_ours(self, client: ClientId) -> bool:
        return any(lane.client.state.client == client for lane in self._lanes)

    # Operations

    def items(self, owner: Address, number: int, operation: WholeOperation) -> list[Item]:
        """The operation, ready to go, in pieces if it is large; none if it cannot be sent at all (N3)."""
        try:
            request_bytes = len(encode_batch((operation,)))
        except (UnicodeEncodeError, OverflowError):
            return []
        reply_bytes = answer_bytes(operation)
        if self._fits(1, request_bytes, reply_bytes):
            return [Item(owner, number, operation, request_bytes, reply_bytes)]
        if not isinstance(operation, Write) or not self._fits(1, 0, reply_bytes):
            return []
        return [
            Item(
                owner,
                number,
                piece,
                len(encode_batch((piece,))),
                reply_bytes if piece.is_last else 0,
            )
            for piece in split(operation, self._config.body_bytes_max - _batch_bytes_least)
        ]

    def _fits(self, count: int, request_bytes: int, reply_bytes: int) -> bool:
        is_sendable = request_bytes + _batch_bytes_least <= self._config.body_bytes_max
        return is_sendable and empty_reply_bytes(count) + reply_bytes <= self._reply_bytes_max

    def add(self, number: int, item: Item) -> None:
        """Behind all that waits for this lane."""
        assert number < self._count
        self._lanes[number].queue.append(item)

    def send_waiting(self, now: Now, is_wanted: Callable[[Address], bool]) -> list[Effect]:
        """As much as possible for each lane that is free, but not what nobody wants any more."""
        effects: list[Effect] = []
        for number, lane in enumerate(self._lanes):
            if lane.queue and lane.client.is_idle:
                lane.in_flight = self._take_batch(lane, is_wanted)
                if lane.in_flight:
                    body = encode_batch([item.operation for item in lane.in_flight])
                    effects += _named(number, lane.client.submit(BATCH, body, now))
        return effects

    def _take_batch(self, lane: Lane, is_wanted: Callable[[Address], bool]) -> list[Item]:
        batch: list[Item] = []
        request_bytes = reply_bytes = taken = 0
        for item in lane.queue:
            if item.owner == NOBODY or is_wanted(item.owner):
                request_bytes += item.request_bytes
                reply_bytes += item.reply_bytes
                if not self._fits(len(batch) + 1, request_bytes, reply_bytes):
                    break
                batch.append(item)
            taken += 1
        del lane.queue[:taken]
        return batch

    # Read points

    @property
    def can_ask(self) -> bool:
        return self._asker.client.is_idle

    @property
    def is_asking(self) -> bool:
        return self._asker.client.state.in_flight is not None

    def ask(self, now: Now) -> list[Effect]:
        """For the read point; the result is ``ReadAt``."""
        return _named(self._count, self._asker.client.read_barrier(now))

    # What comes back

    def on_message(self, sender: Address, message: Message, now: Now) -> list[Effect]:
        """Of a replica; about one of our clients, or about none in particular."""
        effects: list[Effect] = []
        about = message.client if isinstance(message, Reply | Eviction) else None
        for number, lane in enumerate(self._lanes):
            if about in (None, lane.client.state.client):
                effects += _named(number, lane.client.on_message(sender, message, now))
        return effects

    def is_timer(self, timer: TimerName) -> bool:
        return timer.startswith(RETRY_PREFIX)

    def on_timer(self, timer: TimerName, now: Now) -> list[Effect]:
        number = int(timer.removeprefix(RETRY_PREFIX))
        client = self._lanes[number].client
        if client.state.request == 0:  # evicted before it was registered: it waited to try again
            return _named(number, client.begin(now))
        return _named(number, client.on_timer(RETRY, now))

    def on_view(self, view: View) -> list[Effect]:
        """N4. What comes twice is done once."""
        to = self._config.replicas[self._config.primary(view)]
        asked = [lane.client.state.in_flight for lane in self._lanes]
        return [Send(to, message) for message in asked if message is not None]

    def take_results(self) -> list[tuple[Result, list[Item]]]:
        """What came of it, and of which operations, lane by lane."""
        results = [(lane, lane.client.take_result()) for lane in self._lanes]
        return [(result, lane.take_in_flight()) for lane, result in results if result is not None]

    def begin_anew(self, now: Now) -> list[Effect]:
        """A new client for each that was evicted (N2). Who could not even register takes its time."""
        effects: list[Effect] = []
        for number, lane in enumerate(self._lanes):
            old = lane.client.state
            if not old.is_evicted:
                continue
            lane.client = self._fresh_client(number)
            if old.session:
                effects += _named(number, lane.client.begin(now))
            else:
                effects.append(SetTimer(_timer(number), retry_ms_max))
        return effects

    # What a driver and a checker need

    def broken(self) -> str | None:
        """What is wrong with the lanes."""
        for number, lane in enumerate(self._lanes):
            is_busy = (
                lane.client.state.in_flight is not None or lane.client.state.result is not None
            )
            if lane.in_flight and not is_busy:
                return f"lane {number} has lost what was in flight"
        return None

    def clone(self) -> Self:
        twin = type(self)(self._config, self._own, self._count, self._reply_bytes_max)
        twin._nonce, twin._ids_drawn = self._nonce, self._ids_drawn
        twin._began_ms = self._began_ms
        twin._lanes = [lane.clone() for lane in self._lanes]
        return twin

    def fingerprint(self) -> bytes:
        lanes = [(lane.client.state, lane.queue, lane.in_flight) for lane in self._lanes]
        return fingerprint((self._nonce, self._ids_drawn, lanes))


def _timer(number: int) -> TimerName:
    return TimerName(f"{RETRY_PREFIX}{number}")


def _named(number: int, effects: Sequence[Effect]) -> list[Effect]:
    """The same, with a timer of this lane's own."""
    named: list[Effect] = []
    for effect in effects:
        if isinstance(effect, SetTimer):
            effect = SetTimer(_timer(number), effect.after_ms)
        elif isinstance(effect, CancelTimer):
            effect = CancelTimer(_timer(number))
        named.append(effect)
    return named
