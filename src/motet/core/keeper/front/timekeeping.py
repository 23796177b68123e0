"""What a front end does each time ``pulse_ms`` have passed, and with what comes of it (U1, U2, U3).

U4  Where all clients live in the process of the only replica, a session ends with a goodbye or with the
    process, and needs neither pulses nor touches: nothing is written while nobody asks for anything. What a
    former process has left is ended by the first operation of the next one, before any other.
"""

from __future__ import annotations

from motet.core.keeper.front.desk import Desk
from motet.core.keeper.front.lanes import NOBODY
from motet.core.keeper.front.pulses import is_unsure_too_long, sessions_at_once
from motet.core.keeper.operations import (
    AnyOperation,
    EndSessions,
    Outcome,
    Touch,
    Touched,
    WholeOperation,
)
from motet.core.machine import SetTimer
from motet.ids import TimerName

PULSE = TimerName("front/pulse")

_lane_of_our_own = 0


def begin(desk: Desk) -> None:
    if desk.config.is_in_process:
        _add(desk, EndSessions())  # U4
    else:
        _set_timer(desk)


def _set_timer(desk: Desk) -> None:
    desk.effects.append(SetTimer(PULSE, desk.config.pulse_ms, in_step=True))


def on_timer(desk: Desk) -> None:
    _set_timer(desk)
    _hang_up_unsure(desk)
    if desk.state.pulses.touching is None:
        _touch(desk)
    _pulse(desk)


def _hang_up_unsure(desk: Desk) -> None:
    """U3."""
    now_ns = desk.now.monotonic_ns
    for address in desk.state.pulses.unsure():
        connection = desk.state.connections.by_address.get(address)
        if connection is None or not connection.is_open:
            continue
        if is_unsure_too_long(connection.touched_monotonic_ns, now_ns, connection.timeout_ms):
            desk.hang_up(connection, "this replica is cut off")


def _touch(desk: Desk) -> None:
    """U1."""
    pulses = desk.state.pulses
    known = [desk.state.connections.by_address[address] for address in pulses.heard]
    heard = {each.address: (each.session, each.generation) for each in known if each.is_open}
    at_once = sessions_at_once(desk.core.config.body_bytes_max, desk.keeper.config.reply_bytes_max)
    now_ns = desk.now.monotonic_ns
    for touch in pulses.begin_touching(heard, now_ns, at_once):
        _add(desk, touch)


def _pulse(desk: Desk) -> None:
    """U2."""
    pulses, core = desk.state.pulses, desk.core
    if not core.is_primary or not desk.keeper.counts().sessions:
        pulses.pulse_view = None
        return
    pulse = pulses.begin_pulse(core.state.view, desk.now.monotonic_ns, desk.config.pulse_ms)
    if pulse is not None:
        _add(desk, pulse)


def _add(desk: Desk, operation: WholeOperation) -> None:
    (item,) = desk.lanes.items(NOBODY, 0, operation)  # it was made to fit
    desk.lanes.add(_lane_of_our_own, item)


def on_outcome(desk: Desk, operation: AnyOperation, outcome: Outcome | None) -> None:
    """Of what was not asked by a client; None if nobody knows."""
    if isinstance(operation, Touch):
        _on_touched(desk, operation, None if outcome is None else outcome.result)
    elif isinstance(operation, EndSessions):
        assert outcome is not None, "the one lane of the only replica is never evicted"
    else:
        desk.state.pulses.is_pulsing = False


def _on_touched(desk: Desk, touch: Touch, result: object) -> None:
    pulses = desk.state.pulses
    begun_ns = pulses.end_touch()
    refused = dict(result.refused) if isinstance(result, Touched) else {}
    for session, generation in touch.sessions:
        connection = desk.state.connections.of_session(session)
        if connection is None or connection.generation != generation:
            continue
        if not isinstance(result, Touched):
            pulses.heard[connection.address] = None  # to be said again
        elif session not in refused:
            connection.touched_monotonic_ns = begun_ns
        elif not connection.is_closing:
            desk.hang_up(connection, "the session is not this connection's any more")
