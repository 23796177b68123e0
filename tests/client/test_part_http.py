"""Remote parts over a network that fails, and through the eyes of a reader of Parquet."""

from __future__ import annotations

import asyncio
import pickle
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.client.parts import TABLE, PartFile, part_file, serving

from motet.client import http_calls
from motet.client.part_http import HttpParts, attempts_max
from motet.client.parts import base_url_of
from motet.errors import BadRecord, NodeError, ObjectError, OutcomeUnknown
from motet.format.manifest import content_hash, part_key
from motet.ids import PartId
from motet.real.objects import path_of
from motet.testing import FaultProxy

FILE = part_file(3_000_000)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, int]]:
    with serving(tmp_path) as served:
        yield served


@pytest.fixture
def proxy(server: tuple[str, int]) -> Iterator[FaultProxy]:
    with FaultProxy(f"{server[0]}:{server[1]}") as between:
        yield between


@contextmanager
def parts_at(host: str, port: int) -> Iterator[HttpParts]:
    parts = HttpParts(base_url_of(host, port))
    try:
        yield parts
    finally:
        asyncio.run(parts.close())


def put(parts: HttpParts, file: PartFile = FILE) -> None:
    asyncio.run(parts.put(file.key, file.data))


def fetch(parts: HttpParts, file: PartFile = FILE) -> bytes:
    return asyncio.run(parts.path(file.key, len(file.data))).read_bytes()


def parquet_file(rows: int) -> PartFile:
    table = pa.table(
        {
            "a": range(rows),
            "b": [f"row {i}" for i in range(rows)],
            "c": [i / 7 for i in range(rows)],
        }
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=rows // 5, compression="zstd")
    data = sink.getvalue().to_pybytes()
    return PartFile(part_key(TABLE, PartId("a" * 16), f"0-{content_hash(data)}"), data)


def test_parquet_is_read_in_place(server: tuple[str, int], tmp_path: Path) -> None:
    file = parquet_file(200_000)
    (tmp_path / "twin.parquet").write_bytes(file.data)
    with parts_at(*server) as parts:
        put(parts, file)
        twin = pq.read_table(tmp_path / "twin.parquet")
        with parts.source(file.key, len(file.data)) as source:
            assert pq.read_table(source, use_threads=True).equals(twin)
        with parts.source(file.key, len(file.data)) as source:
            opened = pq.ParquetFile(source, pre_buffer=True)
            assert opened.num_row_groups == 5
            assert opened.read_row_group(3, columns=["b"]).equals(
                twin.slice(3 * 40_000, 40_000).select(["b"])
            )


def test_one_column_does_not_fetch_the_whole_file(proxy: FaultProxy) -> None:
    dull = bytes(8 * (1 << 20))
    file = PartFile(part_key(TABLE, PartId("b" * 16), f"0-{content_hash(dull)}"), dull)
    with parts_at("127.0.0.1", proxy.port) as parts:
        put(parts, file)
        before = proxy.seen().passed_to_client_bytes
        with parts.source(file.key, len(dull)) as source:
            source.seek(-8, 2)
            assert source.read(8) == bytes(8)
        assert proxy.seen().passed_to_client_bytes - before < 2 * (1 << 20)


def test_a_source_goes_by_pickle_and_is_read_by_many_threads(server: tuple[str, int]) -> None:
    with parts_at(*server) as parts:
        put(parts)
        source = pickle.loads(pickle.dumps(parts.source(FILE.key, len(FILE.data))))
        lock = threading.Lock()

        def read(start: int) -> bool:
            with lock:  # where to read and reading are two calls
                source.seek(start)
                data = source.read(1000)
            return bool(data == FILE.data[start : start + 1000])

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(read, range(0, len(FILE.data), 50_000)))
        source.close()


