"""The client table: who is let in, who is answered again, who loses a session; and a naive twin of it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from motet.core.fingerprint import clone_plain, fingerprint
from motet.core.vsr.config import VsrConfig
from motet.core.vsr.header import (
    NO_CHECKSUM,
    NOOP,
    OPERATION_MIN,
    REGISTER,
    RESERVED,
    ROOT,
    Checksum,
    Header,
    checksum,
    root_header,
)
from motet.core.vsr.sessions import (
    EVICTION_REASONS,
    RESERVED_BODY,
    Decision,
    Session,
    Sessions,
    decode_sessions,
    reply_checksum,
)
from motet.ids import Address, ClientId, ClusterId, Op

CONFIG = VsrConfig(
    ClusterId(1),
    (Address("n1"), Address("n2"), Address("n3")),
    clients_max=4,
    reserved_max=2,
    body_bytes_max=100,
    release_min=2,
    release=4,
)
ANN, BOB, CAT, DAN, EVE, FAY = (ClientId(number) for number in range(1, 7))


class Asked(msgspec.Struct, frozen=True):
    """A request, as far as sessions look at it."""

    client: ClientId
    session: int
    request: int
    parent: Checksum = NO_CHECKSUM
    release: int = 3
    operation: int = OPERATION_MIN
    body: bytes = b"body"

    @property
    def checksum(self) -> Checksum:
        return checksum(msgspec.msgpack.encode(self))


def header_of(op: int, asked: Asked) -> Header:
    return msgspec.structs.replace(
        root_header(CONFIG.cluster),
        op=Op(op),
        client=asked.client,
        session=asked.session,
        request=asked.request,
        request_checksum=asked.checksum,
        release=asked.release,
        operation=asked.operation,
        body_checksum=checksum(asked.body),
    )


def register(client: ClientId, body: bytes = b"", release: int = 3) -> Asked:
    return Asked(client, 0, 0, operation=REGISTER, body=body, release=release)


class Table:
    """Sessions, and ops that are committed one after the other."""

    def __init__(self) -> None:
        self.sessions = Sessions()
        self.op = 0

    def commit(self, asked: Asked, reply: bytes = b"reply") -> ClientId | None:
        self.op += 1
        return self.sessions.commit(CONFIG, header_of(self.op, asked), asked.body, reply)

    def decide(self, asked: Asked, *, is_preparing: bool = False) -> Decision:
        return self.sessions.decide(CONFIG, asked, is_preparing=is_preparing)

    def of(self, client: ClientId) -> Session:
        return self.sessions.by_client[client]

    def next_request(self, client: ClientId, body: bytes = b"body") -> Asked:
        session = self.of(client)
        return Asked(
            client, session.session, session.request + 1, session.reply_checksum, body=body
        )


@pytest.fixture
def table() -> Table:
    """Ann has session 1 and has made a request."""
    table = Table()
    table.commit(register(ANN))
    table.commit(table.next_request(ANN))
    return table


# What a primary decides


def test_a_stranger_registers_and_a_request_follows() -> None:
    table = Table()
    assert table.decide(register(ANN)) is Decision.ACCEPT
    table.commit(register(ANN))
    assert table.of(ANN).session == 1
    assert table.decide(table.next_request(ANN)) is Decision.ACCEPT


def test_a_repeated_request_is_answered_again_and_names_the_same_reply() -> None:
    table = Table()
    table.commit(register(ANN))
    asked = table.next_request(ANN)
    table.commit(asked, b"the answer")
    assert table.decide(asked) is Decision.REPLY_AGAIN
    assert table.decide(asked, is_preparing=True) is Decision.REPLY_AGAIN
    assert table.of(ANN).reply_checksum == reply_checksum(ANN, 1, Op(2), b"the answer")
    assert table.of(ANN).reply_bytes == len(b"the answer")


def test_another_request_under_the_number_of_the_last_is_a_bug(table: Table) -> None:
    other = Asked(ANN, 1, 1, body=b"something else")
    assert table.decide(other) is Decision.IGNORE_CLIENT_BUG


def test_an_older_request_is_ignored(table: Table) -> None:
    first = Asked(ANN, 1, 1)
    table.commit(table.next_request(ANN))
    assert table.decide(first) is Decision.IGNORE_OLD


def test_a_request_that_skips_one_is_ignored(table: Table) -> None:
    skipped = msgspec.structs.replace(table.next_request(ANN), request=3)
    assert table.decide(skipped) is Decision.IGNORE_GAP


def test_the_next_request_must_know_the_last_reply(table: Table) -> None:
    wrong = msgspec.structs.replace(table.next_request(ANN), parent=NO_CHECKSUM)
    assert table.decide(wrong) is Decision.IGNORE_PARENT


def test_a_repeated_register_is_answered_until_a_request_follows() -> None:
    table = Table()
    table.commit(register(ANN))
    assert table.decide(register(ANN)) is Decision.REPLY_AGAIN
    assert table.decide(register(ANN, RESERVED_BODY)) is Decision.IGNORE_CLIENT_BUG
    table.commit(table.next_request(ANN))
    assert table.decide(register(ANN)) is Decision.IGNORE_OLD


def test_one_request_of_a_client_at_a_time(table: Table) -> None:
    assert table.decide(table.next_request(ANN), is_preparing=True) is Decision.WAIT
    assert table.decide(register(BOB), is_preparing=True) is Decision.WAIT


def test_a_session_whose_register_is_still_in_the_pipeline_is_not_evicted() -> None:
    table = Table()
    asked = Asked(ANN, 1, 1)
    assert table.decide(asked, is_preparing=True) is Decision.WAIT
    assert table.decide(asked) is Decision.EVICT_NO_SESSION


def test_sessions_before_and_after_the_one_that_is(table: Table) -> None:
    table.commit(register(ANN))  # a register that was delayed, and begins another session
    assert table.of(ANN).session == 3
    assert table.decide(Asked(ANN, 1, 2)) is Decision.EVICT_SESSION_TOO_LOW
    assert table.decide(Asked(ANN, 4, 1)) is Decision.IGNORE_NEWER_SESSION


@pytest.mark.parametrize(
    ("release", "decision"),
    [
        (1, Decision.EVICT_RELEASE_TOO_LOW),
        (2, Decision.EVICT_RELEASE_MISMATCH),
        (3, Decision.ACCEPT),
        (4, Decision.EVICT_RELEASE_MISMATCH),
        (5, Decision.EVICT_RELEASE_TOO_HIGH),
    ],
)
def test_releases(table: Table, release: int, decision: Decision) -> None:
    asked = msgspec.structs.replace(table.next_request(ANN), release=release)
    assert table.decide(asked) is decision


@pytest.mark.parametrize("operation", [ROOT, RESERVED, NOOP, OPERATION_MIN - 1, -1])
def test_operations_that_are_not_a_clients(table: Table, operation: int) -> None:
    asked = msgspec.structs.replace(table.next_request(ANN), operation=operation)
    assert table.decide(asked) is Decision.EVICT_BAD_OPERATION


def test_bodies_up_to_the_largest(table: Table) -> None:
    assert table.decide(table.next_request(ANN, bytes(100))) is Decision.ACCEPT
    assert table.decide(table.next_request(ANN, bytes(101))) is Decision.EVICT_BAD_BODY_SIZE


def test_a_register_says_nothing_or_that_it_wants_to_stay(table: Table) -> None:
    asked = Asked(EVE, 0, 0, operation=REGISTER, body=b"")
    for body in (b"", RESERVED_BODY):
        assert table.decide(msgspec.structs.replace(asked, body=body)) is Decision.ACCEPT
    refused = table.decide(msgspec.structs.replace(asked, body=b"for ever"))
    assert EVICTION_REASONS[refused] == "invalid_request_body"


@pytest.mark.parametrize(
    "asked",
    [
        Asked(ClientId(0), 1, 1),
        Asked(ClientId(-1), 1, 1),
        Asked(ClientId(1 << 63), 0, 0, operation=REGISTER),
        Asked(BOB, 5, 0, operation=REGISTER),
        Asked(BOB, 0, 1, operation=REGISTER),
        Asked(ANN, 0, 1),
        Asked(ANN, 1, 0),
        Asked(ANN, 1, -1),
    ],
)
def test_requests_that_no_client_sends(table: Table, asked: Asked) -> None:
    assert table.decide(asked) is Decision.IGNORE_CLIENT_BUG


def test_decisions_that_evict_say_so() -> None:
    assert Decision.EVICT_NO_SESSION.is_eviction
    assert not Decision.WAIT.is_eviction


# Who loses a session


def test_the_session_whose_last_commit_is_longest_ago_makes_room() -> None:
    table = Table()
    for client in (ANN, BOB, CAT, DAN):
        assert table.commit(register(client)) is None
    table.commit(table.next_request(ANN))
    slot = table.of(BOB).slot
    delayed = table.next_request(BOB)
    assert table.commit(register(EVE)) == BOB
    assert table.of(EVE).slot == slot
    assert table.decide(delayed) is Decision.EVICT_NO_SESSION
    assert table.commit(delayed) is None, "it was prepared before the register"
    assert BOB not in table.sessions.by_client


def test_a_request_of_an_evicted_session_does_not_touch_the_next_one() -> None:
    table = Table()
    table.commit(register(ANN))
    delayed = table.next_request(ANN)
    table.commit(register(ANN))
    before = table.of(ANN)
    table.commit(delayed)
    assert table.of(ANN) == before


def test_reserved_sessions_stay() -> None:
    table = Table()
    table.commit(register(ANN, RESERVED_BODY))
    table.commit(register(BOB, RESERVED_BODY))
    table.commit(register(CAT, RESERVED_BODY))
    table.commit(register(DAN))
    reserved = [table.of(client).is_reserved for client in (ANN, BOB, CAT, DAN)]
    assert reserved == [True, True, False, False]
    assert table.commit(register(EVE)) == CAT
    assert table.commit(register(FAY, RESERVED_BODY)) == DAN
    assert not table.of(FAY).is_reserved
    table.commit(table.next_request(ANN))
    assert table.of(ANN).is_reserved


@pytest.mark.parametrize("operation", [ROOT, RESERVED, NOOP])
def test_ops_of_the_protocol_touch_nothing(table: Table, operation: int) -> None:
    before = fingerprint(table.sessions)
    table.commit(msgspec.structs.replace(table.next_request(ANN), operation=operation))
    table.commit(Asked(ClientId(0), 0, 0, operation=REGISTER))
    table.commit(Asked(ClientId(0), 0, 0))
    assert fingerprint(table.sessions) == before


# A naive twin


class Naive:
    """Clients in the order of their last commit: whoever has been silent longest stands first."""

    def __init__(self) -> None:
        self.order: list[ClientId] = []
        self.reserved: list[ClientId] = []

    def register(self, client: ClientId, *, wants_reserved: bool) -> ClientId | None:
        self.forget(client)
        evicted = None
        if len(self.order) == CONFIG.clients_max:
            evicted = next(name for name in self.order if name not in self.reserved)
            self.forget(evicted)
        if wants_reserved and len(self.reserved) < CONFIG.reserved_max:
            self.reserved.append(client)
        self.order.append(client)
        return evicted

    def request(self, client: ClientId) -> None:
        self.order.remove(client)
        self.order.append(client)

    def forget(self, client: ClientId) -> None:
        for names in (self.order, self.reserved):
            if client in names:
                names.remove(client)


STEPS = st.tuples(
    st.integers(1, 8).map(ClientId), st.sampled_from(["register", "reserve", "request", "restart"])
)


@settings(deadline=None)
@given(st.lists(STEPS, max_size=60))
def test_histories_agree_with_the_naive_twin_and_with_a_replica_that_restarts(
    steps: list[tuple[ClientId, str]],
) -> None:
    table, naive, twin = Table(), Naive(), Sessions()
    for client, what in steps:
        asked = None
        if what in ("register", "reserve"):
            asked = register(client, RESERVED_BODY if what == "reserve" else b"")
            evicted = naive.register(client, wants_reserved=what == "reserve")
            assert table.commit(asked) == evicted
        elif what == "request" and client in naive.order:
            asked = table.next_request(client)
            assert table.decide(asked) is Decision.ACCEPT
            assert table.commit(asked) is None
            naive.request(client)
        if asked is not None:
            twin.commit(CONFIG, header_of(table.op, asked), asked.body, b"reply")
        if what == "restart":
            restarted = decode_sessions(CONFIG, twin.encode())
            assert restarted is not None
            twin = restarted
        found = list(table.sessions.by_client.values())
        by_commit = sorted(found, key=lambda session: session.last_op)
        assert [session.client for session in by_commit] == naive.order
        assert sorted(s.client for s in found if s.is_reserved) == sorted(naive.reserved)
        assert len({session.slot for session in found}) == len(found)
        assert all(0 <= session.slot < CONFIG.clients_max for session in found)
        assert twin.encode() == table.sessions.encode()


# In a checkpoint


def test_bytes_that_are_no_table(table: Table) -> None:
    good = table.sessions.encode()
    assert decode_sessions(CONFIG, good) == table.sessions
    assert decode_sessions(CONFIG, Sessions().encode()) == Sessions()
    ann = table.of(ANN)
    replace = msgspec.structs.replace
    bad: list[list[Session]] = [
        [ann, replace(ann, slot=1)],
        [ann, replace(ann, client=BOB)],
        [replace(ann, slot=4)],
        [replace(ann, slot=-1)],
        [replace(ann, client=c, slot=c, is_reserved=True) for c in (ANN, BOB, CAT)],
    ]
    for sessions in bad:
        assert decode_sessions(CONFIG, msgspec.msgpack.encode(sessions)) is None
    for data in (b"", good[:-1], good + b"\0", b"\x91\x90", b"\xc1"):
        assert decode_sessions(CONFIG, data) is None


def test_a_clone_goes_its_own_way(table: Table) -> None:
    twin = clone_plain(table.sessions)
    table.commit(register(BOB))
    assert BOB not in twin.by_client
    assert ANN in twin.by_client


def test_a_reply_is_told_from_any_other() -> None:
    replies = [
        reply_checksum(ANN, 1, Op(2), b"x"),
        reply_checksum(BOB, 1, Op(2), b"x"),
        reply_checksum(ANN, 2, Op(2), b"x"),
        reply_checksum(ANN, 1, Op(3), b"x"),
        reply_checksum(ANN, 1, Op(2), b"y"),
    ]
    assert len(dict.fromkeys(replies)) == len(replies)
