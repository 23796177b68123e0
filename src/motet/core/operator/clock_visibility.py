"""Clock visibility: the setting ``clock.enabled`` stands in the store, and takes effect shard by shard.

What it does is P3 of :mod:`motet.core.streams.orders`. Here is how leaders hear of it.

L1  What stands in the store counts, whoever has written it. Every heartbeat tells it, together with the
    version of its node there; a leader whose log knows only an older one logs the order, and says in its
    answers which version its log has.
L2  Versions rise: what an operator says that is behind changes nothing. Nobody here deletes the setting; if
    somebody else has, it is written again with what it was to be counted from, as in ``false 7``.
L3  Whoever asked for it is answered when every shard has obeyed; and a stream is there for whoever creates it
    when its shards have.
"""

from __future__ import annotations

import re

from motet.core.metadata.messages import Found
from motet.core.metadata.paths import CLOCK_ENABLED
from motet.core.operator.context import Core
from motet.core.operator.state import CallKind, ShardControl, StoreCall, WaitingClient
from motet.core.streams.cluster_messages import EnableClock, OperatorDone, ShardStatus, TurnClock
from motet.errors import OutcomeUnknown
from motet.ids import ShardName

ON, OFF = "true", "false"
SETTING = re.compile(rf"({ON}|{OFF})(?: (\d{{1,9}}))?")


def is_enabled(core: Core) -> bool:
    """Whether clocks are shown, as the setting says."""
    return core.state.clock_visibility is None or core.state.clock_visibility.is_on


def take_settings(core: Core, found: list[Found]) -> None:
    """The settings have been read."""
    core.state.visibility_stored = None
    for each in found:
        if each.path == CLOCK_ENABLED:
            text = each.data.decode(errors="replace").strip()
            _take_setting(core, text, each.stat.version)


def _take_setting(core: Core, text: str, version: int) -> None:
    core.state.visibility_stored = version
    setting = SETTING.fullmatch(text)
    if setting is None:
        core.note("bad_setting", f"{CLOCK_ENABLED}: {text[:40]!r}")
    else:
        _take(core, TurnClock(setting[1] == ON, version + int(setting[2] or 0)))


def _take(core: Core, clock_visibility: TurnClock) -> None:
    state = core.state
    if state.clock_visibility is None or clock_visibility.version > state.clock_visibility.version:
        core.note(
            "clock_enabled",
            f"{ON if clock_visibility.is_on else OFF}, version {clock_visibility.version}",
        )
        state.clock_visibility = clock_visibility
        state.map_changed = True


# Whoever asks for it


def enable_clock(core: Core, waiting: WaitingClient, message: EnableClock) -> None:
    """Write the setting, if it stands otherwise."""
    clock_visibility = core.state.clock_visibility
    waiting.visibility_version = -1 if clock_visibility is None else clock_visibility.version
    _put(core, message)


def _put(core: Core, message: EnableClock) -> None:
    state = core.state
    is_asked = any(call.kind is CallKind.PUT_CLOCK_VISIBILITY for call in state.calls.values())
    clock_visibility, stored = state.clock_visibility, state.visibility_stored
    version = -1 if clock_visibility is None else clock_visibility.version
    is_obeyed = state.visibility_heard <= version
    if (is_enabled(core) == message.is_enabled and is_obeyed) or is_asked:
        return
    text = ON if message.is_enabled else OFF
    counted_from = max(version, state.visibility_heard) - (-1 if stored is None else stored)
    if counted_from > 0:
        text += f" {counted_from}"
    call = StoreCall(CallKind.PUT_CLOCK_VISIBILITY, core.now_ns, about=text)
    core.put(CLOCK_ENABLED, text.encode(), stored, call)


def on_clock_visibility_put(core: Core, call: StoreCall, version: int) -> None:
    """The setting stands."""
    _take_setting(core, call.about, version)
    core.ask_nodes()  # so that leaders hear of it


def settle_clock_visibility(core: Core, waiting: WaitingClient, message: EnableClock) -> None:
    """Answer when all have obeyed (L3); write again what an unknown outcome has left unwritten."""
    clock_visibility = core.state.clock_visibility
    if is_enabled(core) != message.is_enabled:
        if clock_visibility is not None and clock_visibility.version > waiting.visibility_version:
            what = "somebody else has set it otherwise meanwhile"
            core.refuse(waiting, OutcomeUnknown(what, hint="see how it stands: `motet clock`"))
        else:
            _put(core, message)
    elif all(has_obeyed(core, control) for control in core.state.shards.values()):
        text = "on" if message.is_enabled else "off"
        core.answer(waiting, OperatorDone(message.request, f"the clock is {text}"))


# Leaders


def has_obeyed(core: Core, control: ShardControl) -> bool:
    """Whether the log of a shard has what the setting says; one that is being deleted need not."""
    clock_visibility = core.state.clock_visibility
    if clock_visibility is None or control.visibility_version >= clock_visibility.version:
        return True
    return control.metadata is not None and control.metadata.status is ShardStatus.DELETING


def take_turned(core: Core, turned: tuple[tuple[ShardName, int], ...]) -> None:
    """A node says how far shards that it leads have obeyed. What is in a log stays there."""
    clock_visibility = core.state.clock_visibility
    for shard, version in turned:
        control = core.state.shards.get(shard)
        if clock_visibility is None or version > clock_visibility.version:
            # Nobody can have obeyed what was never set. What is set next is above it.
            core.state.visibility_heard = max(core.state.visibility_heard, version)
            continue
        if control is not None and version > control.visibility_version:
            control.visibility_version = version
            core.state.map_changed = True  # somebody may wait for it
