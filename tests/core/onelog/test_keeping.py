"""Named cursors and pruning of a database in one log: records like others, judged in their order."""

from __future__ import annotations

from tests.core.onelog.harness import STOCK, Bench, fill, serving, values

from motet.core.clock.hlc import ZERO, Clock, plus
from motet.core.onelog.messages import (
    DescribeFeed,
    FeedDescribed,
    FeedObeyed,
    FeedSplit,
    KeptFeed,
    OrderFeed,
    ReadFeed,
    SplitFeed,
    StreamsRefused,
)
from motet.core.streams.orders import Order, Prune, SetCursor
from motet.ids import RequestId, StreamName

MORE = StreamName("more")


def send_order(bench: Bench, order: Order, *streams: StreamName) -> RequestId:
    return bench.send(OrderFeed(bench.request(), streams or (STOCK,), order))


def obeyed(bench: Bench, order: Order, *streams: StreamName) -> None:
    request = send_order(bench, order, *streams)
    bench.finish()
    assert isinstance(bench.answers[request], FeedObeyed), bench.answers[request]


def kept(bench: Bench, *streams: StreamName) -> tuple[KeptFeed, ...]:
    answer = bench.ask(DescribeFeed(bench.request(), streams))
    assert isinstance(answer, FeedDescribed), answer
    return answer.streams


def appended(bench: Bench, *keys: str, stream: str = STOCK) -> list[Clock]:
    return [bench.append(key, key, stream=stream).clock for key in keys]


def test_what_is_pruned_is_not_shown_and_stays_so_over_a_crash() -> None:
    bench = serving()
    clocks = appended(bench, "a", "b", "c")
    obeyed(bench, SetCursor("reader", clocks[1]))
    obeyed(bench, Prune(clocks[1], is_forced=False))
    for is_restarted in (False, True):
        if is_restarted:
            bench.crash()
            bench.serve()
        assert values(bench) == [b"c"]
        assert kept(bench) == (KeptFeed(STOCK, (("reader", clocks[1]),), clocks[1]),)
        early = ReadFeed(bench.request(), (STOCK,), clocks[0], 10)
        answer = bench.ask(early)
        assert isinstance(answer, StreamsRefused)
        assert answer.code == "CURSOR_EXPIRED"
        assert answer.advice == f"read on after {clocks[1]}"
        assert bench.page(after=clocks[1]).changes[0].row == b"c"
        latest = bench.latest("a")
        assert latest is not None
        assert latest.row == b"a", "the state is not the feed"
    assert bench.entries()[0].row == b"a"


def test_an_order_under_way_is_in_the_way_of_the_next() -> None:
    bench = serving()
    clocks = appended(bench, "a", "b")
    cursor = send_order(bench, SetCursor("reader", clocks[0]))
    pruned = send_order(bench, Prune(clocks[1], is_forced=False))
    assert bench.code(pruned) == "CURSOR_IN_THE_WAY"
    again = send_order(bench, SetCursor("reader", clocks[0]))
    assert again not in bench.answers, "what it repeats is not durable yet"
    bench.finish()
    assert isinstance(bench.answers[cursor], FeedObeyed)
    assert isinstance(bench.answers[again], FeedObeyed)
    records = bench.index.records
    obeyed(bench, SetCursor("reader", clocks[0]))
    assert bench.index.records == records, "the same again is not logged"


def test_an_order_that_could_not_be_written_has_changed_nothing() -> None:
    bench = serving()
    (clock,) = appended(bench, "a")
    request = send_order(bench, Prune(clock, is_forced=False))
    fill(bench)
    assert bench.code(request) == "DISK_FULL"
    assert kept(bench)[0].low_watermark == ZERO
    obeyed(bench, Prune(clock, is_forced=False))
    assert values(bench) == []


