"""The register against a plain dict, and as the state machine that replicas are tested with."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.core.vsr.header import NOOP, REGISTER
from motet.core.vsr.state_machine import Entry, StateMachine
from motet.errors import BadRecord
from motet.ids import ClientId, Op
from motet.testing.register import (
    BATCH,
    Call,
    Compare,
    Delete,
    Found,
    Get,
    Put,
    Refused,
    Register,
    Result,
    Stored,
    Swapped,
    decode_results,
    encode_calls,
)

KEYS = st.sampled_from([b"", b"a", b"b", b"c", b"d", b"\xff" * 40])
VALUES = st.binary(max_size=5)
CALLS: st.SearchStrategy[Call] = st.one_of(
    st.builds(Put, KEYS, VALUES),
    st.builds(Get, KEYS),
    st.builds(Delete, KEYS),
    st.builds(Compare, KEYS, st.none() | VALUES, VALUES),
)


def entry(op: int, body: bytes, operation: int = BATCH) -> Entry:
    return Entry(Op(op), op * 1000, ClientId(7), operation, body)


def run(machine: StateMachine, op: int, *calls: Call) -> list[Result]:
    return decode_results(machine.apply(entry(op, encode_calls(calls))))


def test_a_batch_has_one_result_for_each_call() -> None:
    register = Register()
    assert run(register, 1, Get(b"a"), Put(b"a", b"1"), Get(b"a")) == [
        Found(None, Op(0)),
        Stored(Op(1)),
        Found(b"1", Op(1)),
    ]
    compares = run(register, 2, Compare(b"a", None, b"2"), Compare(b"a", b"1", b"3"), Get(b"a"))
    assert compares == [Swapped(False), Swapped(True), Found(b"3", Op(2))]
    deleted = run(register, 3, Delete(b"a"), Delete(b"a"), Compare(b"a", None, b"4"))
    assert deleted == [Stored(Op(3)), Stored(Op(3)), Swapped(True)]


@given(st.lists(st.tuples(st.booleans(), st.lists(CALLS, max_size=4)), max_size=12))
def test_changed_pages_are_all_it_takes_to_make_it_anew(
    steps: list[tuple[bool, list[Call]]],
) -> None:
    register = Register()
    pages: dict[int, bytes] = {}
    for op, (is_checkpoint, batch) in enumerate(steps, 1):
        run(register, op, *batch)
        if not is_checkpoint:
            continue
        for number in register.begin_pages():
            pages.pop(number, None)
            data = register.take_page(number)
            if data is not None:
                pages[number] = data
        restored = Register()
        restored.restore(pages.items())
        assert restored.fingerprint() == register.fingerprint()
        assert register.begin_pages() == [] == restored.begin_pages()
        register = restored


@given(st.lists(CALLS), st.lists(CALLS))
def test_a_page_is_handed_out_as_it_was_when_the_checkpoint_began(
    before: list[Call], meanwhile: list[Call]
) -> None:
    register = Register()
    run(register, 1, *before)
    numbers = register.begin_pages()
    then = [register.clone().take_page(number) for number in numbers]
    run(register, 2, *meanwhile)
    assert [register.take_page(number) for number in numbers] == then


@given(st.permutations([b"a", b"b", b"c", b"d", b"e"]))
def test_equal_states_have_equal_pages(keys: list[bytes]) -> None:
    one, other = Register(), Register()
    run(one, 1, *[Put(key, b"v") for key in sorted(keys)])
    run(other, 1, *[Put(key, b"v") for key in keys])
    assert one.fingerprint() == other.fingerprint()
    numbers = one.begin_pages()
    assert numbers == other.begin_pages()
    assert [one.take_page(each) for each in numbers] == [other.take_page(each) for each in numbers]


def test_a_clone_goes_its_own_way() -> None:
    register: StateMachine = Register()
    run(register, 1, Put(b"a", b"1"))
    twin = register.clone()
    run(twin, 2, Put(b"a", b"2"))
    assert run(register, 3, Get(b"a")) == [Found(b"1", Op(1))]
    assert twin.fingerprint() != register.fingerprint()


@given(st.binary(max_size=60), st.integers(0, 40))
def test_no_body_makes_it_raise(body: bytes, operation: int) -> None:
    Register().apply(entry(1, body, operation))


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x91" * 50_000, b"\x91\x92\x09\xc4\x01a"])
def test_a_body_that_is_no_batch_is_refused(body: bytes) -> None:
    assert decode_results(Register().apply(entry(1, body))) == [
        Refused("the body is not a list of calls")
    ]


def test_other_operations_change_nothing() -> None:
    register = Register()
    body = encode_calls([Put(b"a", b"1")])
    assert register.apply(entry(1, body, REGISTER)) == b""
    assert register.apply(entry(2, body, NOOP)) == b""
    assert decode_results(register.apply(entry(3, body, BATCH + 1))) == [
        Refused("no such operation")
    ]
    assert register.begin_pages() == []


def test_pages_that_are_none_leave_it_as_it_was() -> None:
    register = Register()
    run(register, 1, Put(b"a", b"1"))
    before = register.fingerprint()
    [number] = register.begin_pages()
    page = register.take_page(number)
    assert page is not None
    for bad in ([(0, b"\xff")], [(number ^ 1, page)], [(number, page), (number ^ 1, b"\x90")]):
        with pytest.raises(BadRecord):
            register.restore(bad)
        assert register.fingerprint() == before