def test_connections_are_used_again(proxy: FaultProxy) -> None:
    with parts_at("127.0.0.1", proxy.port) as parts:
        put(parts)
        with parts.source(FILE.key, len(FILE.data)) as source:
            assert source.read() == FILE.data
        fetch(parts)
        assert proxy.seen().connections == 1
        proxy.cut()  # as a server does with connections that nobody has used for a while
        put(parts, part_file(10, seed=5))
        assert proxy.seen().connections == 2


def test_a_flipped_byte_is_noticed(server: tuple[str, int], tmp_path: Path) -> None:
    with parts_at(*server) as parts:
        put(parts)
        path = tmp_path / "parts" / path_of(FILE.key)
        damaged = bytearray(FILE.data)
        damaged[2_000_000] ^= 4
        path.write_bytes(damaged)
        with pytest.raises(BadRecord, match=r"damaged.*hash"):
            fetch(parts)
        path.write_bytes(FILE.data[:-1])
        with pytest.raises(BadRecord, match="damaged"):
            fetch(parts)
        with (
            pytest.raises(BadRecord, match="damaged"),
            parts.source(FILE.key, len(FILE.data)) as source,
        ):
            source.read(10)
        path.write_bytes(FILE.data)
        assert fetch(parts) == FILE.data


def test_a_put_whose_answer_was_lost_is_looked_up(proxy: FaultProxy) -> None:
    with parts_at("127.0.0.1", proxy.port) as parts, ThreadPoolExecutor(1) as pool:
        proxy.one_way("to_target")
        putting = pool.submit(put, parts)
        proxy.wait_until(lambda seen: seen.dropped_to_client_bytes > 0)
        proxy.heal()  # resets the connection whose answer is gone
        putting.result()
        assert proxy.seen().passed_to_target_bytes < 2 * len(FILE.data), "it was not sent twice"
        assert fetch(parts) == FILE.data


def test_a_put_that_was_cut_in_the_middle_is_sent_again(proxy: FaultProxy) -> None:
    with parts_at("127.0.0.1", proxy.port) as parts, ThreadPoolExecutor(1) as pool:
        proxy.slow(2_000_000)
        putting = pool.submit(put, parts)
        proxy.wait_until(lambda seen: seen.passed_to_target_bytes > 500_000)
        proxy.cut()
        proxy.heal()
        putting.result()
        assert fetch(parts) == FILE.data


def test_a_put_of_which_nothing_can_be_heard_is_unknown(proxy: FaultProxy) -> None:
    with parts_at("127.0.0.1", proxy.port) as parts, ThreadPoolExecutor(1) as pool:
        proxy.one_way("to_target")
        putting = pool.submit(put, parts)
        proxy.wait_until(lambda seen: seen.dropped_to_client_bytes > 0)
        proxy.refuse()
        with pytest.raises(OutcomeUnknown, match=content_hash(FILE.data)):
            putting.result()
        proxy.heal()
        put(parts)
        assert fetch(parts) == FILE.data


def test_a_node_that_is_silent_is_not_waited_for_for_ever(
    proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_calls, "silence_seconds_max", 0.1)
    proxy.drop()
    with parts_at("127.0.0.1", proxy.port) as parts:
        with pytest.raises(OutcomeUnknown):
            put(parts, part_file(10))
        with pytest.raises(ObjectError, match="cannot be reached"):
            fetch(parts)


def test_where_nobody_listens_nothing_was_done() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with parts_at("127.0.0.1", port) as parts:
        for use in (put, fetch):
            with pytest.raises(ObjectError, match="cannot be reached"):
                use(parts)


def test_a_download_goes_on_where_it_broke(proxy: FaultProxy) -> None:
    with parts_at("127.0.0.1", proxy.port) as parts, ThreadPoolExecutor(1) as pool:
        put(parts)
        before = proxy.seen().passed_to_client_bytes
        proxy.slow(4_000_000)
        fetching = pool.submit(fetch, parts)
        proxy.wait_until(lambda seen: seen.passed_to_client_bytes - before > 2_000_000)
        proxy.cut()
        proxy.heal()
        assert fetching.result() == FILE.data
        assert proxy.seen().passed_to_client_bytes - before < 2 * len(FILE.data)


