"""The decision of a new primary: what must never be cut off, and a naive twin of it.

A world is a few replicas and what each knows of each op, in the words of the scripts (``vsr_logs``). Some of
them have sent their logs.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from motet.core.vsr.messages import DoViewChange
from motet.core.vsr.quorums import quorums
from motet.core.vsr.view_change_quorum import Decision, Verdict, decide
from motet.testing.scripts.vsr_damage import KINDS, hand_made_log, prepare_header

PIPELINE = 4
HEAD_MAX = 9


class Known(msgspec.Struct, frozen=True):
    """What one replica knows: of each op up to its head, a kind and which prepare it is."""

    log_view: int
    commit: int
    #: kinds[op]; the head is never blank
    kinds: tuple[str, ...]
    letters: tuple[str, ...]

    @property
    def head(self) -> int:
        return len(self.kinds) - 1

    def sent_by(self, replica: int) -> DoViewChange:
        words = tuple(
            f"{op}{letter}:{kind}"
            for op, (kind, letter) in enumerate(zip(self.kinds, self.letters, strict=True))
        )
        lowest = max(self.head - PIPELINE, 0)
        return hand_made_log(
            replica,
            words[lowest:],
            view=9,
            log_view=self.log_view,
            commit=self.commit,
            pipeline=PIPELINE,
        )

    def kind(self, op: int) -> str:
        """What is said of an op in a log."""
        if op > self.head:
            return "blank"
        return "unsaid" if op < self.head - PIPELINE else self.kinds[op]


@st.composite
def known(draw: st.DrawFn, others_from: int) -> Known:
    """Logs of one view have the same prepares; those of view 1 have others at the top than those of 2."""
    log_view = draw(st.integers(1, 2))
    head = draw(st.integers(0, HEAD_MAX))
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=head + 1, max_size=head + 1))
    if kinds[-1] in ("blank", "fault"):
        kinds[-1] = "present"
    kinds[0] = "present"
    letters = ["b" if log_view == 1 and op >= others_from else "" for op in range(head + 1)]
    return Known(log_view, draw(st.integers(0, head)), tuple(kinds), tuple(letters))


class World(msgspec.Struct, frozen=True):
    """All replicas, and which of them have spoken."""

    replicas: tuple[Known, ...]
    spoken: tuple[int, ...]

    @property
    def logs(self) -> list[DoViewChange]:
        return [self.replicas[each].sent_by(each) for each in self.spoken]

    @property
    def decision(self) -> Decision:
        return decide(self.logs, quorums(len(self.replicas)), PIPELINE)

    @property
    def canonical(self) -> list[Known]:
        said = [self.replicas[each] for each in self.spoken]
        log_view = max(each.log_view for each in said)
        return [each for each in said if each.log_view == log_view]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    others_from = draw(st.integers(1, HEAD_MAX + 1))
    replicas = draw(st.lists(known(others_from), min_size=1, max_size=6))
    order = draw(st.permutations(range(len(replicas))))
    count = draw(st.integers(1, len(replicas)))
    return World(tuple(replicas), tuple(order[:count]))


def known_of(log_view: int, *kinds: str, commit: int = 0, letters: str = "") -> Known:
    """A log of op 0 and these; dots in ``letters`` are no letter."""
    names = ("", *(letter.strip(".") for letter in letters.ljust(len(kinds), ".")))
    return Known(log_view, commit, ("present", *kinds), names)


# What must hold


@given(worlds())
def test_what_a_replication_quorum_may_have_is_never_cut_off(world: World) -> None:
    made = world.decision
    if made.verdict is not Verdict.COMPLETE_VALID:
        return
    op = made.op_head + 1  # those above are committed after it, or not at all
    if op > max(each.head for each in world.canonical):
        return
    letter = letter_of(world.canonical, op)
    holding = [each for each in world.replicas if may_hold(each, op, letter)]
    assert len(holding) < quorums(len(world.replicas)).replication


def may_hold(known: Known, op: int, letter: str | None) -> bool:
    """It has acknowledged this very prepare, or may have and does not know."""
    kind = known.kind(op)
    if kind in ("fault", "unsaid"):
        return True
    return kind in ("present", "corrupt") and known.letters[op] == letter


def letter_of(canonical: Sequence[Known], op: int) -> str | None:
    """Which prepare the newest logs have there; None if none of them knows it."""
    for each in canonical:
        if each.kind(op) in ("present", "missing", "corrupt"):
            return each.letters[op]
    return None


@given(worlds())
def test_what_is_known_to_be_committed_is_kept(world: World) -> None:
    made = world.decision
    if made.verdict is Verdict.COMPLETE_VALID:
        assert made.op_head >= max(log.commit_max for log in world.logs)
        assert made.op_head >= made.commit_max


@given(worlds())
def test_all_that_is_kept_can_be_had_from_somebody(world: World) -> None:
    made = world.decision
    if made.verdict is not Verdict.COMPLETE_VALID:
        return
    said = [world.replicas[each] for each in world.spoken]
    for op in range(made.commit_max, made.op_head + 1):
        letter = letter_of(world.canonical, op)
        assert any(each.kind(op) == "present" and each.letters[op] == letter for each in said)
    assert made.headers[0].op == made.op_head
    ops = [header.op for header in made.headers]
    assert ops == sorted(ops, reverse=True)


@given(worlds(), st.randoms(use_true_random=False))
def test_the_order_of_the_logs_does_not_matter(world: World, dice: random.Random) -> None:
    order = list(world.spoken)
    dice.shuffle(order)
    assert World(world.replicas, tuple(order)).decision == world.decision


# A naive twin: op by op, with words instead of bits


@given(worlds())
@example(World((known_of(2, "present"), known_of(1, "present", letters="b")), (0, 1)))
@example(World((known_of(2), known_of(1, "present", commit=1), known_of(2)), (0, 1)))
def test_it_decides_as_its_naive_twin(world: World) -> None:
    made = world.decision
    assert (made.verdict, made.op_head if made.headers else None) == naive(world)


def naive(world: World) -> tuple[Verdict, int | None]:
    sizes = quorums(len(world.replicas))
    said = [world.replicas[each] for each in world.spoken]
    if len(said) < sizes.view_change:
        return Verdict.AWAITING_QUORUM, None
    is_all = len(said) == len(world.replicas)
    unclear = Verdict.COMPLETE_INVALID if is_all else Verdict.AWAITING_REPAIR
    committed = max(max(each.commit, each.head - PIPELINE, 0) for each in said)
    last = max(each.head for each in world.canonical)
    if last < committed:
        return unclear, None
    head = committed - 1
    for op in range(committed, last + 1):
        words = [opinion(each, op, world.canonical) for each in said]
        if op > committed and words.count("no") >= sizes.nack:
            break
        if "yes" not in words:
            return unclear, None
        head = op
    return Verdict.COMPLETE_VALID, head


def opinion(known: Known, op: int, canonical: Sequence[Known]) -> str:
    """Of one replica about one op: it has it, it never had it, it cannot tell."""
    kind = known.kind(op)
    letter = letter_of(canonical, op)
    if kind in ("missing", "blank"):
        return "no"
    if kind in ("fault", "unsaid"):
        return "cannot tell"
    if known.letters[op] != letter:
        return "no"
    return "yes" if kind == "present" else "cannot tell"


# Single cases; the others are golden scripts


def test_one_log_of_three_is_no_quorum() -> None:
    world = World((known_of(2, "present"),) * 3, (1,))
    assert world.decision.verdict is Verdict.AWAITING_QUORUM


def test_a_replica_that_is_alone_decides_alone() -> None:
    made = World((known_of(2, "present", "present", commit=1),), (0,)).decision
    assert (made.verdict, made.op_head) == (Verdict.COMPLETE_VALID, 2)
    assert made.headers == (prepare_header(2), prepare_header(1), prepare_header(0))


def test_the_head_of_a_header_proves_what_its_primary_had_committed() -> None:
    log = known_of(2, "present", "present").sent_by(0)
    head = msgspec.structs.replace(prepare_header(2), commit=1)
    log = msgspec.structs.replace(log, headers=(head, *log.headers[1:]))
    other = known_of(2).sent_by(1)
    assert decide([log, other], quorums(3), PIPELINE).commit_max == 1
