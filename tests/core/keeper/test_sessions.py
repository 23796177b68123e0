"""Sessions and their logical time: who speaks, who is over and when, and what goes with him."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.keeper.keepers import FIRST, GENERATION, OPEN, PASSWORD, SMALL, Harness

from motet.core.keeper.config import KeeperConfig
from motet.core.keeper.ids import Generation
from motet.core.keeper.operations import (
    AnyOperation,
    Attached,
    EndSession,
    OpenSession,
    Outcome,
    Pulse,
    Reattach,
    Touch,
    Touched,
    Write,
)
from motet.format.zookeeper.messages import (
    Create,
    Delete,
    ErrorCode,
    EventType,
    Exists,
    Failed,
    Nothing,
    SetData,
)
from motet.ids import SessionId, View

SECOND = SessionId(2)


def attached(outcome: Outcome) -> Attached:
    assert isinstance(outcome.result, Attached)
    return outcome.result


def is_alive(harness: Harness, session: SessionId = FIRST) -> bool:
    return session in harness.keeper.ephemerals()


def pulses(harness: Harness, count: int, view: int = 0) -> None:
    for _ in range(count):
        harness.pulse(100, view)


# Opening and attaching


def test_numbers_are_never_used_again() -> None:
    harness = Harness(sessions=2)
    harness.one(EndSession(SECOND, GENERATION))
    assert harness.open() == 3


@pytest.mark.parametrize(
    ("asked", "given_ms"), [(0, 4_000), (-5, 4_000), (10_000, 10_000), (1 << 40, 40_000)]
)
def test_timeouts_are_moved_into_bounds(asked: int, given_ms: int) -> None:
    harness = Harness(KeeperConfig(), sessions=0)
    assert attached(harness.one(OpenSession(asked, PASSWORD))) == Attached(
        FIRST, GENERATION, given_ms
    )


def test_there_are_only_so_many_sessions() -> None:
    harness = Harness(msgspec.structs.replace(SMALL, sessions_max=2), sessions=2)
    assert harness.one(OpenSession(1000, PASSWORD)).error == ErrorCode.SYSTEM_ERROR
    harness.one(EndSession(FIRST, GENERATION))
    assert harness.open() == 3
    harness.one(EndSession(SECOND, GENERATION))
    assert harness.one(OpenSession(1000, bytes(65))).error == ErrorCode.SYSTEM_ERROR


def test_a_session_moves_and_its_past_falls_silent() -> None:
    harness = Harness()
    assert attached(harness.one(Reattach(FIRST, PASSWORD))) == Attached(FIRST, Generation(2), 1000)
    assert harness.keeper.take_applied().applied[-1].moved_sessions == (FIRST,)
    write = SetData("/", b"x", -1)
    zxid = harness.keeper.zxid
    stale = harness.one(Write(FIRST, Generation(1), write))
    assert (stale.error, stale.zxid) == (ErrorCode.SESSION_MOVED, zxid)
    assert harness.one(EndSession(FIRST, Generation(1))).error == ErrorCode.SESSION_MOVED
    assert harness.one(Write(FIRST, Generation(3), write)).error == ErrorCode.SESSION_MOVED
    assert harness.one(Write(FIRST, Generation(2), write)).error == 0
    assert harness.keeper.refusal(FIRST, Generation(1)) == ErrorCode.SESSION_MOVED
    assert harness.keeper.refusal(FIRST, Generation(2)) == 0


def test_who_comes_too_late_or_without_the_password_is_not_attached() -> None:
    harness = Harness()
    for session, password in [(FIRST, b"wrong"), (SECOND, PASSWORD)]:
        assert attached(harness.one(Reattach(session, password))).timeout_ms == 0
    assert harness.one(Write(FIRST, GENERATION, SetData("/", b"", -1))).error == 0
    harness.one(EndSession(FIRST, GENERATION))
    assert attached(harness.one(Reattach(FIRST, PASSWORD))).timeout_ms == 0


def test_a_session_that_is_unknown_or_over_is_told_so() -> None:
    harness = Harness(sessions=2)
    harness.one(EndSession(FIRST, GENERATION))
    for session in (FIRST, SessionId(9)):
        outcome = harness.one(Write(session, GENERATION, SetData("/", b"", -1)))
        assert outcome.result == Failed(ErrorCode.SESSION_EXPIRED)
    assert harness.read_error(Exists("/", False), FIRST) == ErrorCode.SESSION_EXPIRED
    assert harness.read_error(Exists("/", False), SessionId(9)) == 0, "may be known elsewhere"


# The end


def test_a_closed_session_takes_its_ephemeral_nodes_along() -> None:
    harness = Harness(sessions=2)
    harness.create("/p")
    for path in ("/p/b", "/p/a", "/e"):
        harness.create(path, 1)
    harness.create("/p/other", 1, SECOND)
    harness.create("/p/stays")
    zxid = harness.keeper.zxid
    harness.events()
    assert harness.one(EndSession(FIRST, GENERATION)) == Outcome(harness.keeper.zxid, 0, Nothing())
    (applied,) = harness.keeper.take_applied().applied
    assert applied.zxid == harness.keeper.zxid == zxid + 1
    assert applied.ended_sessions == (FIRST,)
    assert [(event.type, event.path) for event in applied.events] == [
        (EventType.DELETED, "/e"),
        (EventType.CHILD, "/"),
        (EventType.DELETED, "/p/a"),
        (EventType.CHILD, "/p"),
        (EventType.DELETED, "/p/b"),
        (EventType.CHILD, "/p"),
    ]
    assert [harness.is_there(path) for path in ("/p/other", "/p/stays")] == [True, True]
    root = harness.keeper._tree.nodes["/"]
    assert root.pzxid == zxid + 1
    assert harness.one(EndSession(FIRST, GENERATION)).error == ErrorCode.SESSION_EXPIRED


def test_what_was_deleted_before_is_not_deleted_again() -> None:
    harness = Harness(sessions=2)
    harness.create("/e", 1)
    harness.write(Delete("/e", -1), SECOND)
    harness.create("/e", 1, SECOND)
    harness.events()
    harness.one(EndSession(FIRST, GENERATION))
    assert harness.events() == []
    assert harness.is_there("/e")


# Time


def test_a_session_expires_once_when_more_than_its_timeout_has_passed() -> None:
    harness = Harness()
    harness.create("/e", 1)
    harness.pulse(0)
    pulses(harness, 10)
    assert is_alive(harness), "exactly its timeout"
    harness.events()
    zxid = harness.keeper.zxid
    harness.pulse(1)
    assert not is_alive(harness)
    assert harness.events() == [(EventType.DELETED, "/e"), (EventType.CHILD, "/")]
    assert harness.keeper.zxid == zxid + 1
    pulses(harness, 100)
    assert (harness.events(), harness.keeper.zxid) == ([], zxid + 1)


def test_a_pulse_is_worth_so_much_and_no_more() -> None:
    harness = Harness()
    harness.pulse(0)
    for _ in range(10):
        harness.pulse(1 << 60)
    assert is_alive(harness)
    harness.pulse(-(1 << 60))
    assert is_alive(harness)
    harness.pulse(1 << 60)
    assert not is_alive(harness)


def test_the_first_pulse_of_a_view_moves_no_time_and_grants_a_full_timeout() -> None:
    harness = Harness()
    harness.pulse(0, view=3)
    pulses(harness, 10, view=3)
    harness.pulse(100, view=5)
    pulses(harness, 10, view=5)
    assert is_alive(harness)
    pulses(harness, 50, view=4)
    assert is_alive(harness), "an older view's pulses are worth nothing"
    harness.pulse(1, view=5)
    assert not is_alive(harness)


def test_any_sign_of_life_counts() -> None:
    signs: list[AnyOperation] = [
        Touch(((FIRST, GENERATION),)),
        Write(FIRST, GENERATION, SetData("/", b"x", -1)),
        Write(FIRST, GENERATION, SetData("/absent", b"x", -1)),
    ]
    for sign in signs:
        harness = Harness()
        harness.pulse(0)
        pulses(harness, 10)
        harness.one(sign)
        pulses(harness, 10)
        assert is_alive(harness), sign
        pulses(harness, 1)
        assert not is_alive(harness), sign


def test_a_touch_of_an_older_generation_is_none_and_is_told() -> None:
    harness = Harness(sessions=2)
    harness.pulse(0)
    harness.one(Reattach(FIRST, PASSWORD))
    pulses(harness, 10)
    touched = harness.one(
        Touch(((FIRST, GENERATION), (SECOND, GENERATION), (SessionId(9), GENERATION)))
    )
    moved = (FIRST, int(ErrorCode.SESSION_MOVED))
    gone = (SessionId(9), int(ErrorCode.SESSION_EXPIRED))
    assert touched.result == Touched((moved, gone))
    pulses(harness, 1)
    assert (is_alive(harness, FIRST), is_alive(harness, SECOND)) == (False, True)


def test_several_end_in_order_each_at_its_own_zxid() -> None:
    harness = Harness(sessions=3)
    harness.create("/b", 1, FIRST)
    harness.create("/a", 1, SECOND)
    harness.pulse(0)
    pulses(harness, 11)
    ended = [each for each in harness.keeper.take_applied().applied if each.ended_sessions]
    assert [each.ended_sessions for each in ended] == [(1,), (2,), (3,)]
    assert [each.zxid for each in ended] == list(
        range(harness.keeper.zxid - 2, harness.keeper.zxid + 1)
    )
    assert [len(each.events) for each in ended] == [2, 2, 0]


def test_a_batch_goes_on_after_its_session_is_over() -> None:
    harness = Harness(sessions=2)
    harness.pulse(0)
    pulses(harness, 10)
    create = Create("/x", b"", OPEN, 1)
    first, _, late, other = harness.run(
        Touch(((SECOND, GENERATION),)),
        Pulse(100, View(0)),
        Write(FIRST, GENERATION, create),
        Write(SECOND, GENERATION, create),
    )
    assert first.result == Touched(())
    assert late.error == ErrorCode.SESSION_EXPIRED
    assert other.error == 0


EVENTS = st.one_of(
    st.tuples(st.just("pulse"), st.integers(-50, 300), st.integers(0, 3)),
    st.tuples(st.just("touch"), st.just(0), st.just(0)),
)


@given(st.lists(EVENTS, max_size=60))
def test_nobody_expires_before_his_timeout_has_passed_since_his_last_touch(
    events: list[tuple[str, int, int]],
) -> None:
    """Against the plainest account: what pulses can be worth, counted from the last touch or new view."""
    harness, waited_ms, view = Harness(), 0, -1
    for what, elapsed_ms, of_view in events:
        if what == "touch":
            waited_ms = 0
            harness.one(Touch(((FIRST, GENERATION),)))
        else:
            harness.pulse(elapsed_ms, of_view)
            if of_view > view:
                view, waited_ms = of_view, 0
            elif of_view == view:
                waited_ms += min(max(elapsed_ms, 0), 100)
        assert is_alive(harness) == (waited_ms <= 1000)
        if not is_alive(harness):
            return


def test_a_session_that_was_touched_between_two_pulses_lives_a_little_longer() -> None:
    harness = Harness(msgspec.structs.replace(SMALL, grace_ms=100))
    harness.pulse(0)
    pulses(harness, 11)
    assert is_alive(harness), "its timeout, and the grace"
    harness.pulse(1)
    assert not is_alive(harness)
