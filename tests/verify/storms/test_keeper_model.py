"""The model that a simulated keeper is compared with: it knows what was at every zxid."""

from __future__ import annotations

from motet.core.keeper.config import KeeperConfig
from motet.core.keeper.ids import Generation
from motet.core.keeper.operations import EndSession, OpenSession, Outcome, Pulse, Reattach, Write
from motet.format.zookeeper.messages import (
    Check,
    Children,
    Create,
    Created,
    CreateFlags,
    Data,
    Delete,
    ErrorCode,
    EventType,
    Failed,
    GetChildren,
    GetData,
    Multi,
    MultiResult,
    SetData,
    WriteRequest,
)
from motet.ids import SessionId, View
from motet.verify.storms.keeper_answers import reading
from motet.verify.storms.keeper_model import CHILD, DATA, Model

ONE = SessionId(1)
FIRST = Generation(1)
EPHEMERAL = int(CreateFlags.EPHEMERAL)


def begun() -> Model:
    """With a session, which takes zxid 1, and a node, which takes zxid 2."""
    model = Model(KeeperConfig())
    model.run(OpenSession(4_000, b"password"), 0)
    write(model, Create("/a", b"1", (), 0))
    return model


def write(model: Model, request: WriteRequest, generation: Generation = FIRST) -> Outcome:
    return model.run(Write(ONE, generation, request), 0)


def data_at(model: Model, path: str, zxid: int) -> bytes | None:
    _, result = reading(model, GetData(path, watch=False), zxid)
    return result.data if isinstance(result, Data) else None


def test_a_read_sees_what_was_at_its_zxid() -> None:
    model = begun()
    write(model, SetData("/a", b"2", 0))
    write(model, Delete("/a", -1))
    assert [data_at(model, "/a", zxid) for zxid in range(1, 5)] == [None, b"1", b"2", None]
    assert reading(model, GetChildren("/", watch=False), 3) == (0, Children(("a",)))


def test_a_multi_that_fails_leaves_nothing_behind() -> None:
    model = begun()
    outcome = write(model, Multi((Create("/a/x", b"", (), 0), Check("/a", 7))))
    expected = MultiResult((Failed(0), Failed(ErrorCode.BAD_VERSION)))
    assert outcome == Outcome(outcome.zxid, 0, expected)
    assert model.node("/a/x") is None
    assert model.first_after(CHILD, "/a", 0) is None


def test_a_watch_hears_of_the_first_change_behind_it() -> None:
    model = begun()
    write(model, SetData("/a", b"2", -1))
    write(model, Delete("/a", -1))
    assert model.first_after(DATA, "/a", 0) == (2, EventType.CREATED)
    assert model.first_after(DATA, "/a", 2) == (3, EventType.CHANGED)
    assert model.first_after(CHILD, "/a", 2) == (4, EventType.DELETED)
    assert model.first_after(DATA, "/a", 4) is None


def test_what_was_ephemeral_goes_with_its_session() -> None:
    model = begun()
    assert write(model, Create("/a/x", b"", (), EPHEMERAL)).result == Created("/a/x")
    model.run(EndSession(ONE, FIRST), 0)
    assert model.node("/a/x") is None
    assert model.ended == {1: 4}


def test_time_passes_by_pulses_of_one_view() -> None:
    model = begun()
    for _ in range(5):
        model.run(Pulse(1_000, View(1)), 0)
    assert model.sessions
    for _ in range(2):
        model.run(Pulse(1_000, View(1)), 0)
    assert not model.sessions


def test_who_spoke_before_is_refused() -> None:
    model = begun()
    model.run(Reattach(ONE, b"password"), 0)
    assert write(model, Delete("/a", -1)).error == ErrorCode.SESSION_MOVED
    assert write(model, Delete("/a", -1), Generation(2)).error == ErrorCode.OK
