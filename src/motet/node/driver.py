"""The driver of a real node: any number of machines on real ports, in one asyncio loop.

A *turn* is a batch. It takes everything that has happened, lets the machines step through it, and hands
over what came of it in one go:

T1  The time is read once, and once more after the sync; all events of a turn carry one of the two.
T2  Events: first what the last turn left (``ReadBack`` …), then what the network brought, then timers
    that are due. Messages go before timers, so that a node that was held up hears its peers before it
    decides that they are silent. A timer that a message sets for now fires in the same turn, after all
    messages; one that a timer sets for now fires in the next.
T3  Effects are carried out in order. Sends are queued, or held while the write they name is not
    durable. Plain writes are gathered until T5, or until anything else is done with the disk.
T4  One write per peer. It goes out before the sync, so that peers work while our disk does.
T5  Gathered writes, then one sync per dirty file. It succeeds, or the node stops: after a failed sync
    nobody knows what is on the disk. Held sends are released.
T6  The machines hear at once what has become durable, before the network is looked at again: somebody
    waits for the acknowledgements that come of it. These, and what was held, leave with a second write.
    What is to be written because of them waits for the next turn, which follows at once.

Between turns the loop serves sockets and HTTP. With nothing to do it sleeps until the network wakes it
or a timer is due. No task, lock or future is made per message.

Bounds: events of a turn, messages that wait (beyond that the network stops reading), timers. Each
machine has its own share of a turn for its local events, so that a busy one does not starve the rest.

A machine may be for *bulk*: what it has to do may be much. Its messages come after those of all others, and
a turn works on them no longer than ``turn_bulk_ms_max``; the rest waits for the next turn. Its files are
synced after those of all others, who hear of theirs (T6) before that, and at most ``turn_bulk_files_max`` of
them in one turn: what is left waits, in order. So however much a data node is asked
for, the heartbeats of a keeper and an operator are late by a turn at most, which is not long.

Crash-only: an exception from a machine, a full stop from the disk, or a violated invariant (checked in
a debug setting) ends the node at once. Nothing is cleaned up for the next incarnation, which has to
cope with ``kill -9`` anyway.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from motet.core.machine import NS_PER_MS, ClientLeft, Event, Message, Now, Received, Started
from motet.errors import NodeError
from motet.format.frame import UNDECODABLE
from motet.ids import Address
from motet.limits import turn_bulk_files_max, turn_bulk_ms_max, turn_events_max
from motet.node.client_requests import ClientRequests
from motet.node.counters import Counters
from motet.node.hosted import Hosted, Recorder
from motet.node.hosting import Hosting, LocalPort
from motet.node.logs import complain, logger
from motet.ports import Delivery, Entropy, Network, Time
from motet.real.hello import CLIENT_PREFIX

Unstepped = tuple[Hosted, Address, Message]
"""A message that has been received: for whom, and from whom."""

taken_at_once = 48
"""Messages between two looks at how long the turn has lasted. Fewer would cost more than they save: what
clients want together is put into one entry only if no message of a node comes between."""


class Driver:
    """Runs machines until it is stopped or something is wrong.

    ::

        driver = Driver(hostings, time=time, entropy=entropy)
        network = TcpNetwork(..., wake=driver.wake)
        driver.start(network)
        await driver.finished      # raises NodeError if the node had to stop
    """

    def __init__(
        self,
        hostings: Sequence[Hosting[Any]],
        *,
        time: Time,
        entropy: Entropy,
        recorder: Recorder | None = None,
        check_invariants: bool = False,
    ) -> None:
        assert hostings, "a driver without machines"
        assert len({hosting.name for hosting in hostings}) == len(hostings), "one name, one machine"
        assert len({hosting.kind for hosting in hostings}) == len(hostings), "one kind, one machine"
        self.counters = Counters()
        #: in the order of the hostings; empty before ``start``
        self.hosted: list[Hosted] = []
        self._hostings = hostings
        self._time = time
        self._entropy = entropy
        self._recorder = recorder
        self._check_invariants = check_invariants
        self._by_kind: dict[int, Hosted] = {}
        #: those for bulk, and all others
        self._bulk: list[Hosted] = []
        self._others: list[Hosted] = []
        self._local_ports: list[LocalPort] = []
        #: of a turn's events a quarter each is for completions and for timers, in equal shares for
        #: the machines; the rest, at least half, is for the network
        self._share = turn_events_max // (4 * len(hostings))
        assert self._share > 0, "more machines than events in a turn"
        self._running = False
        self._turn_is_due = False
        self._network_has_more = False
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ns: int | None = None
        #: decides which requests of clients are taken now; None: all
        self.client_requests: ClientRequests | None = None
        #: says why the node cannot serve though all its machines can, a line each
        self.also_needed: Callable[[], list[str]] = list

    # Life

    def start(self, network: Network) -> None:
        """Begin an incarnation: new machines, each with ``Started`` as its first event."""
        assert not self.hosted, "a driver is started once"
        self._loop = asyncio.get_running_loop()
        self._network = network
        self.finished: asyncio.Future[None] = self._loop.create_future()
        for hosting in self._hostings:
            hosted = Hosted(
                hosting,
                network,
                self.counters,
                recorder=self._recorder,
                check_invariants=self._check_invariants,
                neighbours=self._by_kind,
                wake=self.wake,
            )
            if self.client_requests is not None:
                hosted.answered = self.client_requests.answered
            hosted.tell(Started, self._entropy.nonce())
            self.hosted.append(hosted)
            (self._bulk if hosting.is_bulk else self._others).append(hosted)
            if hosting.local is not None:
                self._local_ports.append(hosting.local)
            self._by_kind[hosting.kind] = hosted
            if hosting.first_kind is not None:
                self._by_kind[hosting.first_kind] = hosted
        self._running = True
        self.wake()

    def wake(self) -> None:
        """Have a turn soon: called by the network when frames have arrived. Cheap to call often."""
        if self._running and not self._turn_is_due:
            self._turn_is_due = True
            self._loop.call_soon(self._turn)

    def tell(self, machine: str, event: Callable[..., Event], *fields: object) -> None:
        """Give a machine something that did not come over the network, in the next turn."""
        for hosted in self.hosted:
            if hosted.name == machine:
                hosted.tell(event, *fields)
        self.wake()

    def client_left(self, client: Address) -> None:
        """The connection of a client is gone."""
        for hosted in self.hosted:
            if hosted.hosting.hears_who_left:
                hosted.tell(ClientLeft, client)
                self.wake()

    def stop(self) -> None:
        """End between two turns. What was released is handed over; what is pending is as after a crash."""
        if self._running:
            self._network.flush()
            self._end()
            self.finished.set_result(None)

    @property
    def kinds(self) -> tuple[int, ...]:
        """The kinds of frames that its machines take."""
        return tuple(int(hosting.kind) for hosting in self._hostings)

    @property
    def bulk_kinds(self) -> frozenset[int]:
        """Those of them that come after all others."""
        return frozenset(int(each.kind) for each in self._hostings if each.is_bulk)

    @property
    def running(self) -> bool:
        return self._running

    def not_serving(self) -> list[str]:
        """Why this node cannot serve, a line for each reason; empty when it can."""
        if not self._running:
            return ["the node is not running"]
        reasons = self.also_needed()
        for hosted in self.hosted:
            reason = hosted.hosting.serving(hosted.machine)
            if reason is not None:
                reasons.append(f"{hosted.name}: {reason}")
        return reasons

    def _end(self) -> None:
        self._running = False
        if self._alarm is not None:
            self._alarm.cancel()

    def _die(self, error: Exception) -> None:
        self._end()
        if not isinstance(error, NodeError):
            failure = NodeError(f"the driver failed: {error!r}")
            failure.__cause__, error = error, failure
        logger.critical("node_stopped", exc_info=error, extra={"fields": {"why": error.what}})
        self.finished.set_exception(error)
        self.finished.exception()  # it is in the log, so asyncio need not insist that somebody looks

    # A turn

    def _turn(self) -> None:
        self._turn_is_due = False
        if not self._running:
            return
        try:
            self._step_machines(self._time.now())
            self._flush()
            for some, files_max in ((self._others, None), (self._bulk, turn_bulk_files_max)):
                for hosted in some:
                    if hosted.disk.pending or hosted.held:
                        hosted.sync(files_max)
                self._tell_durable()
            self._rest()
        except Exception as error:
            self._die(error)

    # Most turns concern one machine of several: the others are looked at without a call.

    def _step_machines(self, now: Now) -> None:
        share, now_ns = self._share, now.monotonic_ns
        count = 0
        for some in (self._others, self._bulk):
            for hosted in some:
                hosted.now_ns = now_ns
                if hosted.local or hosted.disk.durable:
                    count += hosted.take_local(now, share)
        count += self._receive(now, turn_events_max - count - share * len(self.hosted))
        for hosted in self.hosted:
            heap = hosted.timers.heap
            if heap and heap[0][0] <= now_ns:
                count += hosted.take_timers(now, share)
        self.counters.turns += 1
        self.counters.events += count

    def _tell_durable(self) -> None:
        now = None
        for hosted in self.hosted:
            if hosted.disk.durable:
                now = now or self._time.now()
                self.counters.events += hosted.take_durable(now, self._share)
        if now is not None:
            self._flush()

    def _flush(self) -> None:
        self._network.flush()
        for port in self._local_ports:
            port.flush()

    def _receive(self, now: Now, limit: int) -> int:
        requests = self.client_requests
        ready = () if requests is None else requests.take_ready(limit)
        for machine, sender, message in ready:
            machine.step(Received(now, sender, message))
        limit -= len(ready)
        last: Unstepped | None = None
        count, until_ns = 0, now.monotonic_ns + turn_bulk_ms_max * NS_PER_MS
        self._network_has_more = True
        while count < limit:
            wanted = min(taken_at_once, limit - count) if self._bulk else limit
            deliveries = self._network.take(wanted)
            last = self._step_received(now, deliveries, last)
            count += len(deliveries)
            if len(deliveries) < wanted:
                self._network_has_more = False
                break
            if self._bulk and self._time.now().monotonic_ns >= until_ns:
                break
        if last is not None:
            last[0].step(Received(now, last[1], last[2]))
        self.counters.frames_received += count
        return count + len(ready)

    def _step_received(
        self, now: Now, deliveries: Sequence[Delivery], last: Unstepped | None
    ) -> Unstepped | None:
        """Step through messages, but the last: of each is said whether another follows for its machine."""
        requests = self.client_requests
        by_kind = self._by_kind
        for delivery in deliveries:
            frame = delivery.frame
            hosted = by_kind.get(frame.kind)
            if hosted is None:
                count = self.counters.refuse_frame("unknown_kind")
                complain(count, "frame_refused", sender=delivery.sender, kind=frame.kind)
                continue
            try:
                message = hosted.decode(frame.body)
            except UNDECODABLE as error:
                hosted.refuse(delivery.sender, error)
                continue
            allowed = hosted.from_clients
            if (
                allowed is not None
                and type(message) not in allowed
                and delivery.sender.startswith(CLIENT_PREFIX)
            ):
                hosted.refuse_client(delivery.sender, message)
                continue
            if requests is not None and not requests.admit(hosted, delivery.sender, message):
                continue
            if last is not None:
                last[0].step(Received(now, last[1], last[2], last[0] is hosted))
            last = hosted, delivery.sender, message
        return last

    def _rest(self) -> None:
        """Go on at once if there is something to do, else wake up for the next timer."""
        due_ns: int | None = None
        requests = self.client_requests
        is_busy = self._network_has_more or (requests is not None and requests.is_due)
        for hosted in self.hosted:
            disk, heap = hosted.disk, hosted.timers.heap
            if is_busy or hosted.local or disk.durable or disk.pending:
                self.wake()
                return
            if heap and (due_ns is None or heap[0][0] < due_ns):
                due_ns = heap[0][0]
        if self._alarm_ns is not None and due_ns is not None and self._alarm_ns <= due_ns:
            return  # the alarm is set already; one that rings early finds nothing due, and is set anew
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm, self._alarm_ns = None, due_ns
        if due_ns is not None:
            delay_ns = due_ns - self._time.now().monotonic_ns
            if delay_ns <= 0:
                self._ring()
            else:
                # Loops count in milliseconds: an alarm that rings a little early would ring again and again.
                self._alarm = self._loop.call_later(-(-delay_ns // NS_PER_MS) / 1e3, self._ring)

    def _ring(self) -> None:
        self._alarm, self._alarm_ns = None, None
        self.wake()
