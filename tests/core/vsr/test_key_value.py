"""The key-value machine against a plain dict, and against bodies nobody should send."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from motet.core.vsr.header import NOOP, REGISTER
from motet.core.vsr.key_value import (
    BATCH,
    Call,
    Compare,
    Delete,
    Found,
    Get,
    KeyValue,
    Omitted,
    Put,
    Refused,
    Result,
    Stored,
    Swapped,
    decode_results,
    encode_calls,
    join_calls,
)
from motet.core.vsr.state_machine import Entry, StateMachine
from motet.errors import BadRecord
from motet.ids import ClientId, Op

KEYS = st.sampled_from([b"", b"a", b"b", b"c", b"d", b"\xff" * 40])
VALUES = st.binary(max_size=5)
CALLS: st.SearchStrategy[Call] = st.one_of(
    st.builds(Put, KEYS, VALUES),
    st.builds(Get, KEYS),
    st.builds(Delete, KEYS),
    st.builds(Compare, KEYS, st.none() | VALUES, st.none() | VALUES),
)


def entry(op: int, body: bytes, operation: int = BATCH) -> Entry:
    return Entry(Op(op), op * 1000, ClientId(7), operation, body)


def run(machine: KeyValue, op: int, *calls: Call) -> list[Result]:
    return decode_results(machine.apply(entry(op, encode_calls(calls))))


@pytest.mark.parametrize("counts", [(0,), (1, 2), (15, 1), (16, 0, 16), (65_535, 1), (65_536, 3)])
def test_bodies_are_joined_to_what_all_their_calls_would_have_been(counts: tuple[int, ...]) -> None:
    lists: list[list[Call]] = [[Get(b"%d" % n) for n in range(count)] for count in counts]
    parts = [encode_calls(calls) for calls in lists]
    assert join_calls(parts, sum(counts)) == encode_calls(
        [call for calls in lists for call in calls]
    )


class Naive:
    """A dict, and the rules in the plainest words."""

    def __init__(self) -> None:
        self.values: dict[bytes, tuple[bytes, Op]] = {}

    def run(self, op: Op, call: Call) -> Result:
        if isinstance(call, Get):
            return Found(*self.values.get(call.key, (None, Op(0))))
        if isinstance(call, Compare):
            if self.values.get(call.key, (None, 0))[0] != call.expected:
                return Swapped(False)
            self.set(op, call.key, call.value)
            return Swapped(True)
        self.set(op, call.key, call.value if isinstance(call, Put) else None)
        return Stored(op)

    def set(self, op: Op, key: bytes, value: bytes | None) -> None:
        if value is None:
            self.values.pop(key, None)
        else:
            self.values[key] = (value, op)


@given(st.lists(st.lists(CALLS, max_size=6), max_size=12), st.integers(1, 4))
def test_batches_do_what_a_dict_does(batches: list[list[Call]], buckets: int) -> None:
    machine, naive = KeyValue(buckets), Naive()
    for number, batch in enumerate(batches, 1):
        expected = [naive.run(Op(number), call) for call in batch]
        assert run(machine, number, *batch) == expected


@given(st.lists(st.tuples(st.booleans(), st.lists(CALLS, max_size=4)), max_size=12))
def test_changed_pages_are_all_it_takes_to_make_the_machine_anew(
    steps: list[tuple[bool, list[Call]]],
) -> None:
    machine = KeyValue(4)
    pages: dict[int, bytes] = {}
    for number, (is_checkpoint, batch) in enumerate(steps, 1):
        run(machine, number, *batch)
        if not is_checkpoint:
            continue
        for page, data in machine.take_changed().items():
            pages.pop(page, None)
            if data is not None:
                pages[page] = data
        restored = KeyValue(4)
        restored.restore(pages.items())
        assert restored.fingerprint() == machine.fingerprint()
        assert machine.take_changed() == {} == restored.take_changed()
        machine = restored


@given(st.permutations([b"a", b"b", b"c", b"d", b"e"]))
def test_pages_do_not_tell_in_which_order_keys_came(keys: list[bytes]) -> None:
    one, other = KeyValue(2), KeyValue(2)
    run(one, 1, *[Put(key, b"v") for key in sorted(keys)])
    run(other, 1, *[Put(key, b"v") for key in keys])
    assert one.take_changed() == other.take_changed()
    assert one.fingerprint() == other.fingerprint()


def test_a_clone_goes_its_own_way() -> None:
    machine: StateMachine = KeyValue(2)
    machine.apply(entry(1, encode_calls([Put(b"a", b"1")])))
    twin = machine.clone()
    twin.apply(entry(2, encode_calls([Put(b"a", b"2")])))
    assert machine.fingerprint() != twin.fingerprint()
    machine.apply(entry(2, encode_calls([Put(b"a", b"2")])))
    assert machine.fingerprint() == twin.fingerprint()
    [number] = machine.begin_pages()
    assert twin.begin_pages() == [number]
    assert machine.take_page(number) == twin.take_page(number)


def test_only_pages_that_changed_are_handed_out() -> None:
    machine = KeyValue(1000)
    run(machine, 1, *[Put(b"%d" % number, b"v") for number in range(100)])
    machine.take_changed()
    run(machine, 2, Get(b"1"), Delete(b"never there"), Compare(b"2", b"other", b"x"))
    assert machine.take_changed() == {}
    run(machine, 3, Put(b"1", b"w"))
    assert len(machine.take_changed()) == 1


@given(st.lists(CALLS), st.lists(CALLS, min_size=1), st.integers(1, 3), st.data())
def test_a_page_is_handed_out_as_it_was_when_the_checkpoint_began(
    before: list[Call], meanwhile: list[Call], buckets: int, data: st.DataObject
) -> None:
    machine = KeyValue(buckets)
    run(machine, 1, *before)
    then = machine.clone().take_changed()
    waiting = machine.begin_pages()
    assert waiting == list(then)
    for op, call in enumerate(meanwhile, 2):
        run(machine, op, call)
        for number in data.draw(st.lists(st.sampled_from(waiting), unique=True)) if waiting else ():
            waiting.remove(number)
            assert machine.take_page(number) == then[number]
        machine = machine.clone()
    assert {number: machine.take_page(number) for number in waiting}.items() <= then.items()
    twin = KeyValue(buckets)
    run(twin, 1, *before)
    twin.take_changed()
    for op, call in enumerate(meanwhile, 2):
        run(twin, op, call)
    assert machine.take_changed() == twin.take_changed()


def test_a_page_without_keys_is_gone() -> None:
    machine = KeyValue(1)
    run(machine, 1, Put(b"a", b"1"))
    assert list(machine.take_changed()) == [0]
    run(machine, 2, Delete(b"a"))
    assert machine.take_changed() == {0: None}


NESTED = b"\x91" * 50_000


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        NESTED,
        b"\x91\x93\x01\xc4\x01a" + NESTED,
        b"\x91\x92\x01" + NESTED,
        b"\xdd\xff\xff\xff\xff",
        b"\x91\x92\x09\xc4\x01a",
        b"\x91\x92\x01\xa1a",
        encode_calls([Get(b"a")]) + b"more",
    ],
)
def test_a_body_that_is_no_batch_is_refused_and_changes_nothing(body: bytes) -> None:
    machine = KeyValue(2)
    run(machine, 1, Put(b"a", b"1"))
    before = machine.fingerprint()
    results = decode_results(machine.apply(entry(2, body)))
    assert results == [Refused("the body is not a list of calls")]
    assert machine.fingerprint() == before


@given(st.binary(max_size=60), st.integers(0, 40))
def test_no_body_makes_it_raise(body: bytes, operation: int) -> None:
    KeyValue(2).apply(entry(1, body, operation))


def test_other_operations_change_nothing() -> None:
    machine = KeyValue(2)
    body = encode_calls([Put(b"a", b"1")])
    assert machine.apply(entry(1, body, REGISTER)) == b""
    assert machine.apply(entry(2, body, NOOP)) == b""
    refused = decode_results(machine.apply(entry(3, body, BATCH + 1)))
    assert refused == [Refused("no such operation")]
    assert machine.take_changed() == {}


def test_a_value_without_room_in_the_reply_is_omitted() -> None:
    machine = KeyValue(2, reply_bytes_max=1000)
    run(machine, 1, Put(b"large", bytes(700)), Put(b"small", bytes(10)))
    large, small = Found(bytes(700), Op(1)), Found(bytes(10), Op(1))
    results = run(machine, 2, Get(b"large"), Get(b"large"), Get(b"small"), Put(b"x", b""))
    assert results == [large, Omitted(), small, Stored(Op(2))]


@settings(max_examples=50)
@given(st.lists(CALLS, max_size=80), st.integers(64, 600))
def test_no_reply_is_larger_than_it_may_be(calls: list[Call], reply_bytes_max: int) -> None:
    machine = KeyValue(2, reply_bytes_max=reply_bytes_max)
    run(machine, 1, Put(b"a", bytes(40)))
    assert len(machine.apply(entry(1 << 60, encode_calls(calls)))) <= reply_bytes_max


def test_too_many_calls_are_refused_before_the_first() -> None:
    machine = KeyValue(2, reply_bytes_max=160)
    results = run(machine, 1, *[Put(b"a", b"1")] * 10)
    assert results == [Refused("too many calls for one reply")]
    assert run(machine, 2, Get(b"a")) == [Found(None, Op(0))]


def test_pages_that_are_none_leave_the_machine_as_it_was() -> None:
    machine = KeyValue(2)
    run(machine, 1, Put(b"a", b"1"))
    before = machine.fingerprint()
    good = machine.clone().take_changed()
    ((number, page),) = good.items()
    assert page is not None
    for bad in ([(0, b"\xff")], [(1 - number, page)], [(number, page), (1 - number, b"\x90")]):
        with pytest.raises(BadRecord):
            machine.restore(bad)
        assert machine.fingerprint() == before


def test_a_reply_that_is_none() -> None:
    with pytest.raises(BadRecord):
        decode_results(b"\xc1")
