"""The registry of parts."""

from __future__ import annotations

from pathlib import Path

import pytest

from motet.errors import BadScenario
from motet.testing.scripts import PARTS, open_part

SCENARIOS = Path(__file__).parents[1] / "scenarios"


@pytest.mark.parametrize("name", PARTS)
def test_a_registered_part_knows_its_name_and_has_scripts(name: str) -> None:
    assert open_part(name).name == name
    assert list((SCENARIOS / name).glob("*.txt"))


def test_every_script_is_in_the_folder_of_a_part() -> None:
    folders = {path.parent.name for path in SCENARIOS.rglob("*.txt")}
    assert folders <= set(PARTS)


def test_every_file_gets_a_part_of_its_own() -> None:
    assert open_part("clock") is not open_part("clock")


def test_an_unknown_part_names_the_known_ones() -> None:
    with pytest.raises(BadScenario, match=r"'spoon'.*clock"):
        open_part("spoon")
