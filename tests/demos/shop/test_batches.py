"""From Spark's notes it is seen whether a batch is under way."""

from __future__ import annotations

from pathlib import Path

import pytest

from motet.demos.shop.watch import is_batch_under_way


@pytest.mark.parametrize(
    ("offsets", "commits", "is_under_way"),
    [
        ([], [], False),
        (["0"], [], True),
        (["0"], ["0"], False),
        (["8", "9", "10"], ["8", "9"], True),
        (["8", "9", "10"], ["9", "10"], False),
        (["9", ".10.tmp", ".9.crc"], ["9"], False),
    ],
)
def test_a_batch_is_under_way_between_its_two_notes(
    tmp_path: Path, offsets: list[str], commits: list[str], is_under_way: bool
) -> None:
    for folder, names in (("offsets", offsets), ("commits", commits)):
        (tmp_path / folder).mkdir()
        for name in names:
            (tmp_path / folder / name).touch()
    assert is_batch_under_way(tmp_path) is is_under_way


def test_before_spark_has_begun_there_is_none(tmp_path: Path) -> None:
    assert not is_batch_under_way(tmp_path / "checkpoint")
