"""Which requests of clients a node takes now, by the bytes of their answers.

R1  A request is taken when the answers that its client has not taken, those that are being made for it, and
    its own are within ``client_unsent_bytes_max``, and those of all clients within
    ``client_unsent_bytes_all_max``. Others are *parked*: they wait, in the order of their client, and
    nothing is read from it. A request with a small answer does not wait for other clients.
R2  What an answer will be at most is reserved until it is given; from then on its real size counts. An answer
    that never comes gives its reservation back after ``reserved_seconds_max``.
R3  The same message of a client again, while its answer is being made, is dropped: there is one answer to
    both. Another message of the same number waits for that answer.
R4  Requests that are parked go with their connection. Above ``parked_requests_max`` of them, the client that
    has most is closed.

Requests of other nodes are not looked at here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from motet.core.machine import Message
from motet.ids import Address
from motet.limits import (
    MIB,
    client_unsent_bytes_all_max,
    client_unsent_bytes_max,
    parked_requests_max,
)
from motet.node.hosted import Hosted
from motet.ports import Time
from motet.real.hello import CLIENT_PREFIX, Refusal
from motet.real.network import TcpNetwork

reserved_seconds_max = 60

wave_bytes_max = 8 * MIB
"""Answers that are reserved for at once: what they really are is known before the next turn."""

Parked = tuple[Hosted, Message, int]


@dataclass(slots=True)
class Reserved:
    """For one client: by request the bytes of its answer, since when by the monotonic clock, and itself."""

    requests: dict[Any, tuple[int, int, Message | None]] = field(default_factory=dict)
    size_bytes: int = 0

    def give_back(self, request: object) -> int:
        size_bytes, *_ = self.requests.pop(request, (0, 0, None))
        self.size_bytes -= size_bytes
        return size_bytes


class ClientRequests:
    """Of one node; a driver asks it about every message that comes over the network."""

    def __init__(
        self, time: Time, wake: Callable[[], None], left: Callable[[Address], None] = lambda _: None
    ) -> None:
        self._time = time
        self._wake = wake
        #: hears of each client that is gone, for good: it comes back under another name
        self._left = left
        self._reserved: dict[Address, Reserved] = {}
        self.reserved_bytes = 0
        self._parked: dict[Address, deque[Parked]] = {}
        self.parked_count = 0
        #: there may be room for what is parked
        self._may_go_on = False

    def attach(self, network: TcpNetwork) -> None:
        self._clients = network.clients

    # What the network says

    def has_room(self) -> None:
        if self._parked:
            self._may_go_on = True
            self._wake()

    def gone(self, client: Address) -> None:
        reserved = self._reserved.pop(client, None)
        if reserved is not None:
            self.reserved_bytes -= reserved.size_bytes
        self.parked_count -= len(self._parked.pop(client, ()))
        self.has_room()
        self._left(client)

    # What the driver asks

    def admit(self, hosted: Hosted, sender: Address, message: Message) -> bool:
        """Whether a message goes to its machine now; else it comes out of ``take_ready`` later."""
        if not sender.startswith(CLIENT_PREFIX):
            return True
        size_bytes = hosted.hosting.answer_bytes(message)
        if size_bytes and self._is_repeat(sender, message):
            return False  # R3
        parked = self._parked.get(sender)
        if parked is None:
            if self._has_room(sender, size_bytes) and self._reserve(sender, message, size_bytes):
                return True
            parked = self._parked[sender] = deque()
            self._clients.set_parked(sender, True)
        parked.append((hosted, message, size_bytes))
        self.parked_count += 1
        if self.parked_count > parked_requests_max:
            most = max(self._parked, key=lambda client: len(self._parked[client]))
            self._clients.cut_off(most, Refusal.OVERRUN)
            self.gone(most)
        return False

    def answered(self, client: Address, message: Message) -> None:
        """An answer was given to the network (R2)."""
        reserved = self._reserved.get(client)
        if reserved is not None:
            self.reserved_bytes -= reserved.give_back(getattr(message, "request", None))
            if not reserved.requests:
                del self._reserved[client]
            if self._parked:
                self._may_go_on = True

    def take_ready(self, limit: int) -> list[tuple[Hosted, Address, Message]]:
        """Parked requests that there is room for now, one of each client after the other."""
        if not self._may_go_on:
            return []
        self._may_go_on = False
        self._clients.measure()
        self._forget_unanswered()
        ready: list[tuple[Hosted, Address, Message]] = []
        is_moving, enough_bytes = True, self.reserved_bytes + wave_bytes_max
        while is_moving and len(ready) < limit and self.reserved_bytes < enough_bytes:
            is_moving = False
            for client in list(self._parked):
                parked = self._parked[client]
                hosted, message, size_bytes = parked[0]
                is_repeat = self._is_repeat(client, message)
                if not is_repeat and not self._fits(client, size_bytes):
                    continue
                if not is_repeat and not self._reserve(client, message, size_bytes):
                    continue
                parked.popleft()
                self.parked_count -= 1
                if not is_repeat:  # R3
                    ready.append((hosted, client, message))
                is_moving = True
                if not parked:
                    del self._parked[client]
                    self._clients.set_parked(client, False)
        self._may_go_on |= bool(ready and self._parked)
        return ready

    @property
    def is_due(self) -> bool:
        """Whether parked requests should be looked at in a turn that follows at once."""
        return self._may_go_on

    def _has_room(self, client: Address, size_bytes: int) -> bool:
        if self._fits(client, size_bytes):
            return True
        self._clients.measure()  # much may have left since the last look
        return self._fits(client, size_bytes)

    def _fits(self, client: Address, size_bytes: int) -> bool:
        """R1."""
        kept_bytes, all_bytes = self._clients.kept_for(client)
        reserved = self._reserved.get(client)
        own_bytes = kept_bytes + (0 if reserved is None else reserved.size_bytes)
        if (
            size_bytes
            and all_bytes + self.reserved_bytes + size_bytes > client_unsent_bytes_all_max
        ):
            return False
        return own_bytes + size_bytes <= client_unsent_bytes_max

    def _is_repeat(self, client: Address, message: Message) -> bool:
        """Whether the answer to this very message is being made."""
        reserved = self._reserved.get(client)
        if reserved is None:
            return False
        _, _, first = reserved.requests.get(getattr(message, "request", None), (0, 0, None))
        return first is not None and first == message

    def _reserve(self, client: Address, message: Message, size_bytes: int) -> bool:
        """False when a request of the same number is under way: their answers could not be told apart."""
        if size_bytes:
            reserved = self._reserved.setdefault(client, Reserved())
            request = getattr(message, "request", None)
            if request in reserved.requests:
                return False
            reserved.requests[request] = size_bytes, self._time.now().monotonic_ns, message
            reserved.size_bytes += size_bytes
            self.reserved_bytes += size_bytes
        return True

    def _forget_unanswered(self) -> None:
        """R2."""
        oldest_ns = self._time.now().monotonic_ns - reserved_seconds_max * 10**9
        for client, reserved in list(self._reserved.items()):
            for request, (_, since_ns, _message) in list(reserved.requests.items()):
                if since_ns > oldest_ns:
                    break  # those after it are younger
                self.reserved_bytes -= reserved.give_back(request)
            if not reserved.requests:
                del self._reserved[client]
