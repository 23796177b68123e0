"""What somebody has put into the keeper by hand is named, and brings no replica down."""

from __future__ import annotations

import pytest
from tests.core.mergetree.stand import CLIENT, OWN, PATHS, TABLE, Stand, header, insert

from motet.core.mergetree.messages import LogHas, TableRefused
from motet.core.mergetree.pulling import head_of
from motet.core.mergetree.state import Phase
from motet.core.metadata.messages import Create, NodeStat, Set
from motet.ids import PartId, SessionId, Zxid

JUNK = [b"", b"junk", b"\xff", b"{}", b"[]", b"9" * 40]


@pytest.mark.parametrize("junk", JUNK)
def test_a_token(junk: bytes) -> None:
    stand = Stand()
    stand.start()
    stand.write(Create(PATHS.token("token-of-a"), junk))
    stand.receive(CLIENT, insert("a"))
    stand.settle()
    assert isinstance(stand.told[0], TableRefused)
    assert stand.told[0].code == "BAD_RECORD"


@pytest.mark.parametrize("junk", JUNK)
def test_a_status_and_the_last_part(junk: bytes) -> None:
    stand = Stand()
    stand.start()
    stand.write(Create(PATHS.status(PartId("a")), junk), Set(PATHS.last_part, junk, 0))
    stand.aside[PartId("a")] = stand.state.aside[PartId("a")] = header("a")
    stand.append_elsewhere("a", quorum=2)
    stand.receive("n2", LogHas(TABLE, 0, 0))
    stand.settle()
    assert stand.state.queue[PartId("a")].reason
    assert stand.state.phase is Phase.ACTIVE


@pytest.mark.parametrize("junk", JUNK)
def test_an_entry(junk: bytes) -> None:
    stand = Stand()
    stand.start()
    stand.write(Create(PATHS.new_entry, junk, sequential=True))
    stand.receive("n2", LogHas(TABLE, 0, 0))
    stand.settle()
    assert [each.what for each in stand.notes].count("table_bad_entry") == 1
    assert stand.state.history.next_number == 0


@pytest.mark.parametrize("junk", JUNK)
def test_the_pointer_and_the_queue(junk: bytes) -> None:
    stand = Stand()
    stand.write(Create(OWN.queued(3), junk), Create(f"{OWN.queue}/junk"))
    stand.start()
    assert stand.state.phase is Phase.ACTIVE
    other = Stand()
    other.write(Set(OWN.log_pointer, junk, 0))
    other.start()
    assert other.state.phase is Phase.READ_ONLY


@pytest.mark.parametrize(
    ("made", "trimmed"), [(0, 0), (1, 0), (5, 3), (1 << 31, 1 << 20), (2**31 - 1, 0)]
)
def test_the_head_is_told_by_counts_of_32_bits(made: int, trimmed: int) -> None:
    """R1: each creation and each deletion counts once in cversion."""
    changes = (made + trimmed + (1 << 31)) % (1 << 32) - (1 << 31)
    stat = NodeStat(0, changes, made - trimmed, Zxid(1), Zxid(1), 0, 0, SessionId(0))
    assert head_of(stat) == made % (1 << 31) - 1
