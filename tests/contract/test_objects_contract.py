"""What every object store promises (:mod:`motet.ports`)."""

from __future__ import annotations

import asyncio

import pytest

from motet.errors import ObjectExists, ObjectMissing
from motet.ids import ObjectKey
from motet.ports import ObjectInfo, Objects

KEY = ObjectKey("table/part-1/0-abc")


def test_what_was_put_can_be_got(objects: Objects) -> None:
    async def play() -> None:
        await objects.put(KEY, b"0123456789")
        assert await objects.get(KEY) == b"0123456789"
        assert await objects.head(KEY) == ObjectInfo(KEY, 10)

    asyncio.run(play())


def test_a_range_is_shorter_at_the_end(objects: Objects) -> None:
    async def play() -> None:
        await objects.put(KEY, b"0123456789")
        assert await objects.get(KEY, 2, 3) == b"234"
        assert await objects.get(KEY, 8) == b"89"
        assert await objects.get(KEY, 8, 100) == b"89"
        assert await objects.get(KEY, 10, 1) == b""
        assert await objects.get(KEY, 99) == b""
        assert await objects.get(KEY, 0, 0) == b""

    asyncio.run(play())


def test_an_empty_object_is_an_object(objects: Objects) -> None:
    async def play() -> None:
        await objects.put(KEY, b"")
        assert await objects.get(KEY) == b""
        assert await objects.list() == [ObjectInfo(KEY, 0)]

    asyncio.run(play())


def test_what_is_not_there_is_missing(objects: Objects) -> None:
    async def play() -> None:
        await objects.put(ObjectKey("a/b"), b"x")
        for key in ("a", "a/", "a/b/", "a/b/c", "A/B", "a%2fb"):
            with pytest.raises(ObjectMissing):
                await objects.get(ObjectKey(key))
            with pytest.raises(ObjectMissing):
                await objects.head(ObjectKey(key))

    asyncio.run(play())


def test_put_replaces_and_create_only_does_not(objects: Objects) -> None:
    async def play() -> None:
        await objects.put(KEY, b"first", create_only=True)
        with pytest.raises(ObjectExists):
            await objects.put(KEY, b"second", create_only=True)
        assert await objects.get(KEY) == b"first"
        await objects.put(KEY, b"third")
        assert await objects.get(KEY) == b"third"

    asyncio.run(play())


def test_one_of_many_creates_an_object(objects: Objects) -> None:
    async def create(number: int) -> int | None:
        try:
            await objects.put(KEY, b"by %d" % number, create_only=True)
        except ObjectExists:
            return None
        return number

    async def play() -> None:
        for _ in range(5):
            results = await asyncio.gather(*map(create, range(20)))
            (winner,) = [number for number in results if number is not None]
            assert await objects.get(KEY) == b"by %d" % winner
            await objects.delete(KEY)

    asyncio.run(play())


def test_deleting(objects: Objects) -> None:
    async def play() -> None:
        await objects.put(KEY, b"x")
        await objects.delete(KEY)
        await objects.delete(KEY)
        with pytest.raises(ObjectMissing):
            await objects.get(KEY)
        assert await objects.list() == []
        await objects.put(KEY, b"again", create_only=True)
        assert await objects.get(KEY) == b"again"

    asyncio.run(play())


def test_a_listing_is_by_prefix_and_sorted_by_key(objects: Objects) -> None:
    keys = ["a", "a/b", "a/b/c", "a-b", "a+b", "ab/c", "b/../a", "ä", "A/b", "z/"]

    async def listed(prefix: str) -> list[str]:
        return [info.key for info in await objects.list(prefix)]

    async def play() -> None:
        for key in reversed(keys):
            await objects.put(ObjectKey(key), key.encode())
        assert await listed("") == sorted(keys)
        for prefix in ("a", "a/", "a/b", "a/b/", "A", "b/", "b/..", "z/", "nothing", "a/nothing/"):
            assert await listed(prefix) == sorted(key for key in keys if key.startswith(prefix))
        sizes = [info.size_bytes for info in await objects.list()]
        assert sizes == [len(key.encode()) for key in sorted(keys)]

    asyncio.run(play())


@pytest.mark.parametrize(
    "key", [".", "..", "/", "//", "../x", "a/../../x", "/etc", "a\\b", "a\nb", "a b", "%", "%2e",
            "+", "a+", "a+/b", "~", ".unfinished/x", "ü/😀", "a\0b", "CON", "x" * 200]
)  # fmt: skip
def test_any_text_can_be_a_key(objects: Objects, key: str) -> None:
    async def play() -> None:
        await objects.put(ObjectKey("other"), b"other")
        await objects.put(ObjectKey(key), b"odd", create_only=True)
        assert await objects.get(ObjectKey(key)) == b"odd"
        assert [info.key for info in await objects.list()] == sorted([key, "other"])
        await objects.delete(ObjectKey(key))
        assert [info.key for info in await objects.list()] == ["other"]

    asyncio.run(play())
