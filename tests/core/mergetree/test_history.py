"""What the log says of blocks, against a twin that reads the whole log for each question."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from motet.core.mergetree.entries import (
    DoneEntry,
    DropEntry,
    Entry,
    FailedEntry,
    InsertEntry,
    PartHeader,
    PublishEntry,
    decode_entry,
    encode_entry,
    parts_of,
)
from motet.core.mergetree.history import BlockState, History
from motet.core.mergetree.names import Block, PartName
from motet.core.mergetree.state import OwnPart
from motet.core.mergetree.tiling import tile
from motet.ids import NodeId, PartId, Zxid

N1 = NodeId("n1")
partitions = st.sampled_from(["p", "q"])


def header(number: int, index: int, partition: str) -> PartHeader:
    return PartHeader(PartId(f"{number}-{index}"), partition, 1, 10, f"hash {number}-{index}")


@st.composite
def logs(draw: st.DrawFn) -> list[Entry]:
    log: list[Entry] = []
    for number in range(draw(st.integers(0, 12))):
        earlier = st.integers(0, max(number - 1, 0))
        entry: Entry
        match draw(st.sampled_from(["insert", "quorum", "publish", "done", "failed", "drop"])):
            case "insert":
                entry = InsertEntry(header(number, 0, draw(partitions)), N1)
            case "quorum":
                entry = InsertEntry(header(number, 0, draw(partitions)), N1, 2)
            case "publish":
                parts = [
                    header(number, i, draw(partitions)) for i in range(draw(st.integers(1, 3)))
                ]
                replace = draw(st.sampled_from([(), ("p",), ("p", "q")]))
                entry = PublishEntry(tuple(parts), (N1,), replace)
            case "done":
                entry = DoneEntry(draw(earlier))
            case "failed":
                entry = FailedEntry(draw(earlier))
            case _:
                entry = DropEntry(draw(st.sampled_from([None, ("p",), ("q",)])))
        log.append(entry)
    return log


def zxid_of(number: int) -> Zxid:
    return Zxid(10 * number + 7)


def seen_by_reading_all(log: list[Entry], version: Zxid) -> set[tuple[str, Block]]:
    """The rules of the text, one block at a time."""
    seen = set()
    for number, entry in enumerate(log):
        for index, part in enumerate(parts_of(entry)):
            is_quorum = isinstance(entry, InsertEntry) and entry.quorum > 1
            ends = [
                (n, e)
                for n, e in enumerate(log)
                if n > number and isinstance(e, DoneEntry | FailedEntry) and e.number == number
            ]
            if not is_quorum:
                visible = zxid_of(number)
            elif ends and isinstance(ends[0][1], DoneEntry):
                visible = zxid_of(ends[0][0])
            else:
                continue
            drops = [
                zxid_of(n)
                for n, e in enumerate(log)
                if n > number
                and (
                    (
                        isinstance(e, DropEntry)
                        and (e.partitions is None or part.partition in e.partitions)
                    )
                    or (isinstance(e, PublishEntry) and part.partition in e.replace)
                )
            ]
            if visible <= version and not any(drop <= version for drop in drops):
                seen.add((part.partition, Block(number, index)))
    return seen


def history_of(log: list[Entry]) -> History:
    history = History()
    for number, entry in enumerate(log):
        history.apply(number, zxid_of(number), decode_entry(encode_entry(entry)))
    return history


@given(logs(), st.integers(0, 130))
def test_a_version_is_what_reading_the_whole_log_says(log: list[Entry], version: int) -> None:
    seen = history_of(log).seen_at(Zxid(version))
    assert {(each.header.partition, each.block) for each in seen} == seen_by_reading_all(
        log, Zxid(version)
    )


@given(logs(), st.integers(0, 130), st.integers(0, 12))
def test_a_version_is_the_same_when_more_of_the_log_is_read(
    log: list[Entry], version: int, read: int
) -> None:
    """V4: as soon as the log is read up to the version, nothing that comes later changes it."""
    if read < len(log) and version >= zxid_of(read):
        return
    before = {each.block for each in history_of(log[:read]).seen_at(Zxid(version))}
    assert before == {each.block for each in history_of(log).seen_at(Zxid(version))}


@given(logs(), st.integers(0, 130), st.data())
def test_parts_tile_a_version_or_what_is_missing_is_named(
    log: list[Entry], version: int, data: st.DataObject
) -> None:
    history = history_of(log)
    held = {
        each.header.id: OwnPart(each.header, is_stored=True)
        for each in history.blocks.values()
        if data.draw(st.booleans())
    }
    merged = [
        PartName(partition, Block(low), Block(high, 9), 1)
        for partition in ("p", "q")
        for low, high in [sorted((data.draw(st.integers(0, 9)), data.draw(st.integers(0, 9))))]
        if data.draw(st.booleans())
    ]
    seen = {(each.header.partition, each.block) for each in history.seen_at(Zxid(version))}
    whole = tile(history, Zxid(version), held, merged)
    most = data.draw(st.integers(1, 3))
    # Parts may have been merged between two pages (V6).
    paged = tiled_by_pages(history, Zxid(version), held, merged, most, data)
    for parts, missing_blocks in ((whole.parts, whole.missing), paged):
        shown: list[tuple[str, Block]] = [
            (each.header.partition, each.block)
            for part in parts
            for each in history.blocks.values()
            if part.holds(each.header.partition, each.block) and not each.has_failed
        ]
        missing = {(each.header.partition, each.block) for each in missing_blocks}
        assert len(shown) == len(set(shown)), "no block is shown twice"
        assert set(shown) | missing == seen, "V5"
        assert not set(shown) & missing
        assert not [each for each in missing_blocks if each.header.id in held]


def tiled_by_pages(
    history: History,
    version: Zxid,
    held: dict[PartId, OwnPart],
    merged: list[PartName],
    most: int,
    data: st.DataObject,
) -> tuple[tuple[PartName, ...], tuple[BlockState, ...]]:
    """What a client has that reads page after page, until a block is missing."""
    parts: tuple[PartName, ...] = ()
    while True:
        known = merged if data.draw(st.booleans()) else []
        page = tile(history, version, held, known, parts[-1] if parts else None, most)
        if page.missing:  # what is left is asked for as a whole
            rest = tile(history, version, held, known, parts[-1] if parts else None)
            return (*parts, *rest.parts), rest.missing
        parts += page.parts
        assert len(page.parts) <= most
        assert page.parts or not page.more
        if not page.more:
            return parts, ()
