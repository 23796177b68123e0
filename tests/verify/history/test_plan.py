"""A plan cuts a history at its returns, and its bits stay few."""

from __future__ import annotations

from random import Random

from tests.verify.history.histories import Act, good_history, register_client, sequence, unknown

from motet.verify.history.search import CAS, READ, WRITE, make_plan

FUNCTIONS = {"read": READ, "write": WRITE, "cas": CAS}


def test_bits_are_as_few_as_operations_open_at_once() -> None:
    history = good_history(Random(1), register_client, 0, operations=2_000, processes=5, trouble=0)
    plan = make_plan(history.operations, FUNCTIONS)
    assert len(plan.returns) == 2_000
    assert max(bit for steps in plan.returns for _, bit, *_ in steps) < 1 << 5


def test_every_return_lists_what_is_open_with_bits_that_differ() -> None:
    history = good_history(Random(2), register_client, 0, operations=300, processes=6, trouble=0)
    plan = make_plan(history.operations, FUNCTIONS)
    for steps in plan.returns:
        returning = history.operations[steps[0][5]]
        open_then = [
            op.id
            for op in sorted(history.operations, key=lambda op: op.ended)
            if op.began < returning.ended <= op.ended
        ]
        assert [index for *_, index in steps] == open_then
        assert len({bit for _, bit, *_ in steps}) == len(steps)


def test_what_says_nothing_is_left_out() -> None:
    history = sequence(
        Act("write", 1, outcome="failed"), unknown(Act("read")), unknown(Act("cas", (3, 3)))
    )
    plan = make_plan(history.operations, FUNCTIONS)
    assert (plan.returns, plan.writes_of, plan.cas_from) == ([], {}, {})


def test_unknown_mutators_are_kept_apart_and_keep_their_bits() -> None:
    history = sequence(unknown(Act("write", 1)), Act("read", None, 0), unknown(Act("cas", (0, 1))))
    plan = make_plan(history.operations, FUNCTIONS)
    ((seen_from, write_bit),) = plan.writes_of[1]
    ((cas_seen_from, cas_bit),) = plan.cas_from[0][1]
    assert (seen_from, cas_seen_from) == (0, 1)
    assert plan.cas_to[1][0] is plan.cas_from[0][1]
    assert write_bit not in (plan.returns[0][0][1], cas_bit)
