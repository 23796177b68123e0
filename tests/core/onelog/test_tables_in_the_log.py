"""A folder whose log has tables is of an earlier development version: it is refused, with what to do.

The bytes of the records are those that the last such version wrote.
"""

from __future__ import annotations

import msgspec
import pytest
from tests.core.onelog.harness import STOCK, Bench, serving

from motet.core.clock.hlc import Clock, plus
from motet.core.machine import Effect
from motet.core.onelog.context import Phase
from motet.core.onelog.index import Index
from motet.core.onelog.messages import Describe, OrderFeed, StreamsRefused
from motet.core.shardlog.entry import EntryKind
from motet.core.streams.orders import Prune

RECORDS = {
    EntryKind.TABLE_CREATED: "9292cd03e80198a573616c6573b030303030303030303030303030306131c4067363"
    "68656d6191a36b657901a56d65726765c0c0",
    EntryKind.PUBLISHED: "9592cd03e802cd03e8919297a573616c6573b030303030303030303030303030306131b0"
    "3030303030303030303030303030623100d922302d303030303030303030303030303030303030303030303030303030"
    "3030303030056494a3616c6c010100c095a473686f7000c092cd01f401c0",
    EntryKind.WRITER_NOTED: "9492cd03e803cd03e8a473686f70a0",
}
CATALOG: dict[str, dict[str, object]] = {"tables": {"sales": {"rows": 5}}, "writers": {}}
NO_TABLES: dict[str, dict[str, object]] = {"tables": {}, "writers": {}}


def assert_refused(bench: Bench, what: str) -> None:
    assert bench.state.phase is Phase.BROKEN
    answer = bench.ask(Describe(bench.request()))
    assert isinstance(answer, StreamsRefused)
    assert f"{what} is about tables" in answer.what
    assert "open the folder with the version that wrote it" in answer.advice


@pytest.mark.parametrize("kind", RECORDS)
def test_a_record_about_tables(kind: EntryKind) -> None:
    bench = serving()
    log = bench.machine.core.log
    clock, body = plus(log.last_clock, 1), bytes.fromhex(RECORDS[kind])
    entry, effects = log.append(kind, clock, body, bench.now)
    perform(bench, effects)
    bench.finish()
    bench.crash()
    bench.serve()
    assert_refused(bench, f"entry {entry.offset} of the log")


@pytest.mark.parametrize("catalog", [CATALOG, NO_TABLES])
def test_an_index_on_disk_with_tables(
    catalog: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The records themselves may have gone with files that were given back."""
    today = Index.snapshot

    def older(index: Index) -> bytes:
        return msgspec.msgpack.encode(msgspec.msgpack.decode(today(index)) | {"catalog": catalog})

    monkeypatch.setattr(Index, "snapshot", older)
    bench = serving()
    clocks: list[Clock] = [bench.append("k", "x" * 300).clock for _ in range(6)]
    bench.ask(OrderFeed(bench.request(), (STOCK,), Prune(clocks[-2], is_forced=False)))
    assert [name for name in bench.files if "state" in name]
    bench.crash()
    bench.serve()
    if catalog is CATALOG:
        assert_refused(bench, "the index of the log")
    else:
        assert bench.append("k").clock > clocks[-1]


def perform(bench: Bench, effects: list[Effect]) -> None:
    for effect in effects:
        bench._perform(effect)
