"""The files of parts over HTTP, on real sockets."""

from __future__ import annotations

import http.client
import json
import random
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from motet.node.part_routes import uploads_max
from tests.client.parts import (
    SECONDS_MAX,
    TABLE,
    Answer,
    PartFile,
    ask,
    manifest_of,
    number_of,
    part_file,
    serving,
)
from tests.embedded.processes import line_of, python_running

from motet.client import parts
from motet.ids import ObjectKey
from motet.limits import part_bytes_max
from motet.node import part_routes
from motet.node.embedded_http import EmbeddedView
from motet.real import durable, objects

Server = tuple[str, int]

FILE = part_file(3_000_000)
LARGE = part_file(20_000_000, seed=1)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path) as served:
        yield served


def put(server: Server, file: PartFile) -> int:
    return ask(server, "PUT", file.path, body=file.data).status


def refusal(answer: Answer) -> str:
    """The code of an error, which has all that errors of the house have."""
    assert answer.headers["content-type"] == "application/json"
    error = json.loads(answer.body)["error"]
    assert error["what"]
    assert error["advice"]
    return str(error["code"])


def unfinished_files(folder: Path) -> list[Path]:
    return list((folder / "parts" / ".unfinished").iterdir())


def test_what_was_put_is_given_whole_and_by_range(server: Server) -> None:
    assert put(server, FILE) == 201
    whole = ask(server, "GET", FILE.path)
    assert (whole.status, whole.body) == (200, FILE.data)
    assert whole.headers["etag"] == f'"{FILE.key.rpartition("-")[2]}"'
    assert whole.headers["accept-ranges"] == "bytes"
    dice, size = random.Random(1), len(FILE.data)
    for _ in range(30):
        start = dice.randrange(size)
        end = dice.randrange(start, min(size + 100, start + 2_500_000))
        part = ask(server, "GET", FILE.path, {"Range": f"bytes={start}-{end}"})
        assert part.status == 206
        assert part.body == FILE.data[start : end + 1]
        assert part.headers["content-length"] == str(len(part.body))
        assert part.headers["content-range"] == f"bytes {start}-{min(end, size - 1)}/{size}"
    assert ask(server, "GET", FILE.path, {"Range": "bytes=-8"}).body == FILE.data[-8:]


def test_a_head_tells_all_but_the_bytes(server: Server) -> None:
    assert ask(server, "HEAD", FILE.path).status == 404
    put(server, FILE)
    for headers, status, size in (({}, 200, 3_000_000), ({"Range": "bytes=5-9"}, 206, 5)):
        answer = ask(server, "HEAD", FILE.path, headers)
        assert (answer.status, answer.body) == (status, b"")
        assert answer.headers["content-length"] == str(size)


