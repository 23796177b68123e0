"""A trace has one line for one thing, whatever machines put into their notes."""

from __future__ import annotations

from tests.sim.scripted import on_start, put

from motet.core.machine import Note
from motet.sim.faults import Faults
from motet.sim.trace import Trace
from motet.sim.world import World


def test_a_note_with_a_line_break_is_one_line() -> None:
    trace = Trace()
    world = World(1, Faults(), trace)
    put(world, "a", on_start(Note("here", "first\nsecond")))
    world.run(1)
    assert trace.lines[-1].endswith("* here first\\nsecond")
    assert "\n".join(trace.lines).count("\n") + 1 == trace.count == len(trace.lines)


def test_a_short_trace_keeps_the_newest_lines_and_counts_all() -> None:
    trace = Trace(lines_max=3)
    for number in range(100):
        trace.add(number, "a", "*", str(number))
        assert len(trace.lines) == min(number + 1, 3)
    assert [line.split()[-1] for line in trace.lines] == ["97", "98", "99"]
    assert trace.count == 100


def test_the_digest_depends_on_every_line_and_its_end() -> None:
    digests = set()
    for lines in (["ab"], ["a", "b"], ["b", "a"], ["a"], []):
        trace = Trace()
        for line in lines:
            trace.add(0, "a", "*", line)
        digests.add(trace.digest())
    assert len(digests) == 5
