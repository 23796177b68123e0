"""Hand-made logs for a new primary to decide about, as a script writes them.

::

    r0 11a:present 10:missing 9:corrupt log_view=5 commit=7

From the head down. An op may have a letter: ``10a`` and ``10b`` are two prepares of one op. What is said
of it is what its replica knows:

========= =============================================== ============ =======
present   the prepare is there                            header       present
missing   the header is known, the prepare never came     header       nack
corrupt   the header is known, the prepare is damaged     header
blank     nothing ever came                               none         nack
fault     something may have come, and is damaged         none
========= =============================================== ============ =======

What is not mentioned, down to the lowest op of a pipeline, is present.
"""

from __future__ import annotations

import re

import msgspec

from motet.core.vsr.header import NO_CHECKSUM, OPERATION_MIN, Header, checksum, root_header, sealed
from motet.core.vsr.messages import DoViewChange
from motet.errors import BadScenario
from motet.ids import ClusterId, Op, ReplicaIndex, View

CLUSTER = ClusterId(7)
KINDS = ("present", "missing", "corrupt", "blank", "fault")
_WORD = re.compile(r"(\d+)([a-z]?)(?::([a-z]+))?")


def prepare_header(op: int, letter: str = "") -> Header:
    """A header that differs with its letter."""
    if op == 0:
        return root_header(CLUSTER)
    return sealed(
        msgspec.structs.replace(
            root_header(CLUSTER),
            op=Op(op),
            operation=OPERATION_MIN,
            body_checksum=checksum(letter.encode()),
            checksum=NO_CHECKSUM,
        )
    )


def hand_made_log(
    replica: int, words: tuple[str, ...], *, view: int, log_view: int, commit: int, pipeline: int
) -> DoViewChange:
    """The do_view_change that these words describe."""
    said = dict(_parsed(word) for word in words)
    if not said:
        raise BadScenario("a log has a head at least", hint="such as 5:present")
    head = max(said)
    headers: list[Header | None] = []
    nacks = presents = 0
    for index, op in enumerate(range(head, max(head - pipeline, 0) - 1, -1)):
        letter, kind = said.get(op, ("", "present"))
        headers.append(None if kind in ("blank", "fault") else prepare_header(op, letter))
        nacks |= (kind in ("missing", "blank")) << index
        presents |= (kind == "present") << index
    return DoViewChange(
        CLUSTER,
        ReplicaIndex(replica),
        View(view),
        View(log_view),
        Op(head),
        Op(commit),
        Op(0),
        tuple(headers),
        nacks,
        presents,
    )


def _parsed(word: str) -> tuple[int, tuple[str, str]]:
    match = _WORD.fullmatch(word)
    if match is None or (match[3] or "present") not in KINDS:
        raise BadScenario(f"{word!r} is no op of a log", hint=f"OP:{'|'.join(KINDS)}")
    return int(match[1]), (match[2], match[3] or "present")
