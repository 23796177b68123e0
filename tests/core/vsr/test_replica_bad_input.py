"""Whatever comes in from the network, a replica counts what it drops, and stays as it was."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.vsr.garbage import CLUSTER, COMMANDS, messages
from tests.core.vsr.replicas import CONFIG, replica

from motet.core.fingerprint import fingerprint
from motet.core.machine import (
    CancelTimer,
    Message,
    Note,
    Received,
    SetTimer,
)
from motet.core.vsr.block_ref import BlockRef
from motet.core.vsr.header import NO_CHECKSUM, OPERATION_MIN, sealed
from motet.core.vsr.messages import (
    Block,
    Commit,
    DoViewChange,
    Headers,
    Pong,
    Prepare,
    PrepareOk,
    ReplicaMessage,
    Request,
    RequestBlocks,
    StartView,
    StartViewChange,
    command_name,
    request_checksum,
    sealed_request,
)
from motet.core.vsr.replica import Replica
from motet.core.vsr.state import Status
from motet.ids import Address, ClientId, ClusterId, Op, ReplicaIndex, View


class Foreign(Message, frozen=True):
    """A message of another protocol."""


def dropped(life: str, sender: str, message: Message) -> list[str]:
    """Hand it over; the reasons that were counted. Nothing is sent or written, and nothing promised."""
    machine, now = replica(life)
    before = machine.clone()
    effects = machine.step(Received(now, Address(sender), message))
    assert all(isinstance(effect, SetTimer | CancelTimer | Note) for effect in effects)
    assert promised(machine) == promised(before)
    counts = machine.core.state.counts
    return [why for why in counts if counts[why] > before.core.state.counts.get(why, 0)]


def promised(machine: Replica) -> bytes:
    """All that others rely on, or have said."""
    state = machine.core.state
    log = (state.op, state.journal, state.connected_op, state.anchor_op, state.superblock)
    view = (state.status, state.view, state.log_view, state.votes, state.do_view_changes)
    commit = (state.commit_min, state.commit_max, state.sessions, state.replies, state.pipeline)
    return fingerprint((log, view, commit, machine.core.machine.fingerprint()))


def view_of(life: str) -> View:
    return replica(life)[0].core.state.view


def request(**changed: object) -> Request:
    state = replica("primary")[0].core.state
    session = state.sessions.by_client[ClientId(1)]
    made = Request(
        CLUSTER,
        ClientId(1),
        state.view,
        session.session,
        session.request + 1,
        session.reply_checksum,
        1,
        OPERATION_MIN,
        b"",
    )
    return sealed_request(msgspec.structs.replace(made, **changed))


def test_the_request_these_tests_are_about_would_be_taken() -> None:
    machine, now = replica("primary")
    before = machine.core.state.op
    machine.step(Received(now, Address("c1"), request()))
    assert machine.core.state.op == before + 1


@pytest.mark.parametrize("life", ["primary", "backup", "in_a_view_change", "unsure_of_its_head"])
def test_other_protocols_and_other_clusters_are_foreign(life: str) -> None:
    assert dropped(life, "r2", Foreign()) == ["foreign"]
    other = StartViewChange(ClusterId(8), ReplicaIndex(2), view_of(life))
    assert dropped(life, "r2", other) == ["foreign"]


@pytest.mark.parametrize(
    "kind", [kind for kind in COMMANDS if issubclass(kind, ReplicaMessage)], ids=command_name
)
@settings(max_examples=5)
@given(data=st.data())
def test_only_a_replica_says_what_a_replica_says(
    kind: type[ReplicaMessage], data: st.DataObject
) -> None:
    message = msgspec.structs.replace(data.draw(messages([kind])), cluster=CLUSTER)
    assert dropped("backup", "c1", message) == ["not_a_replica"]


def test_a_replica_speaks_only_for_itself() -> None:
    vote = StartViewChange(CLUSTER, ReplicaIndex(1), view_of("backup"))
    assert dropped("backup", "r2", vote) == ["not_a_replica"]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"view": View(99)}, "request_out_of_view"),
        ({"session": 99}, "request_ignore_newer_session"),
        ({"request": 99}, "request_ignore_gap"),
        ({"request": 1}, "request_ignore_old"),
        ({"parent": NO_CHECKSUM}, "request_ignore_parent"),
        ({"client": ClientId(0)}, "request_ignore_client_bug"),
        ({"client": ClientId(-1)}, "request_ignore_client_bug"),
        ({"session": 0, "request": 5}, "request_ignore_client_bug"),
    ],
)
def test_a_client_that_lies(changed: dict[str, object], why: str) -> None:
    machine, now = replica("primary")
    op = machine.core.state.op
    assert machine.step(Received(now, Address("c1"), request(**changed))) == []
    assert machine.core.state.counts[why] == 1
    assert machine.core.state.op == op


def test_a_request_that_was_changed_on_its_way() -> None:
    machine, now = replica("primary")
    changed = msgspec.structs.replace(request(), body=b"other")
    assert changed.checksum != request_checksum(changed)
    assert machine.step(Received(now, Address("c1"), changed)) == []
    assert machine.core.state.counts["request_checksum"] == 1


def prepare(**changed: object) -> Prepare:
    """The next op, as the primary of the backup's view would send it."""
    machine, now = replica("primary")
    effects = machine.step(Received(now, Address("c1"), request()))
    [made] = [
        message
        for each in effects
        if isinstance(message := getattr(each, "message", None), Prepare)
    ]
    return msgspec.structs.replace(made, route=(), **changed)


