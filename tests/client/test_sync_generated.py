"""The face without an event loop is what the tool makes of the async one."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOOL = runpy.run_path(str(ROOT / "tools/sync_face.py"))


def test_the_generated_modules_are_up_to_date() -> None:
    for target in TOOL["TARGETS"]:
        made = TOOL["generated"](target)
        assert (ROOT / target.path).read_text() == made, f"run `{TOOL['COMMAND']}`"
