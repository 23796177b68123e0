"""A tiny journal as a machine, and as a process: appends values, acknowledges each when it is durable.

``python -m tests.node.journal_machine FOLDER`` runs it on the real driver and real ports, prints the
port it listens at, and goes on until it is killed.
"""

from __future__ import annotations

import asyncio
import struct
import sys
import zlib
from pathlib import Path
from typing import Self

from motet.core.machine import (
    Effect,
    Event,
    Message,
    Read,
    ReadBack,
    Received,
    Send,
    Started,
    Violation,
    Write,
)
from motet.ids import Address, FileName, ReadId, WriteId
from motet.node.driver import Driver
from motet.node.hosting import Hosting
from motet.real.disk import RealDisk
from motet.real.network import TcpNetwork
from motet.real.process import RealEntropy, RealTime

KIND = 77
SERVER = Address("journal")
CLUSTER = "test"
JOURNAL = FileName("journal")

_RECORD = struct.Struct("<QI")


class Append(Message, frozen=True, tag=True):
    value: int


class Appended(Message, frozen=True, tag=True):
    value: int


class List(Message, frozen=True, tag=True):
    pass


class Values(Message, frozen=True, tag=True):
    values: list[int]


Messages = Append | Appended | List | Values


def encode(value: int) -> bytes:
    return _RECORD.pack(value, zlib.crc32(value.to_bytes(8, "little")))


def decode(data: bytes) -> list[int]:
    """The values up to the first record that is not whole."""
    values = []
    for value, checksum in _RECORD.iter_unpack(data[: len(data) // _RECORD.size * _RECORD.size]):
        if zlib.crc32(value.to_bytes(8, "little")) != checksum:
            break
        values.append(value)
    return values


class Journal:
    """J1: what was acknowledged is in the file."""

    def __init__(self) -> None:
        self.values: list[int] = []
        self.is_recovered = False

    def step(self, event: Event) -> list[Effect]:
        if isinstance(event, Started):
            return [Read(ReadId(0), JOURNAL)]
        if isinstance(event, ReadBack):
            self.values = decode(event.data)
            self.is_recovered = True
        if not isinstance(event, Received) or not self.is_recovered:
            return []
        message = event.message
        if isinstance(message, List):
            return [Send(event.sender, Values(list(self.values)))]
        if isinstance(message, Append):
            return self._append(event.sender, message.value)
        return []

    def _append(self, sender: Address, value: int) -> list[Effect]:
        write = WriteId(len(self.values))
        self.values.append(value)
        return [
            Write(write, JOURNAL, write * _RECORD.size, encode(value)),
            Send(sender, Appended(value), after=write),
        ]

    def clone(self) -> Self:
        raise NotImplementedError

    def fingerprint(self) -> bytes:
        raise NotImplementedError

    def invariants(self) -> list[Violation]:
        return []


def host_journal(folder: Path) -> Hosting[Journal]:
    return Hosting("journal", KIND, Messages, Journal, RealDisk(folder))


async def serve(folder: Path) -> None:
    driver = Driver([host_journal(folder)], time=RealTime(), entropy=RealEntropy())
    network = TcpNetwork(
        SERVER, cluster=CLUSTER, listen=("127.0.0.1", 0), peers={}, wake=driver.wake
    )
    await network.start()
    driver.start(network)
    print(network.port, flush=True)
    await driver.finished


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