def test_the_prepare_these_tests_are_about_would_be_taken() -> None:
    machine, now = replica("backup")
    before = machine.core.state.op
    machine.step(Received(now, Address("r1"), prepare()))
    assert machine.core.state.op == before + 1


def test_a_prepare_that_is_damaged() -> None:
    header = prepare().header
    unsealed = msgspec.structs.replace(header, timestamp=header.timestamp + 1)
    foreign = sealed(msgspec.structs.replace(header, cluster=ClusterId(8)))
    assert dropped("backup", "r1", prepare(body=b"other")) == ["prepare_checksum"]
    assert dropped("backup", "r1", prepare(header=unsealed)) == ["prepare_checksum"]
    assert dropped("backup", "r1", prepare(header=foreign)) == ["prepare_checksum"]


def test_a_prepare_of_an_older_view_or_a_place_that_is_not_there() -> None:
    header = prepare().header
    older = sealed(msgspec.structs.replace(header, view=View(0)))
    beyond = sealed(msgspec.structs.replace(header, op=Op(header.op + 100), commit=Op(0)))
    assert dropped("backup", "r1", prepare(header=older)) == ["prepare_out_of_view"]
    assert dropped("backup", "r1", prepare(header=beyond)) == ["prepare_beyond_log"]


def test_another_prepare_where_the_view_has_one() -> None:
    machine, _ = replica("backup")
    head = machine.core.head
    other = sealed(msgspec.structs.replace(head, timestamp=head.timestamp + 1))
    body = machine.core.state.journal.cache[head.op].body
    assert dropped("backup", "r1", prepare(header=other, body=body)) == ["prepare_of_another_log"]


def test_an_acknowledgement_of_something_else() -> None:
    state = replica("primary_with_prepares_in_flight")[0].core.state
    ok = PrepareOk(CLUSTER, ReplicaIndex(2), state.view, state.op, b"\1" * 16, Op(0), NO_CHECKSUM)
    machine, now = replica("primary_with_prepares_in_flight")
    machine.step(Received(now, Address("r2"), ok))
    assert list(machine.core.state.pipeline[state.op].oks) == [ReplicaIndex(1)]


def test_a_commit_of_an_older_view() -> None:
    commit = Commit(CLUSTER, ReplicaIndex(0), View(0), Op(99), NO_CHECKSUM, Op(0), NO_CHECKSUM)
    assert dropped("backup", "r0", commit) == ["commit_out_of_view"]


def log(**changed: object) -> DoViewChange:
    """What the other replica of the view change has sent."""
    state = replica("in_a_view_change")[0].core.state
    heads = [state.journal.header(Op(op)) for op in range(state.op, state.op - 5, -1)]
    made = DoViewChange(
        CLUSTER,
        ReplicaIndex(0),
        state.view,
        state.log_view,
        state.op,
        state.commit_max,
        Op(12),
        tuple(heads),
        0,
        31,
    )
    return msgspec.structs.replace(made, **changed)


def test_the_log_these_tests_are_about_would_be_taken() -> None:
    machine, now = replica("primary_to_be")
    machine.step(Received(now, Address("r0"), log()))
    assert machine.core.state.leading


