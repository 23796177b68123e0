"""Stores of parts, at hand and remote: the same promises."""

from __future__ import annotations

import asyncio
import pickle
import shutil
import socket
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.client.parts import TABLE, manifest_of, number_of, part_file, serving
from tests.embedded.processes import line_of, python_running

import motet
from motet.client.link import HTTP_PORT_OFFSET
from motet.client.part_http import HttpParts
from motet.client.parts import (
    STORE_FILE,
    DirectParts,
    PartsLocator,
    PartStore,
    base_url_of,
    find_parts,
    open_parts,
    prepare_folder,
    token_of,
)
from motet.errors import (
    BadInput,
    BadRecord,
    NodeError,
    ObjectError,
    ObjectExists,
    ObjectMissing,
    TooLarge,
)
from motet.ids import ObjectKey
from motet.limits import part_bytes_max

FILE = part_file(100_000)
Server = tuple[str, int]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path) as served:
        yield served


@pytest.fixture(params=["direct", "http"])
def run(request: pytest.FixtureRequest, server: Server) -> Callable[..., Any]:
    """Runs a coroutine function with a store."""

    def play(check: Callable[[PartStore], Coroutine[Any, Any, Any]]) -> Any:
        async def main() -> Any:
            parts = await find_parts(*server, number_of(server))
            assert isinstance(parts, DirectParts)
            if request.param == "http":
                parts = open_parts(PartsLocator("", "", base_url_of(*server)))
                assert isinstance(parts, HttpParts)
            try:
                return await check(parts)
            finally:
                await parts.close()

        return asyncio.run(main())

    return play


def test_what_was_put_is_there_as_path_and_source(run: Callable[..., Any]) -> None:
    async def check(parts: PartStore) -> None:
        for file in (FILE, manifest_of(FILE), part_file(0, seed=3)):
            await parts.put(file.key, file.data)
            await parts.put(file.key, file.data)
            path = await parts.path(file.key, len(file.data))
            assert path.read_bytes() == file.data
            assert await parts.path(file.key, len(file.data)) == path
            source = parts.source(file.key, len(file.data))
            if isinstance(source, str):
                assert source == str(path)
            else:
                with source:
                    assert source.read() == file.data

    run(check)


def test_many_at_once(run: Callable[..., Any]) -> None:
    async def check(parts: PartStore) -> None:
        files = [part_file(50_000, seed) for seed in range(12)]
        await asyncio.gather(*(parts.put(file.key, file.data) for file in files * 2))
        paths = await asyncio.gather(*(parts.path(f.key, len(f.data)) for f in files * 2))
        assert [path.read_bytes() for path in paths] == [file.data for file in files * 2]
        if isinstance(parts, HttpParts):
            assert len({path.parent for path in paths}) == 1, "and nothing is left lying elsewhere"

    run(check)


def test_what_is_not_there_or_not_as_long_is_told(run: Callable[..., Any]) -> None:
    async def check(parts: PartStore) -> None:
        with pytest.raises(ObjectMissing):
            await parts.path(FILE.key, 10)
        await parts.put(FILE.key, FILE.data)
        for size_bytes in (len(FILE.data) - 1, len(FILE.data) + 1):
            with pytest.raises((BadRecord, ObjectError), match="bytes"):
                await parts.path(FILE.key, size_bytes)

    run(check)


def test_what_cannot_be_put(run: Callable[..., Any]) -> None:
    async def check(parts: PartStore) -> None:
        for key in ("../x", f"{TABLE}/x/manifest", ".store"):
            with pytest.raises(BadInput):
                await parts.put(ObjectKey(key), b"x")
            with pytest.raises(BadInput):
                await parts.path(ObjectKey(key), 1)
            with pytest.raises(BadInput):
                parts.source(ObjectKey(key), 1)
        with pytest.raises(TooLarge):
            await parts.put(FILE.key, bytes(part_bytes_max + 1))
        await parts.put(manifest_of(FILE).key, manifest_of(FILE).data)
        with pytest.raises(ObjectExists):
            await parts.put(manifest_of(FILE).key, manifest_of(FILE, rows=2).data)

    run(check)


def test_a_locator_leads_another_process_to_the_same_store(run: Callable[..., Any]) -> None:
    async def check(parts: PartStore) -> None:
        await parts.put(FILE.key, FILE.data)
        other = open_parts(pickle.loads(pickle.dumps(parts.locator())))
        assert type(other) is type(parts)
        assert (await other.path(FILE.key, len(FILE.data))).read_bytes() == FILE.data
        await other.close()

    run(check)


