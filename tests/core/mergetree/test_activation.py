"""What may happen between any two steps of an activation."""

from __future__ import annotations

from tests.core.mergetree.stand import CLIENT, N1, N2, OWN, PATHS, TABLE, Stand, header, insert

from motet.core.machine import Started
from motet.core.mergetree.messages import LogHas, PartArrived, TableRefused
from motet.core.mergetree.node import TableNode
from motet.core.mergetree.state import Phase
from motet.core.metadata.messages import (
    METADATA,
    Conflict,
    Create,
    Delete,
    Read,
    SessionBegun,
    Set,
    Write,
)
from motet.ids import PartId


def test_a_replica_that_is_marked_lost_while_it_activates_stays_read_only() -> None:
    """T23: the cleaner marks it after it has read ``is_lost``, and before it has raised ``host``."""
    stand = Stand()
    stand.begin_quietly()
    stand.answer(Read)
    stand.write(Set(OWN.is_lost, b"1", 0))
    stand.settle()
    stand.tick()
    stand.settle()
    assert stand.state.phase is Phase.READ_ONLY
    assert "lost" in stand.state.why


def test_answers_to_a_former_session_are_not_taken() -> None:
    """R4: a session begins, and the end of the one before was not told."""
    stand = Stand()
    stand.start()
    stand.receive(CLIENT, insert("a"))
    stand.work()
    stand.answer(Read)
    commit = stand.take(Write)
    late = stand.tree.answer(commit)
    stand.begin()
    stand.receive(METADATA, late)
    stand.settle()
    assert isinstance(stand.told[0], TableRefused)
    assert stand.told[0].code == "OUTCOME_UNKNOWN"
    assert stand.state.parts[insert("a").part.id].is_registered


def test_bytes_that_are_synced_while_a_session_begins_are_not_committed() -> None:
    """The disk is read meanwhile: the replica would not know that it has them."""
    stand = Stand()
    stand.start()
    stand.receive(CLIENT, insert("a"))
    stand.answer(Read)  # what decides about the insert counts under this session alone
    stand.end()
    keep = next(iter(stand.working))
    stand.begin()
    stand.answer(Read)
    stand.answer(Write)
    assert next(iter(stand.working)) == keep
    stand.work()
    stand.settle()
    assert [each.code for each in stand.told if isinstance(each, TableRefused)] == [
        "TABLE_READ_ONLY"
    ]
    assert stand.state.phase is Phase.ACTIVE


def test_a_second_activation_takes_no_answer_of_the_first() -> None:
    """It steps back while it reads its disk, and begins anew: one of the two goes on."""
    stand = Stand()
    stand.begin_quietly()
    stand.answer(Read)
    stand.answer(Write)
    stand.replica.core.step_back("something is not as it was")
    stand.tick()
    stand.work()
    assert not [
        each for each in stand.asked if isinstance(each, Read) and len(each.operations) == 2
    ]
    stand.settle()
    assert stand.state.phase is Phase.ACTIVE


def test_a_replica_with_another_log_than_the_keeper_does_not_fall() -> None:
    """T38: the keeper's files were an older copy, and its log has grown since."""
    stand = Stand()
    stand.start()
    stand.receive(CLIENT, insert("a"))
    stand.settle()
    stand.tick()  # the file is written
    copy = Stand()
    copy.file, copy.stored = stand.file, {insert("a").part.id: insert("a").part}
    copy.state.history.zxid = stand.state.history.zxid
    for number in range(2):
        del number
        copy.append_elsewhere("b")
    copy.start()
    assert copy.state.phase is Phase.READ_ONLY
    assert "another entry 0" in copy.state.why


def test_the_pointer_goes_back_with_a_file_that_is_lost() -> None:
    """L2: what the keeper counts as executed is what the file holds."""
    stand = Stand()
    stand.write(Set(OWN.log_pointer, b"7", 0))
    stand.start()
    assert stand.tree.get(OWN.log_pointer) == b"0"


def test_a_session_may_begin_twice() -> None:
    stand = Stand()
    stand.start()
    stand.receive(METADATA, SessionBegun(stand.session))
    stand.settle()
    assert stand.state.phase is Phase.ACTIVE


def test_bytes_that_arrive_while_the_disk_is_read_are_known() -> None:
    """T5, T24: the look may have passed them already."""
    stand = Stand()
    stand.begin_quietly()
    stand.answer(Read)
    stand.answer(Write)
    stand.receive("n1", PartArrived(TABLE, 0, header("a"), N1))
    stand.settle()
    stand.append_elsewhere("a")
    stand.receive("n2", LogHas(TABLE, 0, 0))
    stand.settle()
    assert stand.state.parts[header("a").id].is_registered


def test_a_fetch_that_ends_while_the_disk_is_read_is_not_lost() -> None:
    """It was begun under the session before; its source has gone since."""
    stand = Stand()
    stand.start()
    stand.write(Create(PATHS.replica(N2).is_active), Create(PATHS.replica(N2).part(PartId("a"))))
    stand.append_elsewhere("a")
    stand.receive("n2", LogHas(TABLE, 0, 0))
    while not stand.working:
        stand.answer()
    stand.end()
    stand.write(Delete(PATHS.replica(N2).is_active, 0))
    stand.begin()
    stand.answer(Read)
    stand.answer(Write)
    stand.work()
    stand.stored.clear()  # the look was too early to see it
    stand.settle()
    stand.tick()
    stand.settle()
    assert stand.state.parts[PartId("a")].is_registered


def test_another_entry_of_the_same_number_and_zxid_is_another_log() -> None:
    """A4: an older copy counts on from an older zxid, too."""
    stand = Stand()
    stand.start()
    stand.append_elsewhere("a")
    stand.receive("n2", LogHas(TABLE, 0, 0))
    stand.settle()
    stand.state.last_entry = stand.state.last_entry.replace(b"hash of a", b"hash of b")
    stand.begin()
    stand.settle()
    assert stand.state.phase is Phase.READ_ONLY
    assert "another entry 0" in stand.state.why


def test_a_late_pointer_of_a_former_life_passes_no_file() -> None:
    """L8: the file is gone when the pointer of the life before comes."""
    stand = Stand()
    stand.start()
    stand.append_elsewhere("a")
    stand.receive("n2", LogHas(TABLE, 0, 0))
    stand.settle()
    stand.tick()  # the file is written
    stand.settle()
    stand.tick(2_000)
    late = next(
        each
        for each in stand.asked
        if isinstance(each, Write) and any(op.path == OWN.log_pointer for op in each.operations)
    )
    stand.node = TableNode(N1, ((TABLE, 0),), None, "folder of n1", "n1:7400")
    stand.asked, stand.working, stand.file = [], {}, b""
    stand.step(Started(stand.now(), nonce=2))
    stand.session = stand.tree.begin_session()
    stand.receive(METADATA, SessionBegun(stand.session))
    while stand.state.phase is not Phase.ACTIVE:
        if stand.asked:
            stand.answer()
        else:
            stand.work()
    assert isinstance(stand.tree.answer(late), Conflict)
    assert stand.tree.get(OWN.log_pointer) == b"0"
