"""U1: what is committed lands in the table that was meant, whatever happens before its multi."""

from __future__ import annotations

import msgspec
import pytest
from tests.core.mergetree.stand import CLIENT, PATHS, TABLE, Stand, insert

from motet.core.mergetree.messages import (
    BlockInserted,
    DropPartitions,
    InsertBlock,
    PartitionsDropped,
    TableRefused,
)
from motet.core.mergetree.paths import TABLES, name_path
from motet.core.metadata.messages import Create, Delete, Read, Set
from motet.ids import RequestId, TableName

SALES = name_path(TableName("sales"))


def named(message: InsertBlock) -> InsertBlock:
    return msgspec.structs.replace(message, name_path=SALES)


def dropping() -> DropPartitions:
    return DropPartitions(TABLE, 0, RequestId(1), None, SALES)


def serving() -> Stand:
    stand = Stand()
    stand.start()
    stand.write(Create(TABLES), Create(SALES, TABLE.encode()))
    return stand


def ask(stand: Stand, message: InsertBlock | DropPartitions) -> None:
    """Up to its multi."""
    stand.receive(CLIENT, message)
    if isinstance(message, InsertBlock):
        stand.work()
    stand.answer(Read)


def refusal(stand: Stand) -> TableRefused:
    stand.settle()
    (told,) = stand.told
    assert isinstance(told, TableRefused)
    return told


def swap(stand: Stand) -> None:
    """The name is another table's, at a node of the same version."""
    stand.write(Delete(SALES, 0), Set(PATHS.definition, b"{}", 0))
    stand.write(Create(SALES, b"other"))


@pytest.mark.parametrize("message", [named(insert("a")), dropping()])
def test_a_name_that_moves_before_the_multi_is_seen(message: InsertBlock | DropPartitions) -> None:
    stand = serving()
    ask(stand, message)
    swap(stand)
    assert refusal(stand).code == "TABLE_MOVED"


@pytest.mark.parametrize("message", [named(insert("a")), dropping()])
def test_a_name_that_has_moved_before_the_read_is_seen(
    message: InsertBlock | DropPartitions,
) -> None:
    stand = serving()
    swap(stand)
    ask(stand, message)
    assert refusal(stand).code == "TABLE_MOVED"


@pytest.mark.parametrize("message", [insert("a"), named(insert("a")), dropping()])
@pytest.mark.parametrize("is_late", [False, True])
def test_nothing_is_committed_into_a_dropped_table(
    message: InsertBlock | DropPartitions, is_late: bool
) -> None:
    stand = serving()
    if is_late:
        ask(stand, message)
    stand.write(Set(PATHS.definition, b'{"is_dropped":true}', 0))
    if not is_late:
        ask(stand, message)
    assert refusal(stand).code == "NO_SUCH_TABLE"


def test_a_definition_that_is_junk_is_told() -> None:
    stand = serving()
    stand.write(Set(PATHS.definition, b"junk", 0))
    ask(stand, insert("a"))
    told = refusal(stand)
    assert (told.code, TABLE in told.what) == ("BAD_RECORD", True)


def test_what_changes_nothing_of_the_name_is_no_hindrance() -> None:
    stand = serving()
    ask(stand, named(insert("a")))
    stand.write(Set(PATHS.definition, b"{}", 0))
    stand.settle()
    ask(stand, msgspec.structs.replace(dropping(), request=RequestId(2)))
    stand.write(Set(PATHS.definition, b"{}", 1))
    stand.settle()
    assert [type(each) for each in stand.told] == [BlockInserted, PartitionsDropped]
