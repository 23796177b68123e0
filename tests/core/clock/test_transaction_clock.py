"""One clock for a transaction over several nodes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.core.clock.harness import Bench

from motet.core.clock.bound_file import encode_bound
from motet.core.clock.hlc import Clock
from motet.core.clock.messages import Adjusted
from motet.core.clock.transaction_clock import (
    AdjustAnswered,
    Ask,
    AskAdjust,
    AskTick,
    ParticipantFailed,
    TickAnswered,
    TransactionClock,
)
from motet.core.fingerprint import clone_plain, fingerprint
from motet.ids import NodeId

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")


def node_at(clock: Clock, wall_ms: int) -> Bench:
    """A node whose clock stands there."""
    return Bench(wall_ms, encode_bound(clock))


def run(transaction: TransactionClock, nodes: dict[NodeId, Bench]) -> None:
    """Carry the transaction's questions to the nodes until none is left."""
    asks = transaction.begin()
    while asks:
        following: list[Ask] = []
        for ask in asks:
            following += transaction.step(answer_of(nodes[ask.node], ask))
        asks = following


def answer_of(node: Bench, ask: Ask) -> TickAnswered | AdjustAnswered | ParticipantFailed:
    if isinstance(ask, AskTick):
        return TickAnswered(ask.node, node.tick())
    answer = node.adjust(ask.clock)
    if isinstance(answer, Adjusted):
        return AdjustAnswered(ask.node)
    return ParticipantFailed(ask.node, str(answer))


def test_c11_a_transaction_takes_the_highest_clock_and_moves_all_to_it() -> None:
    """Over A at (100,5) and B at (100,9), with the wall below, the clock is (100,10)."""
    nodes = {A: node_at(Clock(100, 5), 50), B: node_at(Clock(100, 9), 50)}
    transaction = TransactionClock.over([A, B])
    run(transaction, nodes)
    assert transaction.clock == Clock(100, 10)
    for node in nodes.values():
        assert node.read().clock >= Clock(100, 10)
        assert node.tick() > Clock(100, 10)


def test_c16_a_participant_that_is_down_while_polled_leaves_no_clock() -> None:
    """The transaction fails and names the participant; the others may have ticked."""
    transaction = TransactionClock.over([A, B])
    assert transaction.step(TickAnswered(A, Clock(100, 1))) == []
    assert transaction.step(ParticipantFailed(B, "not reachable")) == []
    assert transaction.phase == "failed"
    assert transaction.clock is None
    assert transaction.failure == ParticipantFailed(B, "not reachable")


def test_c16_a_participant_that_is_down_while_adjusted_leaves_no_clock() -> None:
    """Nothing is called the transaction's clock before all have moved to it."""
    transaction = TransactionClock.over([A, B])
    transaction.step(TickAnswered(A, Clock(100, 1)))
    transaction.step(TickAnswered(B, Clock(100, 2)))
    transaction.step(AdjustAnswered(A))
    transaction.step(ParticipantFailed(B, "refused"))
    assert (transaction.phase, transaction.clock) == ("failed", None)


def test_c16_a_node_with_a_wall_far_ahead_fails_the_transaction_and_drags_nobody() -> None:
    """The drift guard of the others refuses its clock."""
    nodes = {A: node_at(Clock(100, 5), 200), B: node_at(Clock(100, 9), 90_000)}
    transaction = TransactionClock.over([A, B])
    run(transaction, nodes)
    assert transaction.clock is None
    assert transaction.failure is not None
    assert transaction.failure.node == A
    assert nodes[A].tick() < Clock(300, 0)


def test_c18_a_participant_named_twice_is_asked_once() -> None:
    """Two connections to one node are one participant."""
    transaction = TransactionClock.over([B, A, B, B])
    assert transaction.begin() == [AskTick(B), AskTick(A)]
    transaction.step(TickAnswered(B, Clock(1, 1)))
    asks = transaction.step(TickAnswered(A, Clock(2, 2)))
    assert asks == [AskAdjust(B, Clock(2, 2)), AskAdjust(A, Clock(2, 2))]


def test_a_transaction_on_one_node_takes_its_tick() -> None:
    nodes = {A: node_at(Clock(100, 5), 50)}
    transaction = TransactionClock.over([A])
    run(transaction, nodes)
    assert transaction.clock == Clock(100, 6)


def test_strangers_repetitions_and_late_answers_change_nothing() -> None:
    transaction = TransactionClock.over([A, B])
    transaction.step(TickAnswered(A, Clock(5, 0)))
    before = fingerprint(transaction)
    for answer in (
        TickAnswered(A, Clock(9, 9)),
        TickAnswered(C, Clock(9, 9)),
        ParticipantFailed(C, "who?"),
        AdjustAnswered(A),
    ):
        assert transaction.step(answer) == []
        assert fingerprint(transaction) == before
    transaction.step(TickAnswered(B, Clock(6, 0)))
    transaction.step(AdjustAnswered(A))
    transaction.step(AdjustAnswered(A))
    assert transaction.phase == "adjusting"
    transaction.step(AdjustAnswered(B))
    done = fingerprint(transaction)
    transaction.step(ParticipantFailed(A, "too late"))
    transaction.step(TickAnswered(A, Clock(9, 9)))
    assert fingerprint(transaction) == done
    assert transaction.clock == Clock(6, 0)


def test_a_copy_goes_its_own_way() -> None:
    transaction = TransactionClock.over([A, B])
    copy, before = clone_plain(transaction), fingerprint(transaction)
    copy.step(TickAnswered(A, Clock(1, 1)))
    assert fingerprint(transaction) == before != fingerprint(copy)


starts = st.builds(Clock, st.integers(90, 110), st.integers(0, 20))


@given(
    st.lists(st.tuples(starts, st.integers(50, 150)), min_size=3, max_size=3),
    st.lists(st.sets(st.sampled_from([A, B, C]), min_size=1), min_size=1, max_size=6),
)
def test_transactions_that_share_a_node_have_rising_clocks(
    states: list[tuple[Clock, int]], transactions: list[set[NodeId]]
) -> None:
    nodes = {name: node_at(*state) for name, state in zip((A, B, C), states, strict=True)}
    before: dict[NodeId, Clock] = {}
    for participants in transactions:
        transaction = TransactionClock.over(sorted(participants))
        run(transaction, nodes)
        assert transaction.clock is not None
        for node in participants:
            assert node not in before or before[node] < transaction.clock
            before[node] = transaction.clock
