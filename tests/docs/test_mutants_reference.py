"""The table of mutants has every variant of every model, with its property and its size."""

from __future__ import annotations

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from motet.verify.models import every_variant
from motet.verify.parts import PARTS, part_named

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "mutants.md"
SEEDED = (
    "streams",
    "shard-changes",
    "transactions",
    "transactions-in-turns",
    "vsr",
    "view-change",
    "keeper",
)
"""Parts whose tests have a seed for a planted bug."""


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


def planted() -> list[tuple[str, str, str]]:
    """Part, planted bug, and what it is caught by, as the page says."""
    cores = PAGE.read_text(encoding="utf-8").partition("## Models")[0]
    return re.findall(r"^\| ([a-z-]+) \| ([a-z-]+) \| (.+) \|$", cores, flags=re.MULTILINE)


def test_the_table_has_every_planted_bug() -> None:
    known = [(part, plant) for part in PARTS for plant in part_named(part).plants]
    assert sorted((part, plant) for part, plant, _ in planted()) == sorted(known)
    assert f"Of {len(known)} planted bugs" in PAGE.read_text(encoding="utf-8")


def found_at(part: str) -> dict[str, str]:
    """Planted bug -> the rule that its seed breaks, as the tests of the part have it."""
    file = ROOT / "tests" / "verify" / "parts" / f"test_{part.replace('-', '_')}_part.py"
    spec = spec_from_file_location(f"seeds_of_{part}", file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    seeds: dict[str, Any] = module.FOUND_AT | getattr(module, "FOUND_LATER", {})
    return {plant: "some rule" if isinstance(at, int) else at[1] for plant, at in seeds.items()}


@pytest.mark.parametrize("part", SEEDED)
def test_a_planted_bug_is_caught_by_the_rule_that_its_seed_breaks(part: str) -> None:
    told = {
        plant: caught.removesuffix(", by its seed")
        for name, plant, caught in planted()
        if name == part and caught.endswith(", by its seed")
    }
    assert told == found_at(part)
