"""What is under way, seen on top of what is durable: the two together are as if all were durable."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from motet.core.clock.hlc import Clock
from motet.core.onelog.index import Index
from motet.core.onelog.overlay import Overlay
from motet.core.onelog.record import CommittedRecord, LoggedChange, StreamRecord
from motet.core.streams.change import Token
from motet.ids import Epoch, Offset, ShardId, StreamName, TransactionId

STOCK, NEW = StreamName("stock"), StreamName("new")
KEYS = (b"a", b"b")
EPOCH = Epoch(1)
Record = StreamRecord | CommittedRecord


def records(shapes: list[tuple[list[tuple[int, int]], bool]]) -> list[Record]:
    """The log of two streams, the second created later, and then transactions of this shape."""
    log: list[Record] = [StreamRecord(Clock(1, 0), STOCK, 2, None)]
    log.append(StreamRecord(Clock(1, 1), NEW, 2, None))
    counts: dict[tuple[StreamName, int], int] = {}
    for number, (changes, with_token) in enumerate(shapes):
        logged = []
        for stream_number, key_number in changes:
            stream, shard = (STOCK, NEW)[stream_number], key_number
            offset = counts.get((stream, shard), 0)
            counts[stream, shard] = offset + 1
            logged.append(
                LoggedChange(
                    stream, ShardId(shard), Offset(offset), KEYS[key_number], "append", b"", None
                )
            )
        token = Token("p", number) if with_token else None
        clock = Clock(2, number)
        log.append(CommittedRecord(clock, TransactionId(f"t{number}"), 0, tuple(logged), token))
    return log


shapes = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=3),
        st.booleans(),
    ),
    max_size=8,
)


def looked_at(overlay: Overlay, index: Index) -> list[object]:
    return [
        *(overlay.sharding(index, stream) for stream in (STOCK, NEW)),
        *(overlay.next_offset(index, s, ShardId(n)) for s in (STOCK, NEW) for n in (0, 1)),
        *(overlay.seen(index, stream, key) for stream in (STOCK, NEW) for key in KEYS),
        *(overlay.token(index, stream, "p") for stream in (STOCK, NEW)),
    ]


@given(shapes)
def test_it_does_not_matter_how_much_is_durable_already(
    shape: list[tuple[list[tuple[int, int]], bool]],
) -> None:
    log = records(shape)
    index, overlay = Index(), Overlay()
    for record in log:
        overlay.add(record, EPOCH)
    before = looked_at(overlay, index)
    for record in log:
        index.add(record, EPOCH)
        overlay.remove(record)
        assert looked_at(overlay, index) == before
    assert overlay == Overlay(), "nothing is left when all is durable"


@given(shapes)
def test_emptied_it_shows_what_is_durable(
    shape: list[tuple[list[tuple[int, int]], bool]],
) -> None:
    log = records(shape)
    index, overlay = Index(), Overlay()
    for record in log[2:]:
        overlay.add(record, EPOCH)
    overlay.clear()
    assert overlay == Overlay()
    assert looked_at(overlay, index) == looked_at(Overlay(), index)
