"""Nodes for tests: free ports, and HTTP answers."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from motet.client.link import HTTP_PORT_OFFSET
from motet.testing.port_block import PortBlock

SECONDS_MAX = 60.0
"""Patience of a test; nothing is measured by it."""


_claimed: list[PortBlock] = []


def free_base_port() -> int:
    """A port of our own, and those behind it.

    Below the range from which the system gives out ports: who dials a port of that range again and again
    while nobody listens may be given that very port, and talk to himself.
    """
    _claimed.append(PortBlock.claim())
    return _claimed[-1].base


class Answer(NamedTuple):
    status: int
    content_type: str
    body: str

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(base_port: int, path: str, method: str = "GET") -> Answer:
    """One HTTP request to the node at this base port."""
    connection = http.client.HTTPConnection(
        "127.0.0.1", base_port + HTTP_PORT_OFFSET, timeout=SECONDS_MAX
    )
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return Answer(response.status, response.headers["content-type"], response.read().decode())
    finally:
        connection.close()


async def ask_soon(base_port: int, path: str, method: str = "GET") -> Answer:
    """The same, to a node that runs in the loop of the test."""
    return await asyncio.to_thread(ask, base_port, path, method)


def wait_until_ready(base_port: int, process: subprocess.Popen[str]) -> None:
    """Ask `/readyz` until it says yes; a process that ends instead is an error with its log."""
    deadline = time.monotonic() + SECONDS_MAX
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise AssertionError(f"the node ended: {process.communicate()}")
        try:
            if ask(base_port, "/readyz").status == 200:
                return
        except OSError:
            pass
        time.sleep(0.02)
    raise AssertionError("the node never became ready")


@contextmanager
def node_process(
    folder: Path, port: int, *flags: str, python_flags: tuple[str, ...] = (), **environment: str
) -> Iterator[subprocess.Popen[str]]:
    """``motet node`` as a process of its own, killed at the end if it still runs."""
    command = [sys.executable, *python_flags, "-m", "motet", "node"]
    command += ["--port", str(port), "--data", str(folder), *flags]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder.parent,
        env={**os.environ, **environment},
    ) as process:
        try:
            yield process
        finally:
            process.kill()
