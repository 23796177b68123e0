"""Group commit of a journal on the real driver and disk, against a raw loop of write and sync.

The journal is a machine as a node hosts it: requests come in as frames, are decoded and stepped, their
records are checksummed and written, and a frame acknowledges each request when it is durable. A whole
batch is in flight at once, so a turn of the driver writes it and syncs once. Two shapes of a batch:

together   one request carries the records, as a front end sends what has arrived; this is the claim
apart      each record is a request of its own, with its own write and acknowledgement: what a turn
           costs when nobody batches before it, for information

The raw loop writes the same bytes of a batch by one ``pwrite`` into a file of the same preallocated size
and calls ``fdatasync``. All run in one process on one file system; rounds alternate, and a ratio is the
median over neighbouring rounds.

    python bench/journal_group_commit.py [--quick] [--json] [--folder DIR] [--rounds N] [--seconds S]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import msgspec

from motet.core.machine import (
    Effect,
    Event,
    Message,
    Preallocate,
    Received,
    Send,
    Started,
    Violation,
    Write,
    Written,
)
from motet.format.frame import Frame
from motet.format.record import RECORD_HEADER_BYTES, encode_record
from motet.ids import Address, FileName, WriteId
from motet.limits import MIB
from motet.node.driver import Driver
from motet.node.hosting import Hosting
from motet.ports import Delivery
from motet.real.disk import RealDisk
from motet.real.durable import sync_file, write_zeros
from motet.real.process import RealEntropy, RealTime, run

RATIO_REQUIRED = 0.50
BATCHES = (1, 16, 64)
RECORD_BYTES = 256
BODY = bytes(range(RECORD_BYTES - RECORD_HEADER_BYTES))
FILE_BYTES = 4 * MIB
JOURNAL = FileName("journal")
CLIENT = Address("client-1")
NODE = Address("n0")
KIND = 16
SALT = 7


class Append(Message, frozen=True, tag=True):
    request: int
    bodies: tuple[bytes, ...]


class Appended(Message, frozen=True, tag=True):
    request: int


class Journal:
    """Writes records one after the other, from the start again at the end of the file."""

    def __init__(self) -> None:
        self.writes = 0
        self.records = 0
        self.is_ready = False

    def step(self, event: Event) -> list[Effect]:
        if isinstance(event, Received):
            return self._append(event.sender, event.message)
        if isinstance(event, Written):
            self.is_ready = True
        elif isinstance(event, Started):
            return [Preallocate(WriteId(0), JOURNAL, FILE_BYTES)]
        return []

    def _append(self, sender: Address, message: Message) -> list[Effect]:
        assert isinstance(message, Append)
        first = self.records
        records = [
            encode_record(SALT, sequence, 1, body, first)
            for sequence, body in enumerate(message.bodies, first)
        ]
        self.records += len(records)
        self.writes += 1
        write = WriteId(self.writes)
        return [
            Write(write, JOURNAL, first * RECORD_BYTES % FILE_BYTES, b"".join(records)),
            Send(sender, Appended(message.request), after=write),
        ]

    def clone(self) -> Self:
        raise NotImplementedError

    def fingerprint(self) -> bytes:
        raise NotImplementedError

    def invariants(self) -> list[Violation]:
        return []


class BatchNetwork:
    """The network port with one client behind it: a new batch when the last one is acknowledged."""

    def __init__(self, requests: int, records_per_request: int, driver: Driver) -> None:
        self._driver = driver
        self._batch_records = requests * records_per_request
        body = msgspec.msgpack.encode(Append(0, (BODY,) * records_per_request))
        self._batch = [Delivery(CLIENT, Frame(KIND, 0, body)) for _ in range(requests)]
        self._arrived: list[Delivery] = []
        self._acknowledged = 0
        self.records = 0
        self.is_over = False

    @property
    def address(self) -> Address:
        return NODE

    def send(self, to: Address, frame: Frame) -> bool:  # noqa: ARG002
        self._acknowledged += 1
        return True

    def flush(self) -> None:
        if self._acknowledged == len(self._batch):
            self._acknowledged = 0
            self.records += self._batch_records
            self.ask()

    def take(self, limit: int) -> Sequence[Delivery]:
        taken, self._arrived = self._arrived[:limit], self._arrived[limit:]
        return taken

    def ask(self) -> None:
        """The client sends its next batch."""
        if not self.is_over:
            self._arrived = list(self._batch)
            self._driver.wake()


async def journal_rate(
    folder: Path, requests: int, records_per_request: int, seconds: float
) -> float:
    """Acknowledged records per second of the machine on the driver."""
    disk = RealDisk(folder)
    machine = Journal()
    hosting = Hosting("journal", KIND, Append | Appended, lambda: machine, disk)
    driver = Driver([hosting], time=RealTime(), entropy=RealEntropy())
    network = BatchNetwork(requests, records_per_request, driver)
    driver.start(network)
    while not machine.is_ready:  # noqa: ASYNC110
        await asyncio.sleep(0)
    syncs = driver.counters.syncs
    began = time.perf_counter()
    network.ask()
    await asyncio.sleep(seconds)
    network.is_over = True
    rate = network.records / (time.perf_counter() - began)
    batches = driver.counters.syncs - syncs
    acknowledged_batches = network.records // (requests * records_per_request)
    assert acknowledged_batches <= batches <= acknowledged_batches + 1, "one sync for each batch"
    driver.stop()
    disk.close()
    return rate


def raw_rate(folder: Path, batch: int, seconds: float) -> float:
    """Records per second of one write and one sync per batch."""
    folder.mkdir(exist_ok=True)
    data = b"".join(encode_record(SALT, number, 1, BODY) for number in range(batch))
    fd = os.open(folder / "raw", os.O_RDWR | os.O_CREAT)
    write_zeros(fd, 0, FILE_BYTES)
    sync_file(fd)
    batches = 0
    began = time.perf_counter()
    while (now := time.perf_counter()) - began < seconds:
        os.pwrite(fd, data, batches * len(data) % FILE_BYTES)
        sync_file(fd)
        batches += 1
    os.close(fd)
    return batches * batch / (now - began)


def measure(folder: Path, batch: int, rounds: int, seconds: float) -> dict[str, object]:
    raw, together, apart = [], [], []
    for _ in range(rounds):
        raw.append(raw_rate(folder / "raw", batch, seconds))
        files = folder / str(batch)
        together.append(run(journal_rate(files / "together", 1, batch, seconds)))
        apart.append(run(journal_rate(files / "apart", batch, 1, seconds)))
    return {
        "batch": batch,
        "raw_per_second": round(statistics.median(raw)),
        "together_per_second": round(statistics.median(together)),
        "apart_per_second": round(statistics.median(apart)),
        "ratio": median_ratio(together, raw),
        "ratio_apart": median_ratio(apart, raw),
    }


def median_ratio(ours: list[float], theirs: list[float]) -> float:
    return round(statistics.median(a / b for a, b in zip(ours, theirs, strict=True)), 3)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    parser.add_argument("--folder", type=Path, default=Path(), help="on the disk to measure")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float)
    options = parser.parse_args()
    rounds = options.rounds or (3 if options.quick else 7)
    seconds = options.seconds or (0.3 if options.quick else 1.0)
    with tempfile.TemporaryDirectory(dir=options.folder, prefix=".bench-") as folder:
        figures = [measure(Path(folder), batch, rounds, seconds) for batch in BATCHES]
    is_ok = all(float(str(figure["ratio"])) >= RATIO_REQUIRED for figure in figures)
    if options.json:
        claim = {"record_bytes": RECORD_BYTES, "required": RATIO_REQUIRED, "ok": is_ok}
        print(json.dumps({"bench": "journal_group_commit", "batches": figures, **claim}))
        return 0 if is_ok else 1
    print(f"journal group commit, records of {RECORD_BYTES} B, acknowledged after their sync")
    print(f"{'batch':>7}{'raw /s':>12}{'together /s':>14}{'ratio':>8}{'apart /s':>12}{'ratio':>8}")
    for figure in figures:
        row = "{batch:>7}{raw_per_second:>12,}{together_per_second:>14,}{ratio:>8}"
        print((row + "{apart_per_second:>12,}{ratio_apart:>8}").format(**figure))
    print(f"required for together: {RATIO_REQUIRED}")
    return 0 if is_ok else 1


if __name__ == "__main__":
    sys.exit(main())
