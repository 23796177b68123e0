"""The tables of mutants have every variant of every model, and every planted bug, as they are."""

from __future__ import annotations

import re
from pathlib import Path

from motet.verify.models import every_variant
from motet.verify.plants import PLANTS, Plant, Search

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "mutants.md"


def test_the_table_has_every_variant_as_it_is() -> None:
    rows = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("| `"):
            model, variant, what, size, caught, *_ = (c.strip() for c in line.strip("|").split("|"))
            rows.append((model.strip("`"), variant.strip("`"), what, size, caught))
    expected = []
    for name, variant, mutant in every_variant():
        settings = mutant.model(**mutant.settings).settings
        size = " ".join(f"{key}={value}" for key, value in settings.items())
        expected.append((name, variant, mutant.what, size, mutant.breaks or "equivalent"))
    assert rows == expected


def row_of(plant: Plant, search: Search) -> str:
    """A planted bug as a line of the table."""
    rules = " or ".join([", ".join(search.by[:-1]), search.by[-1]] if search.by[1:] else search.by)
    module, _, rule = plant.rule_id.partition(" ")
    where = f" ({rule} of `{module}`)" if rule else ""
    target = plant.target.removeprefix("motet.")
    profile = "" if search.profile == "swarm" else f" of `{search.profile}`"
    caught = f"{rules}, within {search.within:,} seeds{profile}"
    return f"| {search.part} | {plant.name} | {plant.rule}{where} | `{target}` | {caught} |"


def test_the_table_has_every_planted_bug_as_its_row_says() -> None:
    cores = PAGE.read_text(encoding="utf-8").partition("## Models")[0]
    lines = re.findall(r"^\| [a-z-]+ \| [a-z-]+ \| .+ \|$", cores, flags=re.MULTILINE)
    rows = [row_of(plant, search) for plant in PLANTS for search in plant.searches]
    assert lines == rows
    assert f"Of {len(rows)} planted bugs" in cores
