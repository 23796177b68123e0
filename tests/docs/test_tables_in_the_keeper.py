"""docs/reference/tables-in-the-keeper.md names the nodes and the entries that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.fuzz.test_hostile_tables import Meddled, requests

from motet.core.mergetree.entries import decode_entry, encode_entry
from motet.core.mergetree.paths import ROOTS

PAGE = (Path(__file__).parents[2] / "docs/reference/tables-in-the-keeper.md").read_text()
ROWS = re.findall(r"^\| `(/motet/[^`]*)` \|", PAGE, re.MULTILINE)
ENTRIES = PAGE.partition("<!-- entries -->\n```json\n")[2].partition("```")[0].splitlines()


def pattern(path: str) -> str:
    """Of the paths that a row is about."""
    words = re.split(r"<[^>]*>", path)
    return "[^/]+".join(map(re.escape, words))


def test_every_node_is_in_the_page() -> None:
    stand = Meddled(1)
    for number in range(1, 12):
        for message in requests(stand, number):
            stand.say(message)
        stand.tick()
    known = re.compile("|".join(map(pattern, ROWS)))
    folders = re.compile("|".join(pattern(row.rpartition("/")[0]) for row in ROWS))
    above = {path.rpartition("/")[0] for root in ROOTS for path in stand.below(root)}
    for root in ROOTS:
        for path in stand.below(root):
            is_above = path in above or folders.fullmatch(path)
            assert known.fullmatch(path) or is_above or path.endswith("/shards"), path


@pytest.mark.parametrize("line", ENTRIES)
def test_every_entry_of_the_page_is_one(line: str) -> None:
    assert encode_entry(decode_entry(line.encode())).decode() == line
