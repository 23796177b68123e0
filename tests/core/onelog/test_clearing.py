"""Files of the log are given back when all streams are pruned past them, and nothing is lost by it."""

from __future__ import annotations

from tests.core.onelog.harness import STOCK, Bench, fill, put, serving, values
from tests.core.onelog.test_keeping import obeyed, send_order

from motet.core.clock.hlc import Clock
from motet.core.machine import Remove, Replace
from motet.core.onelog.messages import (
    FeedObeyed,
    GetTransaction,
    ReadEntries,
    ReadFeed,
    TransactionIs,
)
from motet.core.streams.change import Token
from motet.core.streams.orders import Prune, SetCursor
from motet.ids import FileName, Offset, ShardId, StreamName, TransactionId

MORE = StreamName("more")
LONG = "." * 120


def segments(bench: Bench) -> list[FileName]:
    return sorted(name for name in bench.files if name.startswith("database-log-"))


def written(bench: Bench, count: int = 12, *, keys: int = 3, stream: str = STOCK) -> list[Clock]:
    """Transactions that change a few keys over and over."""
    return [
        bench.commit(f"{stream}-{n}", put(f"k{n % keys}", f"{n}{LONG}", stream))
        for n in range(count)
    ]


def prune(bench: Bench, up_to: Clock, *streams: StreamName) -> None:
    obeyed(bench, Prune(up_to, is_forced=False), *streams)


def restart(bench: Bench) -> None:
    bench.crash()
    bench.serve()


def rows(bench: Bench, *keys: str, stream: str = STOCK) -> list[str | None]:
    """The beginning of the latest row of each key."""
    found = [bench.latest(key, stream) for key in keys]
    return [
        None if each is None or each.row is None else each.row.decode().rstrip(".")
        for each in found
    ]


def test_files_below_the_low_watermark_go_and_a_start_knows_all_that_was_in_them() -> None:
    bench = serving()
    bench.append("raw", "r", Token("p", 7))
    old = bench.commit("only", put("once", "x"), put("twice", "1"), put("twice", "2"))
    clocks = written(bench)
    before = segments(bench)
    first = bench.latest("once")
    prune(bench, clocks[-2])
    after = segments(bench)
    assert len(after) < len(before) / 2
    assert before[0] not in after
    for is_restarted in (False, True, True):
        if is_restarted:
            restart(bench)
        assert [row.rstrip(b".") for row in values(bench) if row is not None] == [b"11"]
        assert rows(bench, "once", "twice", "k0", "k1", "k2") == ["x", "2", "9", "10", "11"]
        assert bench.latest("once") == first, "with its clock, its transaction and its place there"
        assert first is not None
        assert first.clock == old
        assert bench.append("raw", "other", Token("p", 7)).duplicate
        told = bench.ask(GetTransaction(bench.request(), TransactionId("only")))
        assert isinstance(told, TransactionIs)
        assert (told.standing, told.clock) == ("committed", old)
        gone = ReadEntries(bench.request(), STOCK, ShardId(0), Offset(-1), 10)
        assert bench.refused(gone) == "OFFSET_EXPIRED"
    assert bench.append("k0", "next").offset == 16
    assert rows(bench, "k0") == ["next"]


def test_a_stream_that_is_not_pruned_keeps_the_files_that_it_is_in() -> None:
    bench = serving()
    bench.create(MORE)
    clocks = written(bench)
    bench.append("m", "kept", stream=MORE)
    clocks += written(bench)
    before = segments(bench)
    prune(bench, clocks[-1], STOCK)
    assert 0 < len(segments(bench)) < len(before)
    for _ in range(2):
        assert [change.row for change in bench.feed(MORE)] == [b"kept"]
        assert values(bench) == []
        restart(bench)
    kept = segments(bench)
    prune(bench, clocks[-1], MORE)
    assert kept[0] not in segments(bench)
    assert rows(bench, "m", stream=MORE) == ["kept"]


def test_what_a_named_cursor_has_not_read_stays() -> None:
    bench = serving()
    clocks = written(bench)
    obeyed(bench, SetCursor("slow", clocks[5]))
    prune(bench, clocks[5])
    before = values(bench)
    assert len(before) == 6
    obeyed(bench, Prune(clocks[-1], is_forced=True))
    assert values(bench) == []


