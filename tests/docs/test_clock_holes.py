"""Every hole of the cluster clock that we know of has a test that fails when it is reopened."""

from __future__ import annotations

import re
from pathlib import Path

from motet.verify.models import variant_of
from motet.verify.storms import PARTS, storm_named

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "designs" / "cluster-clock.md"


def holes() -> list[str]:
    listed = PAGE.read_text(encoding="utf-8").partition("## Holes")[2]
    return re.split(r"^\d+\. ", listed, flags=re.MULTILINE)[1:]


def test_there_are_seven_and_each_names_a_test() -> None:
    assert len(holes()) == 7
    assert all(re.search(r"`tests/[^`]+`", hole) for hole in holes())


def test_what_they_name_exists() -> None:
    planted = {plant for part in PARTS for plant in storm_named(part).plants}
    for hole in holes():
        for name in re.findall(r"`tests/([^`]+)`", hole):
            file, _, function = name.partition("::")
            text = (ROOT / "tests" / file).read_text(encoding="utf-8")
            assert not function or f"def {function}(" in text, name
        for name in re.findall(r"`([a-z-]+)`", hole.replace("part `", "part ")):
            assert name in planted or variant_of("cluster-clock", name), name