@pytest.mark.parametrize(
    "changed",
    [
        {"headers": ()},
        {"headers": (), "op": Op(-1)},
        {"headers": (), "op": Op(-5)},
        {"op": Op(3)},
        {"headers": (None, *log().headers[1:])},
        {"headers": log().headers[:3]},
        {"headers": log().headers[::-1]},
        {"headers": log().headers * 2},
        {"log_view": View(99)},
        {"commit_max": Op(-1)},
    ],
    ids=str,
)
def test_a_log_that_is_malformed(changed: dict[str, object]) -> None:
    [why] = dropped("primary_to_be", "r0", log(**changed))
    assert why == "do_view_change_malformed" or why.startswith("out_of_bounds_")


def start_view(**changed: object) -> StartView:
    """What the new primary says when it has decided."""
    state = replica("in_a_view_change")[0].core.state
    assert state.superblock is not None
    heads = [state.journal.header(Op(op)) for op in range(state.op, state.op - 3, -1)]
    made = StartView(
        CLUSTER,
        ReplicaIndex(2),
        state.view,
        0,
        state.op,
        state.commit_max,
        state.superblock.checkpoint,
        tuple(head for head in heads if head is not None),
    )
    return msgspec.structs.replace(made, **changed)


def test_the_view_these_tests_are_about_would_be_joined() -> None:
    machine, now = replica("in_a_view_change")
    machine.step(Received(now, Address("r2"), start_view()))
    assert machine.core.state.status is Status.NORMAL


@pytest.mark.parametrize(
    "changed",
    [
        {"headers": ()},
        {"op": Op(99)},
        {"op": Op(-1)},
        {"headers": start_view().headers[1:]},
        {"headers": start_view().headers[::-1]},
        {"commit_max": Op(99)},
        {"view": View(0)},
        {"view": View(1)},
        {"view": View(3)},
    ],
    ids=str,
)
def test_a_start_of_a_view_that_is_malformed_or_not_by_its_primary(
    changed: dict[str, object],
) -> None:
    made = start_view(**changed)
    [why] = dropped("in_a_view_change", "r2", made)
    assert why == "start_view_out_of_view" or why.startswith("out_of_bounds_")


def test_who_is_unsure_of_its_head_believes_only_an_answer_to_its_question() -> None:
    state = replica("unsure_of_its_head")[0].core.state
    assert state.status is Status.RECOVERING_HEAD
    stale = start_view(view=View(2), nonce=state.nonce + 1)
    assert dropped("unsure_of_its_head", "r2", stale) == ["start_view_out_of_view"]


def test_headers_that_the_chain_does_not_lead_to_change_nothing() -> None:
    machine, now = replica("backup_that_lags")
    before = [header for header in machine.core.state.journal.headers if header]
    forged = [sealed(msgspec.structs.replace(each, timestamp=1)) for each in before]
    made = Headers(CLUSTER, ReplicaIndex(2), machine.core.state.view, tuple(forged))
    machine.step(Received(now, Address("r2"), made))
    assert [header for header in machine.core.state.journal.headers if header] == before


def test_a_block_that_nobody_asked_for_or_that_is_another() -> None:
    block = Block(CLUSTER, ReplicaIndex(1), View(1), BlockRef(0, NO_CHECKSUM), b"\0" * 512)
    assert dropped("backup", "r1", block) == ["block_not_wanted"]
    machine, _ = replica("that_fetches_a_checkpoint")
    wanted = next(iter(machine.core.state.blocks_faulty))
    for data in (b"", b"\0" * CONFIG.block_bytes, b"\xff" * CONFIG.block_bytes):
        wrong = Block(CLUSTER, ReplicaIndex(1), View(1), wanted, data)
        assert dropped("that_fetches_a_checkpoint", "r1", wrong) == ["block_checksum"]


def test_blocks_that_cannot_be_are_not_read() -> None:
    cannot_be = (BlockRef(-1, NO_CHECKSUM), BlockRef(CONFIG.blocks_max, NO_CHECKSUM))
    ask = RequestBlocks(CLUSTER, ReplicaIndex(1), View(1), cannot_be)
    assert dropped("backup", "r1", ask) == ["out_of_bounds_refs"]


def test_a_pong_that_answers_nothing_does_not_move_the_clock() -> None:
    machine, now = replica("primary")
    before = machine.core.state.time
    for nonce, sent_ns in ((0, 0), (1, -1), (2, now.monotonic_ns + 1)):
        pong = Pong(CLUSTER, ReplicaIndex(0), View(1), nonce, sent_ns, 2**62)
        machine.step(Received(now, Address("r0"), pong))
    assert machine.core.state.time == before
