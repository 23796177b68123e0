"""What a front end does each time ``pulse_ms`` have passed, and with what comes of it (U1, U2, U3).

U4  Where all clients live in the process of the only replica, a session ends with a goodbye or with the
    process, and needs neither pulses nor touches: nothing is written while nobody asks for anything. What a
    former process has left is ended by the first operation of the next one, before any other.
"""

from __future__ import annotations

from motet.core.keeper.front.context import FrontEndContext
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


def begin(context: FrontEndContext) -> None:
    if context.config.is_in_process:
        _add(context, EndSessions())  # U4
    else:
        _set_timer(context)


def _set_timer(context: FrontEndContext) -> None:
    context.effects.append(SetTimer(PULSE, context.config.pulse_ms, in_step=True))


def on_timer(context: FrontEndContext) -> None:
    _set_timer(context)
    _hang_up_unsure(context)
    if context.state.pulses.touching is None:
        _touch(context)
    _pulse(context)


def _hang_up_unsure(context: FrontEndContext) -> None:
    """U3."""
    now_ns = context.now.monotonic_ns
    for address in context.state.pulses.unsure():
        connection = context.state.connections.by_address.get(address)
        if connection is None or not connection.is_open:
            continue
        if is_unsure_too_long(connection.touched_monotonic_ns, now_ns, connection.timeout_ms):
            context.hang_up(connection, "this replica is cut off")


def _touch(context: FrontEndContext) -> None:
    """U1."""
    pulses = context.state.pulses
    known = [context.state.connections.by_address[address] for address in pulses.heard]
    heard = {each.address: (each.session, each.generation) for each in known if each.is_open}
    at_once = sessions_at_once(
        context.core.config.body_bytes_max, context.keeper.config.reply_bytes_max
    )
    now_ns = context.now.monotonic_ns
    for touch in pulses.begin_touching(heard, now_ns, at_once):
        _add(context, touch)


def _pulse(context: FrontEndContext) -> None:
    """U2."""
    pulses, core = context.state.pulses, context.core
    if not core.is_primary or not context.keeper.counts().sessions:
        pulses.pulse_view = None
        return
    pulse = pulses.begin_pulse(core.state.view, context.now.monotonic_ns, context.config.pulse_ms)
    if pulse is not None:
        _add(context, pulse)


def _add(context: FrontEndContext, operation: WholeOperation) -> None:
    (item,) = context.lanes.items(NOBODY, 0, operation)  # it was made to fit
    context.lanes.add(_lane_of_our_own, item)


def on_outcome(context: FrontEndContext, operation: AnyOperation, outcome: Outcome | None) -> None:
    """Of what was not asked by a client; None if nobody knows."""
    if isinstance(operation, Touch):
        _on_touched(context, operation, None if outcome is None else outcome.result)
    elif isinstance(operation, EndSessions):
        assert outcome is not None, "the one lane of the only replica is never evicted"
    else:
        context.state.pulses.is_pulsing = False


def _on_touched(context: FrontEndContext, touch: Touch, result: object) -> None:
    pulses = context.state.pulses
    begun_ns = pulses.end_touch()
    refused = dict(result.refused) if isinstance(result, Touched) else {}
    for session, generation in touch.sessions:
        connection = context.state.connections.of_session(session)
        if connection is None or connection.generation != generation:
            continue
        if not isinstance(result, Touched):
            pulses.heard[connection.address] = None  # to be said again
        elif session not in refused:
            connection.touched_monotonic_ns = begun_ns
        elif not connection.is_closing:
            context.hang_up(connection, "the session is not this connection's any more")
