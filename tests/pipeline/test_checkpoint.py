"""The folder of a checkpoint: whose it is, who has it, and the slices that Spark has noted in it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from motet.core.clock.hlc import ZERO, Clock
from motet.core.onelog.messages import StreamInfo
from motet.errors import BadCheckpoint, BadPipeline, NodeError
from motet.ids import StreamName
from motet.pipeline.checkpoint import Checkpoint, default_folder
from motet.pipeline.progress import Slice

DATABASE = 0xABC


@contextmanager
def opened(folder: Path, database: int = DATABASE, name: str = "shop") -> Iterator[Checkpoint]:
    checkpoint = Checkpoint(folder, database, name)
    try:
        yield checkpoint
    finally:
        checkpoint.close()


def stream(name: str, created: int = 1) -> StreamInfo:
    return StreamInfo(StreamName(name), 1, None, Clock(created, 0), (0,))


def note(folder: Path, batch: int, logical: int, database: int = DATABASE) -> None:
    """What Spark writes before it hands out a batch."""
    offset = json.dumps({"database": f"{database:016x}", "logical": logical, "counter": 0})
    (folder / "offsets").mkdir(exist_ok=True)
    (folder / "offsets" / str(batch)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{offset}')


def test_a_new_folder_is_made_and_is_found_again(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "checkpoint"
    with opened(folder) as first:
        first.remember((stream("orders"),), ZERO)
    with opened(folder) as again:
        again.remember((stream("orders"),), Clock(100, 0))


def test_a_folder_that_was_made_and_never_used_is_new(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    with opened(tmp_path, database=1) as other:
        other.remember((stream("orders"),), ZERO)


@pytest.mark.parametrize(("database", "name"), [(DATABASE + 1, "shop"), (DATABASE, "other")])
def test_the_checkpoint_of_another_is_refused(tmp_path: Path, database: int, name: str) -> None:
    with opened(tmp_path) as first:
        first.remember((stream("orders"),), ZERO)
    with pytest.raises(BadCheckpoint, match="the checkpoint of pipeline shop of database"):
        Checkpoint(tmp_path, database, name)
    with opened(tmp_path):
        pass  # and the one who was refused holds nothing


def test_a_folder_with_other_files_is_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text("dear")
    with pytest.raises(BadCheckpoint, match=r"no motet\.json"):
        Checkpoint(tmp_path, DATABASE, "shop")


def test_a_garbled_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "motet.json").write_text("{")
    with pytest.raises(BadCheckpoint, match=r"motet\.json"):
        Checkpoint(tmp_path, DATABASE, "shop")


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadCheckpoint, match="cannot use"):
        Checkpoint(tmp_path / "file", DATABASE, "shop")


def test_one_driver_has_it_at_a_time(tmp_path: Path) -> None:
    with opened(tmp_path), pytest.raises(NodeError, match="in use by process"):
        Checkpoint(tmp_path, DATABASE, "shop")


def test_a_stream_whose_changes_would_be_missing_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as checkpoint:
        checkpoint.remember((stream("orders"),), ZERO)
        done = Clock(100, 0)
        with pytest.raises(BadPipeline, match="without stream stock"):
            checkpoint.remember((stream("orders"), stream("stock", created=50)), done)
        checkpoint.remember((stream("orders"), stream("young", created=101)), done)


def test_offsets_of_other_streams_are_forgotten(tmp_path: Path) -> None:
    done = Clock(100, 0)
    with opened(tmp_path) as checkpoint:
        checkpoint.remember((stream("orders"), stream("stock")), ZERO)
        note(tmp_path, 0, 10)
        (tmp_path / "metadata").write_text("{}")
        checkpoint.remember((stream("stock"), stream("orders")), done)
        assert (tmp_path / "offsets" / "0").exists(), "the same streams"
        checkpoint.remember((stream("orders"),), done)
        left = {path.name for path in tmp_path.iterdir()}
        assert left == {"motet.json", "lock~"}
    with opened(tmp_path) as checkpoint, pytest.raises(BadPipeline, match="without stream stock"):
        checkpoint.remember((stream("orders"), stream("stock")), done)


def test_a_slice_begins_where_the_batch_before_ended(tmp_path: Path) -> None:
    begin = Clock(5, 0)
    with opened(tmp_path) as checkpoint:
        for batch, logical in enumerate((10, 20, 30)):
            note(tmp_path, batch, logical)
        assert checkpoint.slice_of(0, begin) == Slice(begin, Clock(10, 0))
        assert checkpoint.slice_of(2, begin) == Slice(Clock(20, 0), Clock(30, 0))


def test_notes_that_cannot_be_understood_are_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as checkpoint:
        with pytest.raises(BadCheckpoint, match="offsets/0"):
            checkpoint.slice_of(0, ZERO)
        note(tmp_path, 0, 10, database=1)
        with pytest.raises(BadCheckpoint, match="of database"):
            checkpoint.slice_of(0, ZERO)
        for text in ("", "v9\n{}\n{}", "v1\n{}\n{}\n{}", "v1\n{}\nnothing", 'v1\n{}\n{"x":1}'):
            (tmp_path / "offsets" / "0").write_text(text)
            with pytest.raises(BadCheckpoint):
                checkpoint.slice_of(0, ZERO)


def test_it_is_in_the_folder_of_the_database_or_in_the_cache_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = default_folder(tmp_path, DATABASE, "shop")
    assert inside == tmp_path / "pipelines" / "shop" / "checkpoint"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cached = default_folder(None, DATABASE, "shop")
    assert cached.is_relative_to(tmp_path)
    assert len({cached, default_folder(None, 1, "shop"), default_folder(None, DATABASE, "b")}) == 3
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    assert default_folder(None, DATABASE, "shop").is_relative_to(Path.home())


def test_a_copy_is_as_good_as_the_folder(tmp_path: Path) -> None:
    with opened(tmp_path / "a") as checkpoint:
        checkpoint.remember((stream("orders"),), ZERO)
        shutil.copytree(tmp_path / "a", tmp_path / "b")
        with opened(tmp_path / "b"):
            pass