def test_a_folder_that_is_not_at_hand_is_reached_by_http(server: Server, tmp_path: Path) -> None:
    async def locate() -> PartsLocator:
        return (await find_parts(*server, number_of(server))).locator()

    locator = asyncio.run(locate())
    assert locator.folder == str(tmp_path / "parts")
    assert isinstance(open_parts(locator), DirectParts)
    (tmp_path / "parts" / STORE_FILE).write_text("0" * 32)
    assert isinstance(open_parts(locator), HttpParts)
    assert isinstance(
        open_parts(PartsLocator(str(tmp_path / "x"), "", base_url_of(*server))), HttpParts
    )
    with pytest.raises(ObjectError, match="endpoint"):
        open_parts(PartsLocator(locator.folder, locator.token))


def test_a_copy_of_the_folder_is_not_taken_for_it(tmp_path: Path) -> None:
    with motet.open(tmp_path / "one"):
        shutil.copytree(tmp_path / "one", tmp_path / "copy")
    copied = token_of(tmp_path / "copy" / "parts")
    with motet.open(tmp_path / "one"):
        assert copied is not None
        assert token_of(tmp_path / "one" / "parts") not in (None, copied)


def test_a_token_is_for_its_owner_and_no_other_text(tmp_path: Path) -> None:
    token = prepare_folder(tmp_path / "a" / "parts")
    store = tmp_path / "a" / "parts" / STORE_FILE
    assert token_of(store.parent) == token
    assert store.stat().st_mode & 0o077 == 0
    for other in (b"", b"\xff" * 32, b"x" * 32):
        store.write_bytes(other)
        assert token_of(store.parent) is None
    assert token_of(tmp_path / "nothing") is None


def test_no_node_or_one_without_parts_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(NodeError, match=f"{port}"):
        asyncio.run(find_parts("127.0.0.1", port, 1))
    with pytest.raises(BadInput):
        HttpParts("127.0.0.1:7403")
    assert base_url_of("::1", 7403) == "http://[::1]:7403"


STAGER = """
    import asyncio, sys, motet
    from motet.client.parts import find_parts
    from motet.format.manifest import content_hash, part_key

    async def main():
        parts = await find_parts(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
        for number in range(1_000_000):
            data = bytes([number % 256]) * 300_000
            key = part_key("0" * 16, f"{number:016x}", f"0-{content_hash(data)}")
            await parts.put(key, data)
            print(key, flush=True)

    asyncio.run(main())
    """


def test_what_was_put_survives_its_writer_and_is_whole(server: Server, tmp_path: Path) -> None:
    with python_running(STAGER, server[0], str(server[1]), str(number_of(server))) as stager:
        keys = [line_of(stager) for _ in range(5)]
        stager.kill()
        assert stager.stdout is not None
        keys += [line.strip() for line in stager.stdout if line.endswith("\n")]
    parts = DirectParts(tmp_path / "parts")
    for number, key in enumerate(keys):
        path = asyncio.run(parts.path(ObjectKey(key), 300_000))
        assert path.read_bytes() == bytes([number % 256]) * 300_000
    # What it was writing when it died is whole too, if it has a name at all.
    for path in (tmp_path / "parts").glob("*+/*+/*"):
        assert path.stat().st_size == 300_000


def test_an_embedded_node_has_its_parts_before_it_serves(tmp_path: Path) -> None:
    from motet.embedded import EmbeddedNode

    async def main() -> None:
        node = EmbeddedNode(tmp_path)
        await node.start()
        parts = await node.parts()
        await parts.put(FILE.key, FILE.data)
        assert parts.locator().base_url == ""
        host, _, port = (await node.endpoint()).partition(":")
        assert parts.locator().base_url == base_url_of(host, int(port) + HTTP_PORT_OFFSET)
        with pytest.raises(NodeError):
            await find_parts(host, int(port) + HTTP_PORT_OFFSET, 7)
        async with await motet.aio.connect(f"{host}:{port}") as db:
            number = db.database_id
        found = await find_parts(host, int(port) + HTTP_PORT_OFFSET, number)
        assert found.locator() == parts.locator()
        assert (await found.path(FILE.key, len(FILE.data))).read_bytes() == FILE.data
        await node.stop()

    asyncio.run(main())