def test_files_that_are_mostly_of_latest_changes_stay() -> None:
    bench = serving()
    clocks = written(bench, 12, keys=12)
    before = segments(bench)
    prune(bench, clocks[-1])
    assert segments(bench) == before
    assert not [each for each in bench.notes if "clear" in each]
    written(bench, 24, keys=12)
    prune(bench, bench.visible())
    assert before[0] not in segments(bench)
    compacted = dict(bench.index.compacted)
    assert sum(compacted.values()) == 12
    for _ in range(3):
        restart(bench)
        prune(bench, bench.visible())
        assert bench.index.compacted == compacted, "they are carried once"
    assert rows(bench, "k0", "k11") == ["12", "23"]


def test_a_key_that_is_changed_while_it_is_carried_has_its_newest_row() -> None:
    bench = serving()
    clocks = written(bench)
    request = send_order(bench, Prune(clocks[-1], is_forced=False))
    rounds = 0
    while request not in bench.answers:
        bench.send_append("k0", f"new {rounds}")
        if bench.reads:
            bench.read_back()
        else:
            bench.done(bench.pending[0])
        rounds += 1
    bench.finish()
    for _ in range(2):
        assert rows(bench, "k0", "k1", "k2") == [f"new {rounds - 1}", "10", "11"]
        restart(bench)


def test_a_page_under_way_says_that_what_it_reads_is_gone() -> None:
    bench = serving()
    clocks = written(bench)
    page = bench.send(ReadFeed(bench.request(), (STOCK,), clocks[0], 100))
    reads, bench.reads = bench.reads, []
    prune(bench, clocks[-1])
    bench.reads = reads
    bench.finish()
    assert bench.code(page) == "CURSOR_EXPIRED"


def test_a_crash_at_any_moment_of_it_loses_nothing() -> None:
    """At each step, with everything that is under way lost, and with all of it kept."""
    for keeps in (False, True):
        for steps in range(200):
            bench = serving()
            clocks = written(bench, 9)
            request = send_order(bench, Prune(clocks[-2], is_forced=False))
            for _ in range(steps):
                if bench.reads:
                    bench.read_back()
                elif bench.pending:
                    bench.done(bench.pending[0])
            is_done = request in bench.answers and not bench.pending and not bench.reads
            bench.crash(keep=tuple(bench.pending) if keeps else ())
            bench.serve()
            assert rows(bench, "k0", "k1", "k2") == ["6", "7", "8"], (keeps, steps)
            prune(bench, clocks[-2])
            assert len(segments(bench)) <= 3, (keeps, steps)
            assert [row.rstrip(b".") for row in values(bench) if row is not None] == [b"8"]
            if is_done:
                break
        else:
            raise AssertionError("it has no end")


def test_without_room_all_stays_as_it_is_and_the_next_order_tries_again() -> None:
    bench = serving()
    clocks = written(bench)
    before = segments(bench)
    request = send_order(bench, Prune(clocks[-2], is_forced=False))
    while "shard_commit" not in bench.notes and not bench.reads:  # the order itself is durable
        bench.done(bench.pending[0])
    while request not in bench.answers:
        if bench.reads:
            bench.read_back()
        else:
            fill(bench)
    assert isinstance(bench.answers[request], FeedObeyed), "the feed is pruned all the same"
    assert "streams_not_cleared" in bench.notes
    assert set(before) <= set(segments(bench))
    bench.finish()
    prune(bench, clocks[-2])
    assert before[0] not in segments(bench)
    assert rows(bench, "k0", "k1", "k2") == ["9", "10", "11"]


def test_a_file_goes_only_when_the_state_that_replaces_it_is_on_disk() -> None:
    bench = serving()
    clocks = written(bench)
    send_order(bench, Prune(clocks[-2], is_forced=False))
    is_state_there = False
    while bench.reads or bench.pending:
        if bench.reads:
            bench.read_back()
            continue
        change = bench.pending[0]
        if isinstance(change, Replace) and "state" in change.file:
            is_state_there = True
        assert is_state_there or not isinstance(change, Remove)
        bench.done(change)
    assert is_state_there


def test_a_log_that_was_trimmed_again_without_a_new_state_is_read_from_where_it_begins() -> None:
    bench = serving()
    clocks = written(bench, 9)
    for number in range(30):  # records that no feed shows
        obeyed(bench, SetCursor("far", Clock(1 << 41, number)))
    clocks += written(bench, 3)
    prune(bench, clocks[2])
    states = [name for name in bench.files if "state" in name]
    prune(bench, clocks[8])
    assert [name for name in bench.files if "state" in name] == states, "it covers that, too"
    for _ in range(2):
        assert len(values(bench)) == 3
        assert len(bench.page(after=clocks[8]).changes) == 3
        restart(bench)