def test_a_head_makes_durable_what_it_tells_of(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(server, FILE)
    synced: list[Path] = []

    def noting(path: Path) -> None:
        synced.append(path)
        durable.sync_folder_at(path)

    monkeypatch.setattr(objects, "sync_folder_at", noting)
    assert ask(server, "HEAD", FILE.path).status == 200
    assert synced[-1] == tmp_path / "parts"
    assert len(synced) == 3


def test_a_range_beyond_the_file_is_refused(server: Server) -> None:
    put(server, FILE)
    answer = ask(server, "GET", FILE.path, {"Range": f"bytes={len(FILE.data)}-"})
    assert answer.status == 416
    assert answer.headers["content-range"] == f"bytes */{len(FILE.data)}"
    assert refusal(answer) == "BAD_INPUT"


def test_the_same_again_is_fine_and_another_is_not(server: Server) -> None:
    assert [put(server, FILE), put(server, FILE)] == [201, 200]
    manifest = manifest_of(FILE)
    assert [put(server, manifest), put(server, manifest)] == [201, 200]
    other = manifest_of(FILE, rows=2)
    answer = ask(server, "PUT", other.path, body=other.data)
    assert (answer.status, refusal(answer)) == (409, "OBJECT_EXISTS")
    assert ask(server, "GET", manifest.path).body == manifest.data


def test_what_is_not_what_its_name_says_is_refused(server: Server, tmp_path: Path) -> None:
    flipped = FILE.data[:1000] + bytes([FILE.data[1000] ^ 1]) + FILE.data[1001:]
    manifest, stranger = manifest_of(FILE), manifest_of(part_file(5, seed=7))
    wrong = [
        (FILE.path, flipped),
        (FILE.path, FILE.data[:-1]),
        (FILE.path, b""),
        (manifest.path, manifest.data[:-1]),
        (manifest.path, stranger.data),
    ]
    for path, body in wrong:
        answer = ask(server, "PUT", path, body=body)
        assert (answer.status, refusal(answer)) == (400, "BAD_INPUT")
        assert ask(server, "GET", path).status == 404
    assert unfinished_files(tmp_path) == []


def test_what_is_too_large_is_refused_before_it_is_read(server: Server) -> None:
    connection = http.client.HTTPConnection(*server, timeout=SECONDS_MAX)
    connection.putrequest("PUT", FILE.path)
    connection.putheader("Content-Length", str(part_bytes_max + 1))
    connection.endheaders()
    response = connection.getresponse()
    assert response.status == 413
    assert json.loads(response.read())["error"]["code"] == "TOO_LARGE"
    connection.close()
    manifest = manifest_of(FILE)
    answer_of_long = ask(server, "PUT", manifest.path, body=bytes(2 << 20))
    assert (answer_of_long.status, refusal(answer_of_long)) == (413, "TOO_LARGE")


def test_what_never_said_how_large_it_is_is_cut_at_the_bound(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "part_bytes_max", 2_000_000)
    chunks = (FILE.data[at : at + 100_000] for at in range(0, len(FILE.data), 100_000))
    answer = ask(server, "PUT", FILE.path, body=chunks)
    assert (answer.status, refusal(answer)) == (413, "TOO_LARGE")
    assert ask(server, "HEAD", FILE.path).status == 404
    assert unfinished_files(tmp_path) == []


OUTSIDE = (
    "..",
    "../streams/identity",
    "%2e%2e/streams/identity",
    "..%2fstreams%2fidentity",
    ".store",
    ".unfinished/x",
    "%00",
    "/etc/passwd",
    "0123456789abcdef/../.store",
    "0123456789abcdef/0000000000000000/.store",
    "0123456789abcdef/0000000000000000/manifest%0a",
)


def test_nothing_but_parts_can_be_named(server: Server, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    for key in OUTSIDE:
        for method in ("GET", "PUT", "DELETE"):
            answer = ask(server, method, f"/parts/{key}", body=b"x" if method == "PUT" else None)
            assert (answer.status, refusal(answer)) == (400, "BAD_INPUT"), key
    assert sorted(tmp_path.rglob("*")) == before


def test_every_other_answer_is_an_error_of_the_house(server: Server) -> None:
    missing = ask(server, "GET", FILE.path)
    assert (missing.status, refusal(missing)) == (404, "OBJECT_MISSING")
    assert [ask(server, "PATCH", FILE.path).status, ask(server, "POST", FILE.path).status] == [
        405
    ] * 2
    assert refusal(ask(server, "PATCH", FILE.path)) == "BAD_INPUT"
    assert refusal(ask(server, "GET", "/parts")) == "BAD_INPUT"


def test_a_node_says_where_its_parts_are(server: Server, tmp_path: Path) -> None:
    number = f"{number_of(server):016x}"
    answer = json.loads(ask(server, "GET", f"/api/parts?database={number}").body)
    assert answer["folder"] == str(tmp_path / "parts")
    assert answer["token"] == (tmp_path / "parts" / ".store").read_text().strip()
    assert answer["database"] == number
    for query in ("", "?database=", "?database=0000000000000001", "?database=*"):
        stranger = ask(server, "GET", f"/api/parts{query}")
        assert (stranger.status, refusal(stranger)) == (404, "OBJECT_MISSING")
        assert str(tmp_path).encode() not in stranger.body


def test_a_part_of_a_table_that_is_not_there_is_refused(server: Server, tmp_path: Path) -> None:
    file = part_file(10)
    other = PartFile(ObjectKey(file.key.replace(TABLE, "f" * 16)), file.data)
    answer = ask(server, "PUT", other.path, body=other.data)
    assert (answer.status, refusal(answer)) == (404, "OBJECT_MISSING")
    assert ask(server, "GET", other.path).status == 404
    assert unfinished_files(tmp_path) == []


def test_a_file_is_removed_as_long_as_it_is_not_published(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert put(server, FILE) == 201
    assert ask(server, "DELETE", FILE.path).status == 204
    assert ask(server, "GET", FILE.path).status == 404
    assert ask(server, "DELETE", FILE.path).status == 204, "one that is not there is fine"
    assert put(server, FILE) == 201
    monkeypatch.setattr(EmbeddedView, "has_part", lambda *_: True)
    refused = ask(server, "DELETE", FILE.path)
    assert (refused.status, refusal(refused)) == (409, "OBJECT_EXISTS")
    assert ask(server, "GET", FILE.path).body == FILE.data


def test_files_that_are_never_published_have_a_budget(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_routes, "put_bytes_max", 1_000)
    assert put(server, part_file(600, 1)) == 201
    refused = ask(server, "PUT", part_file(600, 2).path, body=part_file(600, 2).data)
    assert (refused.status, refusal(refused)) == (413, "TOO_LARGE")
    monkeypatch.setattr(EmbeddedView, "has_part", lambda _view, _table, part: part[-1] == "1")
    assert put(server, part_file(600, 2)) == 201, "what was published does not count"


def test_more_uploads_than_there_is_room_for_wait_their_turn(server: Server) -> None:
    files = [part_file(10, seed) for seed in range(uploads_max + 3)]
    connections = [socket.create_connection(server, timeout=SECONDS_MAX) for _ in files]
    for connection, file in zip(connections, files, strict=True):
        head = f"PUT {file.path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        head += "Content-Length: 10\r\n\r\n"
        connection.sendall(head.encode() + file.data[:5])
    for connection, file in zip(connections, files, strict=True):
        connection.sendall(file.data[5:])
        assert connection.makefile("rb").read().startswith(b"HTTP/1.1 201 ")
        connection.close()


UPLOADER = """
    import socket, sys, threading
    host, port, path = sys.argv[1:]
    connection = socket.create_connection((host, int(port)))
    head = f"PUT {path} HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Length: 3000000\\r\\n\\r\\n"
    connection.sendall(head.encode() + bytes(2_500_000))
    print("half", flush=True)
    threading.Event().wait()
    """


def test_of_an_uploader_that_is_killed_nothing_is_left(server: Server, tmp_path: Path) -> None:
    with python_running(UPLOADER, server[0], str(server[1]), FILE.path) as uploader:
        assert line_of(uploader) == "half"
        until(lambda: any(path.stat().st_size for path in unfinished_files(tmp_path)))
        assert ask(server, "GET", FILE.path).status == 404
    until(lambda: unfinished_files(tmp_path) == [])
    assert ask(server, "GET", FILE.path).status == 404
    assert put(server, FILE) == 201


def test_a_reader_that_leaves_does_not_hold_the_node_up(server: Server) -> None:
    put(server, FILE)
    with socket.create_connection(server, timeout=SECONDS_MAX) as connection:
        connection.sendall(f"GET {FILE.path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert connection.recv(100)
    assert ask(server, "GET", FILE.path).body == FILE.data


def test_what_is_under_way_when_the_database_closes_is_ended(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        put(server, LARGE)
        reader = socket.create_connection(server, timeout=SECONDS_MAX)
        reader.sendall(f"GET {LARGE.path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert reader.recv(100)  # and no more: the node has to wait for us
        writer = socket.create_connection(server, timeout=SECONDS_MAX)
        head = f"PUT {FILE.path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3000000\r\n\r\n"
        writer.sendall(head.encode() + FILE.data[:-1])
        until(lambda: any(path.stat().st_size for path in unfinished_files(tmp_path)))
    assert unfinished_files(tmp_path) == []
    for connection in (reader, writer):
        connection.close()
    with serving(tmp_path) as server:
        assert ask(server, "HEAD", FILE.path).status == 404
        assert ask(server, "GET", LARGE.path).body == LARGE.data


def until(reached: Callable[[], bool]) -> None:
    """Look until it is so."""
    deadline = time.monotonic() + SECONDS_MAX
    while not reached():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.01)
