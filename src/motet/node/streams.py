"""The streams of a node and their catalog, as its driver hosts them."""

from __future__ import annotations

from collections.abc import Mapping

from motet.core.catalog.machine import CatalogedStreams
from motet.core.onelog.messages import StreamsCall
from motet.core.onelog.state import Phase
from motet.format.frame import FrameKind
from motet.node.hosting import Hosting, LocalPort
from motet.ports import Disk

STREAMS_MACHINE = "streams"


def host_streams(disk: Disk, local: LocalPort) -> Hosting[CatalogedStreams]:
    """This node's streams, with these files; ``local`` speaks to the keeper for them."""
    return Hosting(
        name=STREAMS_MACHINE,
        kind=FrameKind.STREAMS,
        messages=StreamsCall,
        machine=CatalogedStreams,
        disk=disk,
        serving=_why_streams_do_not_serve,
        describe=_describe,
        local=local,
    )


def _why_streams_do_not_serve(machine: CatalogedStreams) -> str | None:
    if machine.is_serving:
        return None
    if machine.broken is not None:
        return " ".join(machine.broken)
    phase = machine.streams.state.phase
    return f"it is {machine.state.phase.value if phase is Phase.SERVING else phase.value}"


def _describe(machine: CatalogedStreams) -> Mapping[str, object]:
    state = machine.streams.state
    return {
        "phase": state.phase.value,
        "clock": str(state.clock.last),
        "streams": len(machine.state.streams),
        "tables": len(machine.state.tables),
        "waiting": len(state.waiting) + len(state.pending) + len(machine.state.asked),
    }
