"""What a place of the log is after a restart: every case there is, as a table.

The two rings say two things about each slot: the header that was written last, and the prepare. They are
joined here. Which case it is depends on eleven questions with yes or no for an answer (``Question``),
and the answer to all of them has exactly one row, which a test proves by asking all 2048. Rows that
cannot happen are rows too, so that nothing falls between two of them.

The decisions:

eql          both say the same: the prepare is here
fix          the prepare is here and the header is to be written again
nil          nothing was ever promised of this place
cut          what is here is beyond all that could have been prepared: it is as if nothing were
vsr          something may have been promised, and the others must say what: the place is faulty
unreachable  the answers contradict each other

The prepare is always written first, and synced before its header is written. That is why a prepare that
is newer than its header is believed, and a header that is newer than its prepare is a sign of damage.
"""

from __future__ import annotations

import enum
from functools import cache

import msgspec


class Decision(enum.StrEnum):
    """What is done about a slot."""

    EQL = "eql"
    NIL = "nil"
    FIX = "fix"
    VSR = "vsr"
    CUT = "cut"
    UNREACHABLE = "unreachable"


class Question(msgspec.Struct, frozen=True):
    """What is asked of a slot. Reserved is neither the highest, nor beyond, nor equal to anything."""

    header_valid: bool
    header_reserved: bool
    prepare_valid: bool
    prepare_reserved: bool
    #: no header and no prepare of the whole log has a higher op
    prepare_is_max_op: bool
    #: the header or the prepare is of an op that this checkpoint does not allow yet
    beyond_prepare_max: bool
    checksums_equal: bool
    ops_equal: bool
    #: the header's op is lower than the prepare's
    header_op_less: bool
    views_equal: bool
    #: the cluster has one replica, and nobody to ask
    solo: bool


class Case(msgspec.Struct, frozen=True):
    """One row: ``pattern`` has a 1, 0 or - (either) for each question, in their order."""

    letter: str
    decision: Decision
    pattern: str
    why: str

    @property
    def mark(self) -> str:
        """The name under which tests ask whether this case has ever happened."""
        return f"wal_case_{self.letter}"

    def matches(self, question: Question) -> bool:
        return all(
            wanted in ("-", "01"[getattr(question, name)])
            for wanted, name in zip(self.pattern, Question.__struct_fields__, strict=True)
        )


# fmt: off
_ROWS = (
    #     header  prepare max beyond   equal: checksum, op; header less; view equal; solo
    ("A", "vsr", "00 00 - - -- - - -", "both are damaged"),
    ("B", "vsr", "11 00 - - -- - - -", "a prepare is acknowledged before its header is written"),
    ("C", "vsr", "10 00 - 0 -- - - -", "the header says that there was a prepare, or an older one"),
    ("D", "cut", "10 00 - 1 -- - - -", "damaged, but nobody could have been promised it"),
    ("E", "vsr", "00 11 - - -- - - 0", "the header may have told of a prepare that was lost"),
    ("F", "nil", "00 11 - - -- - - 1", "alone, the prepare has the last word"),
    ("G", "fix", "00 10 1 0 -- - - -", "no header can be newer than the newest prepare"),
    ("H", "vsr", "00 10 0 0 -- - - 0", "the header may have told of a newer prepare that was lost"),
    ("I", "fix", "00 10 0 0 -- - - 1", "alone, the prepare has the last word"),
    ("J", "cut", "00 10 - 1 -- - - -", "the prepare is beyond what this checkpoint allows"),
    ("K", "nil", "11 11 - - -- - - -", "nothing has ever been here"),
    ("L", "fix", "11 10 - 0 -- - - -", "the first prepare here, cut off before its header"),
    ("M", "cut", "11 10 - 1 -- - - -", "the prepare is beyond what this checkpoint allows"),
    ("N", "vsr", "10 11 - 0 -- - - -", "a header without its prepare: the prepare was lost"),
    ("O", "cut", "10 11 - 1 -- - - -", "the header is beyond what this checkpoint allows"),
    ("P", "cut", "10 10 - 1 -- - - -", "one of them is beyond what this checkpoint allows"),
    ("Q", "eql", "10 10 - 0 11 0 - -", "the prepare and its header, as it should be"),
    ("R", "fix", "10 10 - 0 00 1 - -", "a newer prepare, cut off before its header"),
    ("S", "vsr", "10 10 - 0 00 0 - -", "a header newer than its prepare: the prepare was lost"),
    ("T", "vsr", "10 10 - 0 01 0 0 -", "prepared in two views: which was last cannot be told"),
    ("U", "vsr", "10 10 - 0 01 0 1 -", "one op of one view twice: one of them is not what it seems"),
    ("V", "unreachable", "01 -- - - -- - - -", "a header that is reserved is valid"),
    ("W", "unreachable", "00 01 - - -- - - -", "a prepare that is reserved is valid"),
    ("X", "unreachable", "1- 01 - - -- - - -", "a prepare that is reserved is valid"),
    ("Y", "unreachable", "10 10 - 0 10 - - -", "equal checksums are equal ops"),
    ("Z", "unreachable", "10 10 - 0 -1 1 - -", "an op that is equal is not less"),
)
# fmt: on

_CASES = tuple(
    Case(letter, Decision(decision), pattern.replace(" ", ""), why)
    for letter, decision, pattern, why in _ROWS
)


def cases() -> tuple[Case, ...]:
    """All rows, in the order of their letters."""
    return _CASES


@cache
def decide(question: Question) -> Case:
    """The one row for these answers."""
    for case in _CASES:
        if case.matches(question):
            return case
    raise AssertionError("the table has a row for everything")
