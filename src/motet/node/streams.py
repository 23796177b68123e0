"""The streams of a node, as its driver hosts them."""

from __future__ import annotations

from collections.abc import Mapping

from motet.core.streams.machine import StreamsMachine
from motet.core.streams.messages import StreamsCall
from motet.core.streams.state import Phase
from motet.format.frame import FrameKind
from motet.node.hosting import Hosting
from motet.ports.disk import Disk

STREAMS_MACHINE = "streams"


def host_streams(disk: Disk) -> Hosting[StreamsMachine]:
    """This node's streams, with these files."""
    return Hosting(
        name=STREAMS_MACHINE,
        kind=FrameKind.STREAMS,
        messages=StreamsCall,
        machine=StreamsMachine,
        disk=disk,
        serving=_why_streams_do_not_serve,
        describe=_describe,
    )


def _why_streams_do_not_serve(machine: StreamsMachine) -> str | None:
    state = machine.state
    if state.phase is Phase.SERVING:
        return None
    if state.broken is not None:
        return " ".join(state.broken)
    return f"it is {state.phase.value}"


def _describe(machine: StreamsMachine) -> Mapping[str, object]:
    state = machine.state
    return {
        "phase": state.phase.value,
        "clock": str(state.clock.last),
        "streams": len(state.index.streams),
        "waiting": len(state.waiting) + len(state.pending),
    }
