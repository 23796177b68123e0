"""Decisions about tables, over all histories: what is under way counts as if it were durable.

Any history of records can be cut in two, a durable half and one under way; whatever is asked next is
decided alike at each cut. And what the whole of it does is compared with a model in a few lines.
"""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.core.tables.decisions import WALL_MS, ahead, decide, limits, record_of
from tests.core.tables.harness import REQUEST, at, created, publish, spec, staged, step, token

from motet.core.tables.messages import CreateTable, NoteWriter, Publish
from motet.core.tables.part_name import of_block
from motet.core.tables.plan import TableWrite
from motet.core.tables.records import Published, TableCreated, TableRecord, WriterNoted, WriterStep
from motet.ids import TableId, TableName, WriterName

table_names = st.sampled_from(["sales", "stock", "nowhere"])
clocks = st.integers(1, 6)
steps = st.builds(
    lambda writer, epoch, after, length: step(epoch, after, (after or 0) + length, writer),
    st.sampled_from(["shop", "other", "late"]),
    st.integers(0, 3),
    st.none() | clocks,
    st.integers(1, 2),
)


@st.composite
def publications(draw: st.DrawFn) -> Publish:
    how = draw(st.sampled_from(["plain", "token", "step"]))
    of = draw(table_names)
    drawn = draw(st.lists(st.tuples(table_names, st.integers(0, 2)), max_size=3))
    parts = [
        staged(draw(st.integers(0, 10**6)), of if how == "token" else name, shard)
        for name, shard in drawn
    ]
    if how == "token":
        return publish(*parts, token=token(draw(st.sampled_from("tuv")), of))
    return publish(*parts, step=draw(steps) if how == "step" else None)


creations = st.builds(
    lambda name, shards, id_: CreateTable(
        REQUEST, msgspec.structs.replace(spec(name, shards), id=id_ or spec(name).id)
    ),
    st.sampled_from(["sales", "stock", "more"]),
    st.integers(1, 3),
    st.none() | st.just(TableId("f" * 16)),
)
notes = st.builds(
    lambda writer: NoteWriter(REQUEST, WriterName(writer), "oh"),
    st.sampled_from(["shop", "other", "late"]),
)
requests = st.one_of(publications(), publications(), publications(), creations, notes)


@given(st.lists(requests, max_size=12), requests, st.data())
def test_what_is_under_way_counts_as_if_it_were_durable(
    asked: list[TableWrite], last: TableWrite, data: st.DataObject
) -> None:
    bounds = {"tables_max": 3, "table_parts_max": 5, "table_tokens_max": 2, "writers_max": 2}
    with limits(**bounds):
        history: list[TableRecord] = [created(1, spec()), created(2, spec("stock", shards=2))]
        for message in asked:
            record = record_of(decide(history, len(history), message))
            if record is not None:
                history.append(record)
        cut = data.draw(st.integers(0, len(history)))
        assert decide(history, cut, last) == decide(history, len(history), last)


@given(st.lists(requests, max_size=16), st.data())
def test_a_history_keeps_the_rules_wherever_it_is_cut(
    asked: list[TableWrite], data: st.DataObject
) -> None:
    history: list[TableRecord] = []
    model = Model()
    for message in asked:
        cut = data.draw(st.integers(0, len(history)))
        outcome = decide(history, cut, message)
        record = record_of(outcome)
        assert (record is not None) == model.takes(message), (message, outcome)
        if record is not None:
            assert record.clock == at(len(history) + 1)
            history.append(record)
            model.add(message, record)
    ahead(*history, durable=len(history))  # none of them is objected to when it is read back


class Model:
    """Which requests make a record, said in the shortest way: by looking at all records there are."""

    def __init__(self) -> None:
        self.shards: dict[TableName, tuple[TableId, int]] = {}
        self.blocks: dict[tuple[TableName, int], int] = {}
        self.parts: set[tuple[TableName, str]] = set()
        self.tokens: list[object] = []
        self.steps: dict[str, list[WriterStep]] = {}

    def takes(self, message: TableWrite) -> bool:
        if isinstance(message, NoteWriter):
            return True
        if isinstance(message, CreateTable):
            return message.spec.name not in self.shards
        fits = all(
            part.table in self.shards
            and self.shards[part.table][0] == part.table_id
            and 0 <= part.shard < self.shards[part.table][1]
            and (part.table, part.id) not in self.parts
            for part in message.parts
        )
        if message.token is not None:
            return message.token not in self.tokens and message.token.table in self.shards and fits
        if message.step is not None:
            done = self.steps.get(message.step.writer, [])
            through = done[-1].through if done else None
            is_next = (message.step.epoch, message.step.after) == (len(done), through)
            return is_next and fits
        return bool(message.parts) and fits

    def add(self, message: TableWrite, record: TableRecord) -> None:
        if isinstance(message, CreateTable):
            assert record == TableCreated(record.clock, message.spec)
            self.shards[message.spec.name] = (message.spec.id, message.spec.shards)
        elif isinstance(message, NoteWriter):
            assert record == WriterNoted(record.clock, WALL_MS, message.writer, message.error)
        else:
            assert isinstance(record, Published)
            self._add_published(message, record)

    def _add_published(self, message: Publish, record: Published) -> None:
        asked = (WALL_MS, message.token, message.step)
        assert (record.at_ms, record.token, record.step) == asked
        assert tuple(part.staged for part in record.parts) == message.parts
        for part in record.parts:
            self.parts.add((part.staged.table, part.staged.id))
            place = (part.staged.table, part.staged.shard)
            self.blocks[place] = self.blocks.get(place, 0) + 1
            assert part.name == of_block(self.blocks[place])
        if message.token is not None:
            self.tokens.append(message.token)
        if message.step is not None:
            self.steps.setdefault(message.step.writer, []).append(message.step)
