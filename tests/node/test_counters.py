"""The plain counters behind the metrics."""

from __future__ import annotations

from motet.node.counters import Counters, Histogram, note_names_max


def test_an_observation_is_counted_at_the_first_bound_that_holds_it() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.5, 100.0):
        histogram.observe(value)
    assert histogram.counts == [2, 1, 2]
    assert histogram.total == 105.5


def test_the_names_of_notes_are_bounded() -> None:
    counters = Counters()
    for number in range(2 * note_names_max):
        counters.note("machine", f"note-{number}")
    counters.note("machine", "note-0")
    assert counters.notes["machine", "note-0"] == 2
    assert counters.notes["machine", "other"] == note_names_max
    assert len(counters.notes) == note_names_max + 1
