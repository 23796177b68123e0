"""docs/reference/shard-log.md says what the code says."""

from __future__ import annotations

import inspect
import runpy
from pathlib import Path
from types import ModuleType

import pytest

from motet.core.machine import Message
from motet.core.metadata import messages as metadata_messages
from motet.core.shardlog import messages as shard_messages
from motet.core.streams import cluster_messages as operator_messages

TOOL = runpy.run_path(str(Path(__file__).parents[2] / "tools/shard_log_reference.py"))
PAGE, page = TOOL["PAGE"], TOOL["page"]

OF_THE_TEXT = """
    FenceRequest FenceResponse BecomeLeaderRequest BecomeLeaderResponse AddFollowerRequest
    AddFollowerResponse TruncateRequest TruncateResponse SnapshotRequest SnapshotResponse AddEntryRequest
    AddEntryResponse PrepareReconfigurationRequest PrepareReconfigurationResponse
    CommitReconfigurationRequest CommitReconfigurationResponse AbortReconfigurationRequest
    AbortReconfigurationResponse
"""


def test_the_messages_of_the_text_come_first_and_in_its_order() -> None:
    names = [kind.__name__ for kind, _, _ in shard_messages.REFERENCE]
    assert names[: len(OF_THE_TEXT.split())] == OF_THE_TEXT.split()


@pytest.mark.parametrize("module", [shard_messages, operator_messages, metadata_messages])
def test_every_message_that_is_sent_is_in_the_reference(module: ModuleType) -> None:
    kinds = [
        kind
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, Message) and kind.__module__ == module.__name__
    ]
    sent = [kind for kind in kinds if not any(kind in other.__bases__ for other in kinds)]
    assert {kind for kind, _, _ in module.REFERENCE} == set(sent)


def test_the_page_is_what_the_code_says() -> None:
    assert PAGE.read_text() == page(), "run `python -m tools.shard_log_reference`"
