"""A database that serves: the same calls from another connection and another process."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.embedded.processes import run_python

import motet
from motet.client.link import HTTP_PORT_OFFSET
from motet.errors import NodeError
from motet.real.in_process import InProcessNetwork
from motet.real.part_files import TOKEN_FILE


@pytest.fixture
def db(tmp_path: Path) -> Iterator[motet.Database]:
    with motet.open(tmp_path) as database:
        database.create_stream("orders")
        database.create_stream("stock")
        yield database


def test_a_connection_asks_nothing_that_is_refused(
    db: motet.Database, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        motet.connect(db.endpoint).close()
    assert caplog.records == []


def test_who_listens_and_is_no_database_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        endpoint = f"127.0.0.1:{listening.getsockname()[1]}"

        def answer() -> None:
            other, _ = listening.accept()
            with other:
                other.sendall(b"220 a mail server\r\n")

        answering = threading.Thread(target=answer)
        answering.start()
        with pytest.raises(NodeError, match="does not answer as a database"):
            motet.connect(endpoint)
        answering.join()


def test_another_process_finds_it_by_the_environment(
    db: motet.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOTET_ENDPOINT", db.endpoint)
    printed = run_python(
        """
        import motet
        with motet.connect() as db:
            for i in range(3):
                db.transact(lambda txn: txn.change("stock", key="s", op="update", row={"i": i}))
            print([change.row["i"] for change in db.changes("stock")])
        """
    )
    assert printed.strip() == "[0, 1, 2]"
    assert [change.row["i"] for change in db.changes("stock")] == [0, 1, 2]


@pytest.fixture
def nobody(tmp_path: Path) -> str:
    """An endpoint where nothing listens any more."""
    with motet.open(tmp_path / "other") as other:
        return other.endpoint


def test_an_owner_may_close_while_others_are_connected(tmp_path: Path) -> None:
    before = threading.active_count()
    db = motet.open(tmp_path)
    other = motet.connect(db.endpoint)
    assert other.streams() == []
    db.close()
    other.close()
    assert threading.active_count() == before
    assert not (tmp_path / "endpoint~").exists()


def get(endpoint: str, path: str) -> tuple[int, bytes]:
    """One HTTP request to the database at this endpoint."""
    host, _, port = endpoint.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port) + HTTP_PORT_OFFSET, timeout=60)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def test_it_serves_http_as_every_node_does(db: motet.Database, tmp_path: Path) -> None:
    assert get(db.endpoint, "/livez") == (200, b"ok\n")
    assert get(db.endpoint, "/readyz") == (200, b'{"ready":true,"reasons":[]}')
    status = json.loads(get(db.endpoint, "/api/status")[1])
    assert (status["id"], status["ready"]) == ("embedded", True)
    assert status["machines"]["streams"]["detail"]["streams"] == 2
    _, metrics = get(db.endpoint, "/metrics")
    assert b"motet_ready 1.0" in metrics
    parts = json.loads(get(db.endpoint, "/api/tables")[1])
    assert parts["folder"] == str(tmp_path / "parts")
    assert (tmp_path / "parts" / TOKEN_FILE).read_text().strip() == parts["token"]


def test_it_is_opened_and_closed_many_times(tmp_path: Path) -> None:
    before = threading.active_count()
    for _ in range(5):
        with motet.open(tmp_path) as first, motet.open(tmp_path / "other") as second:
            assert get(first.endpoint, "/livez")[0] == get(second.endpoint, "/livez")[0] == 200
            ports = first.endpoint, second.endpoint
        for endpoint in ports:
            with pytest.raises(ConnectionRefusedError):
                get(endpoint, "/livez")
    assert threading.active_count() == before


def test_a_client_that_stays_connected_by_http_does_not_hold_the_end_up(tmp_path: Path) -> None:
    with motet.open(tmp_path) as db:
        host, _, port = db.endpoint.rpartition(":")
        idle = http.client.HTTPConnection(host, int(port) + HTTP_PORT_OFFSET, timeout=60)
        idle.request("GET", "/livez")
        assert idle.getresponse().read() == b"ok\n"
    assert idle.sock.recv(1) == b"", "the other side has closed"
    idle.close()


def test_a_pair_of_ports_is_looked_for_until_both_are_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve = InProcessNetwork.serve
    tried: list[int] = []

    async def serve_late(self: InProcessNetwork, port: int = 0, takes: tuple[int, ...] = ()) -> int:
        tried.append(port)
        if len(tried) > 2:
            return await serve(self, port, takes)
        with socket.create_server(("127.0.0.1", port)):
            return await serve(self, port, takes)

    monkeypatch.setattr(InProcessNetwork, "serve", serve_late)
    with motet.open(tmp_path) as db:
        assert db.endpoint == f"127.0.0.1:{tried[-1]}"
        assert len(tried) >= 3
        assert get(db.endpoint, "/livez")[0] == 200
        with motet.connect(db.endpoint) as other:
            assert other.streams() == []
