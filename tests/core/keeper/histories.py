"""Operations of a few clients on a few nodes, for tests that draw them."""

from __future__ import annotations

from hypothesis import strategies as st
from tests.core.keeper.keepers import OPEN, PASSWORD

from motet.core.keeper.ids import Generation
from motet.core.keeper.operations import (
    AddIdentity,
    AnyOperation,
    EndSession,
    EndSessions,
    OpenSession,
    Pulse,
    Reattach,
    Touch,
    Write,
)
from motet.format.zookeeper.messages import (
    Acl,
    Check,
    Create,
    Create2,
    Delete,
    Multi,
    SetAcl,
    SetData,
    WriteRequest,
)
from motet.ids import SessionId, View

PATHS = st.sampled_from(
    ["/", "/a", "/b", "/a/b", "/a/c", "/a/b/c", "/a/s-", "/a/s-0000000001", "/a/", "bad", "/a//b"]
)
DATA = st.binary(max_size=3)
VERSIONS = st.sampled_from([-1, -1, -1, 0, 1, 2])
FLAGS = st.sampled_from([0, 0, 1, 2, 2, 3, 3])
SESSIONS = st.sampled_from([1] * 6 + [2, 2, 3, 4]).map(SessionId)
GENERATIONS = st.sampled_from([1] * 8 + [2]).map(Generation)

SINGLES: st.SearchStrategy[Create | Create2 | Delete | SetData | Check] = st.one_of(
    st.builds(Create, PATHS, DATA, st.just(OPEN), FLAGS),
    st.builds(Create2, PATHS, DATA, st.just(OPEN), FLAGS),
    st.builds(Delete, PATHS, VERSIONS),
    st.builds(SetData, PATHS, DATA, VERSIONS),
    st.builds(Check, PATHS, VERSIONS),
)
REQUESTS: st.SearchStrategy[WriteRequest] = st.one_of(
    SINGLES, *[st.builds(Multi, st.lists(SINGLES, min_size=1, max_size=5).map(tuple))] * 4
)
ABOUT_SESSIONS: st.SearchStrategy[AnyOperation] = st.one_of(
    st.builds(OpenSession, st.integers(0, 400), st.just(PASSWORD)),
    st.builds(Reattach, SESSIONS, st.sampled_from([PASSWORD, PASSWORD, b"wrong"])),
    st.builds(EndSession, SESSIONS, GENERATIONS),
    st.just(EndSessions()),
    st.builds(Touch, st.lists(st.tuples(SESSIONS, GENERATIONS), max_size=3).map(tuple)),
    st.builds(Pulse, st.integers(-10, 150), st.sampled_from([0, 0, 0, 0, 1, 2]).map(View)),
)
PLAIN_OPERATIONS: st.SearchStrategy[AnyOperation] = st.one_of(
    *[st.builds(Write, SESSIONS, GENERATIONS, REQUESTS)] * 12, ABOUT_SESSIONS
)
"""Without permissions."""

LISTS = st.sampled_from(
    [OPEN, (Acl(31, "auth", ""),), (Acl(1, "world", "anyone"), Acl(30, "digest", "a:1")), ()]
)
OPERATIONS: st.SearchStrategy[AnyOperation] = st.one_of(
    PLAIN_OPERATIONS,
    st.builds(AddIdentity, SESSIONS, GENERATIONS, st.just("digest"), st.sampled_from(["a:1", "b"])),
    st.builds(Write, SESSIONS, GENERATIONS, st.builds(SetAcl, PATHS, LISTS, VERSIONS)),
    st.builds(Write, SESSIONS, GENERATIONS, st.builds(Create, PATHS, DATA, LISTS, st.just(0))),
)