def test_several_streams_obey_together_and_begin_at_the_last_low_watermark() -> None:
    bench = serving()
    bench.create(MORE)
    clocks = appended(bench, "a", "b")
    more = appended(bench, "c", stream=MORE)
    last = appended(bench, "d")
    obeyed(bench, Prune(clocks[0], is_forced=False), STOCK)
    together = ReadFeed(bench.request(), (MORE, STOCK), None, 1)
    refused = bench.ask(together)
    assert isinstance(refused, StreamsRefused)
    assert refused.code == "CURSOR_EXPIRED"
    assert "more is kept from its beginning, stock is kept after" in refused.what
    assert refused.advice.startswith(f"begin after 'oldest' to read all of them after {clocks[0]}")
    later = bench.page(STOCK, MORE, after=clocks[0])
    assert [change.row for change in later.changes] == [b"b", b"c", b"d"]
    obeyed(bench, Prune(more[0], is_forced=False), MORE)
    assert bench.refused(ReadFeed(bench.request(), (MORE, STOCK), ZERO, 1)) == "CURSOR_EXPIRED"
    whole = SplitFeed(bench.request(), (MORE, STOCK), None, None, None, 1)
    assert bench.refused(whole) == "CURSOR_EXPIRED"
    assert [change.row for change in bench.page(STOCK, MORE, after=more[0]).changes] == [b"d"]
    assert [change.row for change in bench.feed(STOCK, limit=1)] == [b"b", b"d"]
    obeyed(bench, SetCursor("both", more[0]), STOCK, MORE)
    in_the_way = OrderFeed(bench.request(), (MORE, STOCK), Prune(last[0], is_forced=False))
    assert bench.refused(in_the_way) == "CURSOR_IN_THE_WAY"
    assert [each.low_watermark for each in kept(bench)] == [more[0], clocks[0]]
    obeyed(bench, Prune(last[0], is_forced=True), STOCK, MORE)
    assert [each.low_watermark for each in kept(bench, STOCK)] == [last[0]]
    assert bench.feed(STOCK, MORE) == []


def test_a_slice_begins_at_the_low_watermark() -> None:
    bench = serving()
    clocks = appended(bench, "a", "b", "c")
    obeyed(bench, Prune(clocks[0], is_forced=False))
    whole = bench.ask(SplitFeed(bench.request(), (STOCK,), None, None, None, 9))
    assert isinstance(whole, FeedSplit)
    assert (whole.bounds, whole.changes) == (tuple(clocks[1:]), 2)
    early = SplitFeed(bench.request(), (STOCK,), plus(clocks[0], -1), None, None, 1)
    assert bench.refused(early) == "CURSOR_EXPIRED"
    obeyed(bench, Prune(clocks[2], is_forced=False))
    nothing = bench.ask(SplitFeed(bench.request(), (STOCK,), None, None, None, 1))
    assert isinstance(nothing, FeedSplit)
    assert (nothing.bounds, nothing.changes) == ((clocks[2],), 0)


def test_a_page_that_ends_below_the_low_watermark_leads_to_it() -> None:
    bench = serving()
    clocks = appended(bench, "a", "b", "c")
    obeyed(bench, Prune(clocks[1], is_forced=False))
    page = bench.page(up_to=clocks[0])
    assert (page.changes, page.through) == ((), clocks[1])
    assert [change.row for change in bench.page(after=page.through).changes] == [b"c"]


def test_what_cannot_be_ordered_is_told() -> None:
    bench = serving()
    (clock,) = appended(bench, "a")
    strange = OrderFeed(bench.request(), (MORE,), Prune(clock, is_forced=False))
    assert bench.refused(strange) == "NO_SUCH_STREAM"
    assert bench.refused(OrderFeed(bench.request(), (), SetCursor("x", clock))) == "BAD_INPUT"
    assert bench.refused(OrderFeed(bench.request(), (STOCK,), SetCursor("", clock))) == "BAD_INPUT"
    future = Prune(Clock(clock.logical + 3_600_000, 0), is_forced=True)
    assert bench.refused(OrderFeed(bench.request(), (STOCK,), future)) == "BAD_INPUT"
    assert bench.refused(DescribeFeed(bench.request(), (MORE,))) == "NO_SUCH_STREAM"
