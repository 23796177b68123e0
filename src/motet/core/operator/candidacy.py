"""Standing for the office of the operator: a session, watches on what others write, and an entry.

C1  With every session the operator sets its watches and stands for election anew; what it is told under an
    earlier session does not count.
C2  It is active from the moment its entry is the oldest until the session ends, or the entry is deleted.
    Others may believe the same of themselves: every write is a compare-and-set.
C3  A watch or a candidacy that could not be entered is asked for again.
C4  What is watched is read after the watch is set: what changed before that is told by nobody.
"""

from __future__ import annotations

from motet.core.machine import Send
from motet.core.metadata.messages import (
    METADATA,
    NO_SESSION,
    MetadataAnswer,
    Stand,
    Standing,
    Watch,
    Watching,
    WatchOf,
)
from motet.core.metadata.paths import NODES, OPERATORS
from motet.core.operator.context import Core
from motet.core.operator.loading import WATCHED
from motet.ids import RequestId, SessionId, TimerName

CANDIDACY = TimerName("candidacy")


def begin(core: Core, session: SessionId) -> None:
    """A session has begun (C1)."""
    state = core.state
    state.session, state.entering = session, {}
    state.to_enter = dict.fromkeys((*WATCHED, OPERATORS))
    enter(core)


def end(core: Core) -> None:
    """The session is over."""
    core.state.session = NO_SESSION
    core.state.entering, core.state.to_enter = {}, {}
    core.no_timer(CANDIDACY)


def stand_again(core: Core) -> None:
    """Somebody has deleted the entry while the session lasts."""
    core.state.to_enter[OPERATORS] = None
    enter(core)


def enter(core: Core) -> None:
    """Ask for everything that has not been entered."""
    state = core.state
    wanted, state.to_enter = state.to_enter, {}
    for path in wanted:
        request = core.next_request()
        state.entering[request] = path
        if path == OPERATORS:
            message: Stand | Watch = Stand(request, state.session, path, state.own)
        else:
            # An entry of a node never changes, it is replaced.
            of = WatchOf.CHILDREN if path == NODES else WatchOf.BELOW
            message = Watch(request, state.session, path, of)
        core.effects.append(Send(METADATA, message))


def on_answer(core: Core, message: MetadataAnswer) -> bool:
    """Whether it was about a watch or the candidacy."""
    path = core.state.entering.pop(RequestId(message.request), None)
    if path is None:
        return False
    if isinstance(message, Watching):
        if core.state.is_active:
            core.state.dirty[path] = None  # C4
    elif not isinstance(message, Standing):  # C3
        core.state.to_enter[path] = None
        core.timer(CANDIDACY, core.config.retry_ms_max)
    return True
