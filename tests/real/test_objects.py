"""Objects in a folder where the port does not reach: other processes, disks that fail, what lies there."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from motet.errors import BadInput, ObjectError, ObjectMissing
from motet.ids import ObjectKey
from motet.real import objects as objects_module
from motet.real.durable import sync_folder_at
from motet.real.objects import LocalObjects

KEY = ObjectKey("table/part")

RACER = """
import asyncio, sys
from pathlib import Path
from motet.errors import ObjectExists
from motet.ids import ObjectKey
from motet.real.objects import LocalObjects

async def create(objects, key):
    try:
        await objects.put(key, sys.argv[2].encode() * 10_000, create_only=True)
    except ObjectExists:
        return ""
    return key

async def main():
    objects = LocalObjects(Path(sys.argv[1]))
    print("ready", flush=True)
    sys.stdin.readline()
    keys = [ObjectKey(f"folder-{number // 5}/{number}") for number in range(50)] * 2
    print(" ".join(filter(None, await asyncio.gather(*(create(objects, key) for key in keys)))))

asyncio.run(main())
"""


def test_of_many_threads_and_processes_one_creates(tmp_path: Path) -> None:
    names = ["a", "b", "c"]
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, str(tmp_path), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    won: dict[str, str] = {}
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    for name, racer in zip(names, racers, strict=True):
        output, _ = racer.communicate()
        assert racer.returncode == 0
        for key in output.split():
            assert key not in won, "two have created the same object"
            won[key] = name
    objects = LocalObjects(tmp_path)
    assert len(won) == 50
    for key, name in won.items():
        assert asyncio.run(objects.get(ObjectKey(key))) == name.encode() * 10_000
    assert [info.key for info in asyncio.run(objects.list())] == sorted(won)
    assert list((tmp_path / ".unfinished").iterdir()) == []


def test_puts_and_deletes_that_meet_in_one_folder(tmp_path: Path) -> None:
    """A delete removes the folder it leaves empty, perhaps under the hands of a put."""
    objects = LocalObjects(tmp_path)

    async def work(number: int) -> None:
        key = ObjectKey(f"a/b/c/{number}")
        for _ in range(20):
            await objects.put(key, b"x")
            assert await objects.get(key) == b"x"
            await objects.delete(key)

    async def play() -> None:
        await asyncio.gather(*map(work, range(4)))

    asyncio.run(play())
    assert [path.name for path in tmp_path.iterdir()] == [".unfinished"], "nothing is left lying"


def test_a_reader_never_sees_half_an_object(tmp_path: Path) -> None:
    objects = LocalObjects(tmp_path)
    contents = [bytes([number]) * 200_000 for number in range(2)]

    async def write() -> None:
        for number in range(20):
            await objects.put(KEY, contents[number % 2])

    async def play() -> None:
        await objects.put(KEY, contents[0])
        writing = asyncio.create_task(write())
        while not writing.done():
            assert await objects.get(KEY) in contents
        await writing

    asyncio.run(play())


def test_an_object_that_does_not_fit_leaves_the_old_one(tmp_path: Path) -> None:
    script = (
        "import asyncio, resource, sys; from pathlib import Path; from motet.errors import *;"
        "from motet.real.objects import LocalObjects; objects = LocalObjects(Path(sys.argv[1]));"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000));"
        "asyncio.run(objects.put('table/part', b'y' * 1001))"
    )
    objects = LocalObjects(tmp_path)
    asyncio.run(objects.put(KEY, b"old"))
    command = [sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "DiskFull: DISK_FULL put table/part: File too large" in done.stderr
    assert asyncio.run(objects.get(KEY)) == b"old"
    assert list((tmp_path / ".unfinished").iterdir()) == []


def test_every_folder_on_the_way_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    objects = LocalObjects(tmp_path)
    synced: list[Path] = []

    def noting(path: Path) -> None:
        synced.append(path)
        sync_folder_at(path)

    monkeypatch.setattr(objects_module, "sync_folder_at", noting)
    asyncio.run(objects.put(ObjectKey("a/b/c"), b"x"))
    assert synced == [tmp_path / "a+" / "b+", tmp_path / "a+", tmp_path]


UPLOADER = """
import sys, threading
from pathlib import Path
from motet.real.objects import LocalObjects

