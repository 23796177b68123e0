"""The table of mutants has every variant of every model, with its property and its size."""

from __future__ import annotations

import re
from pathlib import Path

from motet.verify.models import every_variant
from motet.verify.parts import part_named

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "mutants.md"


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


def test_every_planted_bug_in_the_table_is_there() -> None:
    cores = PAGE.read_text(encoding="utf-8").partition("## Models")[0]
    rows = re.findall(r"^\| ([a-z-]+) \| ([a-z-]+) \| .+ \|$", cores, flags=re.MULTILINE)
    assert len(rows) > 50
    for part, plant in rows:
        assert plant in part_named(part).plants, f"{part} {plant}"
