"""Dropping and renaming tables."""

from __future__ import annotations

import pytest
from tests.core.mergetree.tables import (
    OTHER,
    TABLE,
    create,
    cut_off,
    describe,
    drop,
    ended,
    filled,
    is_commit,
    name,
    names,
    rename,
    renamed_elsewhere,
    serving,
    unanswered,
)

from motet.core.mergetree.messages import NodeRefused, TableChanged, TableReady
from motet.core.mergetree.paths import (
    TABLE_DATA,
    definition_path,
    name_path,
)
from motet.core.metadata.definitions import decode_table_definition

# Dropping


def test_a_table_that_is_dropped_has_no_name_and_takes_no_inserts() -> None:
    stand = filled("sales")
    told = stand.ask(drop())
    assert isinstance(told, TableChanged)
    assert names(stand) == ()
    found = stand.find(definition_path(TABLE.id))
    assert found is not None
    assert decode_table_definition(found.data).is_dropped
    assert str(told.version) == f"{found.stat.mzxid}@0000a1b2"
    stand.tick(100_000)
    assert stand.below(TABLE_DATA) == []


def test_its_name_is_free_at_once() -> None:
    stand = filled("sales")
    stand.ask(drop())
    ready = stand.ask(create(id=OTHER, shards=3))
    assert isinstance(ready, TableReady)
    assert ready.is_new
    stand.tick(100_000)
    assert stand.tree.names(TABLE_DATA) == (OTHER,)
    assert list(stand.node.replicas) == [(OTHER, 0), (OTHER, 1), (OTHER, 2)]


def test_what_is_not_there_cannot_be_dropped_or_renamed() -> None:
    stand = serving()
    assert stand.refusal(drop()).code == "NO_SUCH_TABLE"
    assert stand.refusal(rename("sales", "other")).code == "NO_SUCH_TABLE"
    assert stand.refusal(drop("../sales")).code == "BAD_INPUT"
    assert stand.refusal(rename("sales", "a/b")).code == "BAD_INPUT"


@pytest.mark.parametrize("how", ["done", "lost", "late"])
def test_a_drop_without_an_answer_is_found_out(how: str) -> None:
    stand = filled("sales")
    told = cut_off(stand, drop(), how)
    assert isinstance(told, TableChanged)
    assert names(stand) == ()
    found = stand.find(definition_path(TABLE.id))
    assert found is not None
    assert told.version.zxid == found.stat.mzxid


def test_junk_can_be_dropped() -> None:
    stand = filled("sales", shards=3)
    stand.put(definition_path(TABLE.id), b"{")
    assert isinstance(stand.ask(drop()), TableChanged)
    stand.tick(100_000)
    assert stand.below(TABLE_DATA) == []
    stand = serving()
    stand.put(name_path(name("sales")), b"..")
    assert stand.refusal(drop()).code == "BAD_RECORD"


# Renaming


def test_a_rename_moves_the_name_and_is_seen_at_the_definition() -> None:
    stand = filled("sales")
    before = describe(stand, "sales").tables[0]
    told = stand.ask(rename("sales", "other"))
    assert isinstance(told, TableChanged)
    assert names(stand) == ("other",)
    after = describe(stand, "other")
    assert after.tables[0].definition == before.definition
    assert after.tables[0].definition_version == before.definition_version + 1
    assert after.version == told.version


def test_a_name_that_is_taken_stays_where_it_is() -> None:
    stand = filled("sales", "other")
    assert stand.refusal(rename("sales", "other")).code == "TABLE_EXISTS"
    assert stand.refusal(rename("sales", "sales")).code == "TABLE_EXISTS"
    assert names(stand) == ("other", "sales")


@pytest.mark.parametrize("how", ["done", "lost", "late"])
def test_a_rename_without_an_answer_is_found_out(how: str) -> None:
    stand = filled("sales")
    told = cut_off(stand, rename("sales", "other"), how)
    assert isinstance(told, TableChanged)
    assert names(stand) == ("other",)
    found = stand.find(definition_path(TABLE.id))
    assert found is not None
    assert told.version.zxid == found.stat.mzxid


def test_a_rename_in_whose_place_another_was_done_is_not_taken_for_it() -> None:
    stand = filled("sales")
    unanswered(stand, rename("sales", "mine"))
    renamed_elsewhere(stand, rename("sales", "theirs"))
    told = ended(stand)
    assert isinstance(told, NodeRefused)
    assert told.code == "NO_SUCH_TABLE"
    assert names(stand) == ("theirs",)


def test_a_rename_after_which_much_has_happened_is_unknown() -> None:
    stand = filled("sales")
    unanswered(stand, rename("sales", "mine"))
    renamed_elsewhere(stand, rename("sales", "theirs"))
    renamed_elsewhere(stand, rename("theirs", "sales"))
    told = ended(stand)
    assert isinstance(told, NodeRefused)
    assert told.code == "OUTCOME_UNKNOWN"


def test_a_session_that_ends_leaves_a_commit_unknown() -> None:
    stand = filled("sales")
    stand.is_held = True
    stand.ask(drop())
    while not is_commit(stand.asked[0]):
        stand.answer()
    stand.end()
    (told,) = stand.told
    assert isinstance(told, NodeRefused)
    assert told.code == "OUTCOME_UNKNOWN"