unfinished = LocalObjects(Path(sys.argv[1])).begin()
unfinished.write(b"half")
print(unfinished.path, flush=True)
threading.Event().wait()
"""


def test_what_a_dead_process_left_is_swept_away_and_of_nobody_else(tmp_path: Path) -> None:
    uploader = subprocess.Popen(
        [sys.executable, "-c", UPLOADER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert uploader.stdout is not None
    half = Path(uploader.stdout.readline().strip())
    young = half.with_name("young")
    young.write_bytes(b"half")
    an_hour_ago = half.stat().st_mtime - 3600
    os.utime(half, (an_hour_ago, an_hour_ago))
    LocalObjects(tmp_path)
    assert half.read_bytes() == b"half", "its writer lives, however slow it is"
    uploader.kill()
    uploader.communicate()
    objects = LocalObjects(tmp_path)
    assert (half.exists(), young.exists()) == (False, True)
    assert asyncio.run(objects.list()) == []


def test_piece_by_piece_nothing_is_seen_before_the_end(tmp_path: Path) -> None:
    objects = LocalObjects(tmp_path)
    for create_only in (True, False):
        unfinished = objects.begin()
        unfinished.write(b"first ")
        unfinished.write(b"second")
        with pytest.raises(ObjectMissing):
            asyncio.run(objects.head(KEY))
        objects.finish(KEY, unfinished, create_only=create_only)
        unfinished.close()
        unfinished.close()
        assert objects.file_of(KEY).read_bytes() == b"first second"
        assert asyncio.run(objects.confirm(KEY)).size_bytes == 12
        asyncio.run(objects.delete(KEY))
    unfinished = objects.begin()
    unfinished.close()
    assert list((tmp_path / ".unfinished").iterdir()) == []


def test_one_whose_file_was_taken_away_changes_nothing(tmp_path: Path) -> None:
    objects = LocalObjects(tmp_path)
    unfinished = objects.begin()
    unfinished.path.unlink()
    with pytest.raises(ObjectError):
        objects.finish(KEY, unfinished, create_only=True)
    unfinished.close()
    assert asyncio.run(objects.list()) == []


def test_what_the_store_keeps_for_itself_is_no_object(tmp_path: Path) -> None:
    objects = LocalObjects(tmp_path)
    (tmp_path / ".store").write_bytes(b"token")
    asyncio.run(objects.put(ObjectKey(".store"), b"an object"))
    assert [info.key for info in asyncio.run(objects.list())] == [".store"]
    assert (tmp_path / ".store").read_bytes() == b"token"


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ObjectError, match="file"):
        LocalObjects(tmp_path / "file" / "objects")


@pytest.mark.parametrize("key", ["", "x" * 1025, "X" * 100, "a/" + "ü" * 60, "\ud800"])
def test_what_cannot_be_a_key(tmp_path: Path, key: str) -> None:
    objects = LocalObjects(tmp_path)
    with pytest.raises(BadInput):
        asyncio.run(objects.put(ObjectKey(key), b"x"))
    with pytest.raises(BadInput):
        asyncio.run(objects.get(ObjectKey(key)))


def test_nothing_reaches_outside_the_folder(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    objects = LocalObjects(tmp_path / "objects")
    for key in ("../secret", "a/../../secret", str(tmp_path / "secret")):
        with pytest.raises(ObjectMissing):
            asyncio.run(objects.get(ObjectKey(key)))
        asyncio.run(objects.put(ObjectKey(key), b"other"))
    assert (tmp_path / "secret").read_bytes() == b"secret"
