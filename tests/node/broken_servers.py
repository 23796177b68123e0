"""HTTP servers that do not behave: one that cuts connections, one that falls silent."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

from tests.node.nodes import SECONDS_MAX, free_base_port

from motet.client.link import HTTP_PORT_OFFSET


@contextmanager
def cutting(port: int, *, after_bytes: int) -> Iterator[tuple[int, list[int]]]:
    """In front of a node's HTTP port: each connection is cut after so many bytes; how many each gave."""
    given: list[int] = []
    base = free_base_port()
    listening = socket.create_server(("127.0.0.1", base + HTTP_PORT_OFFSET))

    def carry(client: socket.socket) -> None:
        with (
            closing(client),
            socket.create_connection(("127.0.0.1", port + HTTP_PORT_OFFSET)) as node,
        ):
            threading.Thread(target=forward, args=(client, node)).start()
            left = after_bytes
            while left and (piece := node.recv(min(left, 1 << 16))):
                client.sendall(piece)
                left -= len(piece)
            given.append(after_bytes - left)
            client.shutdown(socket.SHUT_RDWR)

    def accept() -> None:
        while True:
            try:
                client, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=carry, args=(client,)).start()

    thread = threading.Thread(target=accept)
    thread.start()
    try:
        yield base, given
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()


def forward(client: socket.socket, node: socket.socket) -> None:
    try:
        while piece := client.recv(1 << 16):
            node.sendall(piece)
        node.shutdown(socket.SHUT_WR)
    except OSError:
        return


@contextmanager
def silent(port: int, asked: threading.Event) -> Iterator[None]:
    """A node that begins its answer and says nothing more."""
    listening = socket.create_server(("127.0.0.1", port))

    def serve() -> None:
        client, _ = listening.accept()
        with closing(client):
            client.recv(1 << 16)
            client.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nabc")
            asked.set()
            client.recv(1)  # comes back when the other side has gone

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        thread.join(SECONDS_MAX)
        listening.close()
        assert not thread.is_alive(), "the transfer goes on"