Script = Callable[[int, bytes], bytes]


@contextmanager
def stranger(answer: Script) -> Iterator[tuple[str, int]]:
    """Answers the n-th request with any bytes whatever, and closes."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            for number in range(1_000_000):
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    request = connection.recv(65536)
                    if request == b"end":
                        return
                    connection.sendall(answer(number, request))

        thread = threading.Thread(target=serve)
        thread.start()
        address = ("127.0.0.1", listening.getsockname()[1])
        try:
            yield address
        finally:
            with socket.create_connection(address) as last:
                last.sendall(b"end")
            thread.join()


def head(status: str, *lines: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode()


SMALL = part_file(10, seed=9)
WHOLE = "Content-Range: bytes 0-9/10"


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"mt\x01 not http\r\n\r\n",
        head("200 OK", "Content-Length: 10") + SMALL.data,
        head("206 Partial", "Content-Length: 10", "Content-Range: bytes 1-9/10") + SMALL.data,
        head("206 Partial", "Content-Length: 10", "Content-Range: bytes 0-9/11") + SMALL.data,
        head("206 Partial", "Content-Length: 9", WHOLE) + SMALL.data[:9],
        head("206 Partial", "Content-Length: 11", WHOLE) + SMALL.data + b"x",
        head("206 Partial", WHOLE) + SMALL.data,
        head("206 Partial", "Content-Length: 10", WHOLE) + bytes(10),
        head("206 Partial", "Content-Length: 10", WHOLE),
        head("302 Found", "Location: http://127.0.0.1:1/", "Content-Length: 0"),
        head("404 Not Found", "Content-Length: 4") + b"gone",
        head("500 Broken", "Content-Length: 2") + b"{}",
        head("404 Not Found", "Content-Length: 90000") + b"x" * 90000,
    ],
)
def test_whatever_a_stranger_says_is_an_error_of_ours(said: bytes) -> None:
    with stranger(lambda _number, _request: said) as address, parts_at(*address) as parts:
        with pytest.raises(ObjectError):
            fetch(parts, SMALL)
        with pytest.raises((ObjectError, OutcomeUnknown)) if b"200 OK" not in said else silence():
            put(parts, SMALL)


@contextmanager
def silence() -> Iterator[None]:
    yield


def test_a_connection_that_breaks_now_and_then_is_no_error() -> None:
    whole = head("206 Partial", "Content-Length: 10", WHOLE, "Connection: close")

    def answer(number: int, request: bytes) -> bytes:
        if b"bytes=0-9" in request:
            return b"" if number < attempts_max - 1 else whole + SMALL.data[:4]
        assert b"bytes=4-9" in request
        rest = head("206 Partial", "Content-Length: 6", "Content-Range: bytes 4-9/10")
        return b"" if number < 2 * (attempts_max - 1) else rest + SMALL.data[4:]

    with stranger(answer) as address, parts_at(*address) as parts:
        assert fetch(parts, SMALL) == SMALL.data


def test_what_was_fetched_is_gone_with_the_store(server: tuple[str, int]) -> None:
    async def main() -> Path:
        parts = HttpParts(base_url_of(*server))
        await parts.put(FILE.key, FILE.data)
        path = await parts.path(FILE.key, len(FILE.data))
        assert [each.name for each in path.parent.iterdir()] == [path.name]
        await parts.close()
        await parts.close()
        return path

    assert not asyncio.run(main()).parent.exists()


def test_a_node_that_broke_while_it_wrote_is_asked_what_came_of_it(
    server: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    from motet.real.objects import LocalObjects

    with parts_at(*server) as parts:
        finish = LocalObjects.finish

        def broken(*args: object, **kwargs: object) -> None:
            finish(*args, **kwargs)  # type: ignore[arg-type]
            raise NodeError("planted, when all was done")

        monkeypatch.setattr(LocalObjects, "finish", broken)
        put(parts)
        monkeypatch.undo()
        assert fetch(parts) == FILE.data
