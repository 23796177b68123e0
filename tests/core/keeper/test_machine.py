"""The machine as a whole: against a naive twin, against bodies nobody should send, and within its bounds."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.keeper.histories import OPERATIONS, PLAIN_OPERATIONS, REQUESTS
from tests.core.keeper.keepers import (
    FIRST,
    GENERATION,
    OPEN,
    PASSWORD,
    SMALL,
    Harness,
    entry,
    tree_pages,
)
from tests.core.keeper.naive import Naive

from motet.core.keeper.ids import Generation
from motet.core.keeper.machine import Keeper
from motet.core.keeper.operations import (
    BATCH,
    AnyOperation,
    OpenSession,
    Outcomes,
    Refused,
    Touch,
    Write,
    decode_batch,
    decode_reply,
    encode_batch,
)
from motet.core.vsr.header import NOOP, REGISTER
from motet.errors import BadRecord
from motet.format.zookeeper.messages import (
    Children,
    Create,
    Create2,
    Data,
    ErrorCode,
    Failed,
    GetChildren,
    GetData,
    Multi,
    MultiResult,
    SetData,
    WriteRequest,
)
from motet.ids import SessionId

BEGINNING: list[AnyOperation] = [
    OpenSession(1000, PASSWORD),
    OpenSession(200, PASSWORD),
    Write(FIRST, GENERATION, Create("/a", b"", OPEN, 0)),
    Write(FIRST, GENERATION, Create("/a/b", b"", OPEN, 0)),
]


@settings(max_examples=150)
@given(st.lists(PLAIN_OPERATIONS, min_size=10, max_size=50), st.integers(1, 5))
def test_batches_do_what_a_dict_of_paths_does(
    operations: list[AnyOperation], batch_size: int
) -> None:
    harness, naive = Harness(sessions=0), Naive()
    starts = range(0, len(operations), batch_size)
    for batch in [BEGINNING, *[operations[start : start + batch_size] for start in starts]]:
        time_ms = (harness.op + 1) * 1000
        expected = [(naive.run(each, time_ms), naive.zxid) for each in batch]
        assert [(each.result, each.zxid) for each in harness.run(*batch)] == expected
        assert harness.events() == naive.events
        naive.events = []
    assert harness.keeper.counts().nodes == len(naive.nodes)
    assert harness.keeper.counts().sessions == len(naive.sessions)
    stranger = SessionId(1 << 40)
    for path, node in naive.nodes.items():
        read = harness.read(GetData(path, False), stranger)
        assert read == Data(node["data"], naive.stat(path))
        names = harness.read(GetChildren(path, False), stranger)
        assert names == Children(tuple(naive.names(path)))


@given(st.lists(REQUESTS, max_size=8), REQUESTS)
def test_what_fails_leaves_no_trace_but_its_zxid(
    before: list[WriteRequest], request: WriteRequest
) -> None:
    harness = Harness()
    for each in before:
        harness.write(each)
    harness.events()
    pages, counts, zxid = tree_pages(harness.keeper), harness.keeper.counts(), harness.keeper.zxid
    result = harness.write(request)
    assert harness.keeper.zxid == zxid + 1
    if isinstance(result, MultiResult) and any(isinstance(r, Failed) for r in result.results):
        result = Failed(1)
    if isinstance(result, Failed):
        assert tree_pages(harness.keeper) == pages
        assert harness.keeper.counts() == counts
        assert harness.events() == []


@given(st.lists(st.lists(OPERATIONS, max_size=4), max_size=12))
def test_equal_histories_make_equal_keepers(batches: list[list[AnyOperation]]) -> None:
    one, other = Keeper(SMALL), Keeper(SMALL)
    for number, batch in enumerate(batches, 1):
        body = encode_batch(batch)
        assert one.apply(entry(number, body)) == other.apply(entry(number, body))
        assert one.fingerprint() == other.fingerprint()
    assert one.take_changed() == other.take_changed()
    assert list(one.take_changed()) == list(other.take_changed())


# Bodies

NESTED = b"\x91" * 50_000
GOOD = encode_batch([Write(FIRST, GENERATION, Create("/a", b"", OPEN, 0))])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        NESTED,
        b"\x91\x92\x01" + NESTED,
        b"\x91\x94\x01\x01\x01" + NESTED,
        b"\x91\x94\x01\x01\x01\x94\x02\xa2/a\x00" + NESTED,  # a request with one field too many
        b"\x91\x94\x01\x01\x01\x94\x02\xa2/a\x00\xc0",
        b"\x91\x94\x01\x01\x01\x93\x02\xa4/\xed\xa0\x80\x00",  # half a character
        b"\x91\x94\x01\x01\x01\x93\x02\xa2/a\xd2\x00\x00\x00\x00",  # a number longer than it must be
        b"\xdd\xff\xff\xff\xff",
        b"\x91\x92\x06\xdd\xff\xff\xff\xff",
        b"\x91\x92\x63\x01",
        GOOD + b"\x90",
        GOOD[:-1],
    ],
)
def test_a_body_that_is_no_batch_is_refused_and_changes_nothing(body: bytes) -> None:
    harness = Harness()
    before = harness.keeper.fingerprint()
    reply = decode_reply(harness.keeper.apply(entry(2, body)))
    assert reply == Refused("the body is not a batch")
    assert harness.keeper.fingerprint() == before


@given(st.binary(max_size=60), st.integers(0, 40))
def test_no_body_makes_it_raise(body: bytes, operation: int) -> None:
    Harness().keeper.apply(entry(2, body, operation))


@given(st.integers(0, len(GOOD) - 1), st.integers(0, 255))
def test_no_damaged_batch_makes_it_raise(place: int, byte: int) -> None:
    body = GOOD[:place] + bytes([byte]) + GOOD[place + 1 :]
    harness = Harness()
    decode_reply(harness.keeper.apply(entry(2, body)))
    harness.keeper.fingerprint()
    harness.keeper.take_changed()


NUMBERS = st.integers(-(1 << 63), (1 << 64) - 1)


@given(NUMBERS, NUMBERS, NUMBERS, NUMBERS)
def test_no_number_makes_it_raise(one: int, two: int, three: int, four: int) -> None:
    harness = Harness()
    operations: list[AnyOperation] = [
        OpenSession(one, PASSWORD),
        Touch(((SessionId(two), Generation(three)),)),
        Write(FIRST, GENERATION, Create("/a", b"", OPEN, one)),
        Write(
            FIRST,
            GENERATION,
            Create("/b", b"", (msgspec.structs.replace(OPEN[0], permissions=two),), 0),
        ),
        Write(FIRST, GENERATION, SetData("/", b"", four)),
    ]
    harness.run(*operations)
    harness.pulse(one, two)
    harness.pulse(three, two)
    harness.keeper.fingerprint()


def test_other_operations_change_nothing() -> None:
    keeper = Keeper(SMALL)
    keeper.take_changed()
    assert keeper.apply(entry(1, GOOD, REGISTER)) == b""
    assert keeper.apply(entry(2, GOOD, NOOP)) == b""
    assert decode_reply(keeper.apply(entry(3, GOOD, BATCH + 1))) == Refused("no such operation")
    assert keeper.take_changed() == {}


def test_a_batch_is_what_was_encoded() -> None:
    assert decode_batch(GOOD) == [Write(FIRST, GENERATION, Create("/a", b"", OPEN, 0))]
    assert decode_batch(encode_batch([])) == []


def test_a_reply_that_is_none() -> None:
    for body in (b"", b"\xc1", NESTED, b"\x92\x01\xa1\xff"):
        with pytest.raises(BadRecord):
            decode_reply(body)


# Bounds


def test_an_operation_whose_answer_has_no_room_is_not_done() -> None:
    harness = Harness(msgspec.structs.replace(SMALL, reply_bytes_max=1024))
    creates = [Write(FIRST, GENERATION, Create2(f"/{name}", b"", OPEN, 0)) for name in "abcdefghi"]
    outcomes = harness.run(*creates)
    done = [each.error == 0 for each in outcomes]
    assert done == sorted(done, reverse=True)
    assert 0 < sum(done) < len(done)
    assert outcomes[-1].error == ErrorCode.SYSTEM_ERROR
    assert harness.keeper.counts().nodes == 1 + sum(done)
    long = Write(FIRST, GENERATION, Create("/" + "x" * 1000, b"", OPEN, 0))
    first, second = harness.run(long, creates[-1])
    assert (first.error, second.error) == (ErrorCode.SYSTEM_ERROR, 0)


def test_too_many_operations_are_refused_before_the_first() -> None:
    keeper = Keeper(msgspec.structs.replace(SMALL, reply_bytes_max=1024))
    body = encode_batch([OpenSession(1, PASSWORD)] * 100)
    reply = decode_reply(keeper.apply(entry(1, body)))
    assert reply == Refused("too many operations for one reply")
    assert keeper.counts().sessions == 0


LONG_PATHS = st.sampled_from(["/", "/ሴ" * 40, "/a" * 30])


@settings(max_examples=60)
@given(
    st.lists(
        OPERATIONS
        | st.builds(
            Write,
            st.just(FIRST),
            st.just(GENERATION),
            st.builds(Create, LONG_PATHS, st.just(b""), st.just(OPEN), st.just(2))
            | st.lists(st.builds(Create, LONG_PATHS, st.just(b""), st.just(OPEN), st.just(2)))
            .map(tuple)
            .map(Multi),
        ),
        max_size=40,
    ),
    st.integers(1024, 3000),
)
def test_no_reply_is_larger_than_it_may_be(
    operations: list[AnyOperation], reply_bytes_max: int
) -> None:
    harness = Harness(msgspec.structs.replace(SMALL, reply_bytes_max=reply_bytes_max), sessions=2)
    harness.keeper.zxid = 1 << 62  # type: ignore[assignment]
    harness.op = 1 << 40
    reply = harness.keeper.apply(entry(harness.op, encode_batch(operations)))
    assert len(reply) <= reply_bytes_max


def test_what_nobody_takes_is_cut() -> None:
    harness = Harness(msgspec.structs.replace(SMALL, applied_max=3))
    for name in "abcd":
        harness.create(f"/{name}")
    taken = harness.keeper.take_applied()
    assert (len(taken.applied), taken.has_gap) == (1, True)
    harness.create("/e")
    assert not harness.keeper.take_applied().has_gap


def test_a_reply_of_the_default_size_has_room_for_any_one_packet() -> None:
    harness = Harness(msgspec.structs.replace(SMALL, multi_operations_max=4096))
    paths = [f"/{number:0200d}" for number in range(4096)]
    multi = Multi(tuple(Create(path, b"", OPEN, 0) for path in paths))
    outcome = harness.one(Write(FIRST, GENERATION, multi))
    assert isinstance(outcome.result, MultiResult)
    assert len(outcome.result.results) == 4096
    assert isinstance(decode_reply(harness.keeper.apply(entry(9, GOOD))), Outcomes)
