"""docs/reference/consensus.md says what the code says."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import get_args

from motet.core.vsr.messages import ALIASES, VsrCall, command_name

TOOL = runpy.run_path(str(Path(__file__).parents[2] / "tools/consensus_reference.py"))
PAGE, ROUTES, page = TOOL["PAGE"], TOOL["ROUTES"], TOOL["page"]

OF_THE_TEXT = """
    ping pong ping_client pong_client request prepare prepare_ok reply commit start_view_change
    do_view_change start_view request_start_view request_headers request_prepare request_reply headers
    eviction
"""


def test_every_command_of_the_source_text_is_a_type_of_its_own() -> None:
    names = [command_name(kind) for kind in get_args(VsrCall)]
    assert len(set(names)) == len(names)
    assert set(OF_THE_TEXT.split()) <= set(names)
    assert set(ROUTES) == set(names)
    assert set(ALIASES) <= set(names)


def test_the_page_is_what_the_code_says() -> None:
    assert PAGE.read_text() == page(), "run `python -m tools.consensus_reference`"
