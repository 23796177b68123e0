"""Sessions, and the logical time they live by.

Time here is a count of milliseconds that stands still unless a *pulse* is applied. The primary of a view
logs pulses, each worth at most ``pulse_ms_max``; front ends log touches for whom they have heard of. So
all replicas agree on when a session is over, and a stall, a jump of a clock or a change of the primary
makes it live longer, never shorter.

L1  A session expires only when a pulse is applied, and only if its last touch is more than its timeout
    ago, and ``grace_ms`` more. It ends once: then it is gone, and its number is never used again.
L2  The first pulse of a newer view moves no time and counts as a touch of every session. A pulse of an
    older view does nothing at all.
L3  A session is spoken for by its latest generation alone. Attaching it again, for which its password is
    needed, makes the next one; older ones are refused from then on.
L4  Identities belong to a generation: who connects again proves anew who he is.
L5  All that a session does in its own name is a touch.
"""

from __future__ import annotations

from typing import Self

import msgspec

from motet.core.keeper.acl import Identity, is_identity
from motet.core.keeper.config import KeeperConfig
from motet.core.keeper.ids import Generation
from motet.format.zookeeper.messages import ErrorCode
from motet.ids import SessionId, View

FIRST_SESSION = SessionId(1)
NO_VIEW = View(-1)


class Session(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A client that is, for all we know, alive."""

    id: SessionId
    timeout_ms: int
    password: bytes
    generation: Generation
    #: in logical time; a newer view may have granted more (L2)
    touched_ms: int
    identities: tuple[Identity, ...]
    #: of a write that has not come in whole yet
    pieces: tuple[bytes, ...] = ()


class SessionClock(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """What sessions have in common."""

    session_next: SessionId = FIRST_SESSION
    now_ms: int = 0
    #: when all sessions were last granted a full timeout
    granted_ms: int = 0
    #: of the latest pulse
    view: View = NO_VIEW


class Sessions:
    """The table, on ``config.session_pages`` pages of a checkpoint."""

    def __init__(
        self,
        config: KeeperConfig,
        by_id: dict[SessionId, Session] | None = None,
        clock: SessionClock | None = None,
    ) -> None:
        self._config = config
        self.by_id: dict[SessionId, Session] = {} if by_id is None else by_id
        self.clock = SessionClock() if clock is None else clock
        #: page number -> sessions on it; no page is empty
        self._pages: dict[int, dict[SessionId, None]] = {}
        self._changed: dict[int, None] = {}
        for number in self.by_id:
            self._pages.setdefault(self._page_of(number), {})[number] = None

    # Who speaks

    def refusal(self, session: SessionId, generation: Generation) -> int:
        """Why this generation may not speak for this session, 0 if it may (L3)."""
        found = self.by_id.get(session)
        if found is None:
            return ErrorCode.SESSION_EXPIRED
        return 0 if found.generation == generation else ErrorCode.SESSION_MOVED

    def touch(self, session: Session) -> None:
        if session.touched_ms != self.clock.now_ms:
            session.touched_ms = self.clock.now_ms
            self._change(session.id)

    def changed(self, session: Session) -> None:
        """Something of it is not as it was."""
        self._change(session.id)

    def add_identity(self, session: Session, identity: Identity) -> bool:
        if identity in session.identities:
            return True
        is_full = len(session.identities) >= self._config.identities_max
        if is_full or not is_identity(self._config, identity):
            return False
        session.identities = (*session.identities, identity)
        self._change(session.id)
        return True

    # Coming and going

    def open(self, timeout_ms: int, password: bytes) -> Session | None:
        """A new session; None if there are too many, or nobody could remember this password."""
        config, clock = self._config, self.clock
        if len(self.by_id) >= config.sessions_max or len(password) > config.password_bytes_max:
            return None
        timeout_ms = min(max(timeout_ms, config.timeout_ms_min), config.timeout_ms_max)
        session = Session(clock.session_next, timeout_ms, password, Generation(1), clock.now_ms, ())
        clock.session_next = SessionId(session.id + 1)
        self.by_id[session.id] = session
        self._pages.setdefault(self._page_of(session.id), {})[session.id] = None
        self._change(session.id)
        return session

    def reattach(self, number: SessionId, password: bytes) -> Session | None:
        """The session, in its next generation (L3, L4); None if there is none, or not with this password."""
        session = self.by_id.get(number)
        if session is None or session.password != password:
            return None
        session.generation = Generation(session.generation + 1)
        session.identities, session.pieces = (), ()
        session.touched_ms = self.clock.now_ms
        self._change(number)
        return session

    def end(self, number: SessionId) -> None:
        del self.by_id[number]
        page = self._page_of(number)
        del self._pages[page][number]
        if not self._pages[page]:
            del self._pages[page]
        self._change(number)

    # Time

    def pulse(self, elapsed_ms: int, view: View) -> list[SessionId]:
        """Let time pass; the sessions that are over by now, in order, still in the table (L1, L2)."""
        clock = self.clock
        if view != clock.view:
            if view > clock.view:
                clock.view, clock.granted_ms = view, clock.now_ms
            return []
        clock.now_ms += min(max(elapsed_ms, 0), self._config.pulse_ms_max)
        return sorted(session.id for session in self.by_id.values() if self._is_over(session))

    def _is_over(self, session: Session) -> bool:
        last_ms = max(session.touched_ms, self.clock.granted_ms)
        return self.clock.now_ms - last_ms > session.timeout_ms + self._config.grace_ms

    # Pages

    @property
    def pages(self) -> tuple[int, ...]:
        return tuple(sorted(self._pages))

    def page(self, number: int) -> list[Session]:
        return [self.by_id[session] for session in sorted(self._pages.get(number, ()))]

    def take_changed(self) -> list[int]:
        changed, self._changed = self._changed, {}
        return list(changed)

    def _change(self, number: SessionId) -> None:
        self._changed[self._page_of(number)] = None

    def _page_of(self, number: SessionId) -> int:
        return number % self._config.session_pages

    def clone(self) -> Self:
        by_id = {number: msgspec.structs.replace(each) for number, each in self.by_id.items()}
        twin = type(self)(self._config, by_id, msgspec.structs.replace(self.clock))
        twin._changed = dict(self._changed)
        return twin
