"""What a network counts: plain numbers, read when somebody asks."""

from __future__ import annotations

from dataclasses import dataclass, field

from motet.real.hello import Refusal


@dataclass(slots=True)
class NetworkCounters:
    """Everything one network has counted since its start."""

    frames_in: int = 0
    frames_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    #: frames that never left, by why: nobody of that name, no room in the queue, nobody there
    dropped_unknown: int = 0
    dropped_full: int = 0
    dropped_unreachable: int = 0
    #: connections that are open now, in both directions, and all there ever were
    connections: int = 0
    connections_total: int = 0
    dials: int = 0
    dials_failed: int = 0
    #: what is kept for clients now: answers they have not taken, and frames they have not finished
    unsent_bytes: int = 0
    unfinished_bytes: int = 0
    #: how often a full inbox stopped all reading
    pauses: int = 0
    #: connections closed by us, by why
    refused: dict[Refusal, int] = field(default_factory=lambda: dict.fromkeys(Refusal, 0))
    #: the newest of them, for people
    last_refusal: str = ""
