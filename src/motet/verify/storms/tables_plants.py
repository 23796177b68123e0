"""Table replicas with planted bugs: the real node, with one rule of its protocol left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from motet.core.machine import Effect, Event, Send
from motet.core.mergetree import (
    activation,
    addressing,
    dedup,
    executed,
    executing,
    inserting,
    publication_dedup,
    publishing,
    reading,
    tiling,
    tokens,
)
from motet.core.mergetree.context import Core
from motet.core.mergetree.entries import Entry, PartHeader
from motet.core.mergetree.history import BlockState, History
from motet.core.mergetree.jobs import COLLECTED, OPEN
from motet.core.mergetree.manifests import Manifests
from motet.core.mergetree.messages import InsertBlock, PublishParts
from motet.core.mergetree.names import PartName
from motet.core.mergetree.node import TableNode
from motet.core.mergetree.paths import ShardPaths, token_name
from motet.core.mergetree.publication import (
    Holders,
    Multi,
    PartPlace,
    PublishFacts,
    Subject,
    TableFacts,
)
from motet.core.mergetree.publication import (
    multi_of as _multi_of,
)
from motet.core.mergetree.publication_dedup import ToldDrop
from motet.core.mergetree.publication_state import PublicationUnderWay
from motet.core.mergetree.publication_state import with_jobs as _with_jobs
from motet.core.mergetree.queued import QueuedPart
from motet.core.mergetree.state import Call, Insert, InsertStep, PutPointer
from motet.core.mergetree.tiling import HasBytes, Tiling
from motet.core.metadata.messages import (
    ANY_VERSION,
    Check,
    Found,
    MetadataAnswer,
    ReadResult,
    SessionBegun,
    Write,
    WriteOperation,
)
from motet.ids import PartId, RequestId, TableId, Zxid
from motet.verify.plants import kind_of
from motet.verify.storms.planting import instead

_apply = History.apply
_look, _is_unwanted = inserting.look, executing.is_unwanted
_pointer_operations, _tile, _write = executed.pointer_operations, tiling.tile, Core.write


def table_node(plant: str | None) -> type[TableNode]:
    """The node with this bug; the real one without."""
    return kind_of("tables", plant, TableNode)


class PlantedTables(TableNode):
    """A node with something else in the place of one rule."""

    #: where, under which name, what
    planted: tuple[object, str, object]

    def step(self, event: Event) -> list[Effect]:
        with instead(*self.planted):
            return super().step(event)


def _answer_open(core: Core, *, duplicates: bool) -> None:
    """Answer inserts as soon as their entry is executed, and then all others."""
    for number, insert in list(core.state.inserts.items()):
        is_meant = insert.step is InsertStep.WAITING and insert.is_duplicate is duplicates
        block = core.state.history.of_part(insert.part) if insert.part is not None else None
        if is_meant and block is not None and block.is_open:
            inserting._answer(core, number, block.name, core.state.history.zxid)
    _look(core)


class AcksBeforeQuorum(PlantedTables):
    """An insert is acknowledged when its entry is executed, whatever quorum it has."""

    planted = (inserting, "look", lambda core: _answer_open(core, duplicates=False))


class AcksOpenDuplicates(PlantedTables):
    """A retry is acknowledged as soon as its token is found."""

    planted = (inserting, "look", lambda core: _answer_open(core, duplicates=True))


def _queue_own_too(core: Core, number: int, parts: Iterable[PartHeader]) -> None:
    for header in parts:
        core.state.parts.pop(header.id, None)
        core.state.queue[header.id] = QueuedPart(number, header)
        core.state.todo[header.id] = None


class ExecutesOwnEntries(PlantedTables):
    """An own entry is executed as if it were somebody else's."""

    planted = (executing, "queue_parts", _queue_own_too)


def _wants_failed(block: BlockState) -> bool:
    return not block.has_failed and _is_unwanted(block)


class WantsFailed(PlantedTables):
    """The part of a block that has failed is waited for."""

    planted = (executing, "is_unwanted", _wants_failed)


def _write_unchecked(core: Core, call: Call, *operations: WriteOperation) -> RequestId:
    host = core.own_paths.host
    unchecked = tuple(
        Check(host, ANY_VERSION) if isinstance(each, Check) and each.path == host else each
        for each in operations
    )
    return _write(core, call, *unchecked)


class SendsUnchecked(PlantedTables):
    """A multi that names own parts is as good in the next life as in this one."""

    planted = (Core, "write", _write_unchecked)


def _tile_halves(
    history: History,
    version: Zxid,
    held: Mapping[PartId, HasBytes],
    after: PartName | None = None,
    most: int | None = None,
) -> Tiling:
    tiling = _tile(history, version, held, after=after, most=most)
    begun = {part.low.entry for part in tiling.parts}
    missing = tuple(each for each in tiling.missing if each.block.entry not in begun)
    return msgspec.structs.replace(tiling, missing=missing)


class ShowsHalves(PlantedTables):
    """An entry counts as there with the first of its parts."""

    planted = (reading, "tile", _tile_halves)


def _unchained(_core: Core, _message: InsertBlock) -> list[WriteOperation]:
    return []


class TrustsVersions(PlantedTables):
    """A commit expects the node of its producer at a version, whoever has brought that about."""

    planted = (tokens, "chain", _unchained)


def _never_dropped(_core: Core, _insert: Insert, _zxid: Zxid) -> bool:
    return False


class KnowsDroppedRows(PlantedTables):
    """Rows that were dropped since are still taken for there."""

    planted = (dedup, "is_dropped", _never_dropped)


def _left_out_though_dropped(_found: Found, _told: ToldDrop) -> bool:
    return False


class LeavesOutDroppedRows(PlantedTables):
    """A publication leaves out rows that were dropped since."""

    planted = (publication_dedup, "is_dropped", _left_out_though_dropped)


def _hurried_pointer(core: Core) -> tuple[PutPointer, list[WriteOperation]] | None:
    state = core.state
    durable, state.durable_number = state.durable_number, state.history.next_number
    try:
        return _pointer_operations(core)
    finally:
        state.durable_number = durable


class HurriesPointer(PlantedTables):
    """The pointer passes what was executed, durable or not."""

    planted = (executed, "pointer_operations", _hurried_pointer)


def _multi_unchecked(
    asked: PublishParts,
    message: PublishParts,
    facts: PublishFacts,
    holders: dict[PartPlace, Holders],
    manifests: Manifests,
) -> Multi:
    multi = _multi_of(asked, message, facts, holders, manifests)
    operations = tuple(
        Check(each.path, ANY_VERSION) if mark.subject is Subject.HOST else each
        for each, mark in zip(multi.operations, multi.marks, strict=True)
    )
    return Multi(operations, multi.marks)


class PublishesUnchecked(PlantedTables):
    """A holder that has restarted, or has let go of a part, is counted as before."""

    planted = (publishing, "multi_of", _multi_unchecked)


def _apply_early(history: History, number: int, zxid: Zxid, entry: Entry) -> None:
    drawn = Zxid(history.zxid + 1)
    _apply(history, number, zxid, entry)
    for block in history.blocks.values():
        if block.block.entry == number and block.visible == zxid:
            block.visible = drawn


class NumbersEarly(PlantedTables):
    """A block counts from when its number was free, which is before its commit."""

    planted = (History, "apply", _apply_early)


def _token_of_shard(paths: ShardPaths, token: str) -> str:
    return f"{paths.tokens}/{token_name(token)}-{paths.shard}"


class TokensPerShard(PlantedTables):
    """A token that another shard has used is not known."""

    planted = (ShardPaths, "token", _token_of_shard)


def _jobs_as_open(
    each: PublicationUnderWay, tables: tuple[TableFacts, ...], found: list[ReadResult]
) -> tuple[tuple[TableFacts, ...], tuple[tuple[str, int], ...]]:
    opened = [
        msgspec.structs.replace(result, data=OPEN)
        if isinstance(result, Found) and result.data == COLLECTED
        else result
        for result in found
    ]
    return _with_jobs(each, tables, opened)


class PublishesCollected(PlantedTables):
    """A job is published whatever has become of it."""

    planted = (publishing, "with_jobs", _jobs_as_open)


def _any_name(_table: TableId, _name: list[ReadResult], _version: int) -> None:
    return


class RemembersNames(PlantedTables):
    """A table is the one that a name pointed to when it was looked up."""

    planted = (addressing, "check_named", _any_name)


def _never_lost(_found: Found) -> bool:
    return False


class IgnoresLoss(PlantedTables):
    """A replica that was marked as lost goes on as if it were not."""

    planted = (activation, "says_lost", _never_lost)


class SendsAgain(TableNode):
    """What nobody has answered under a session is sent once more under the next one."""

    def step(self, event: Event) -> list[Effect]:
        self._unanswered: dict[RequestId, Write]
        before = getattr(self, "_unanswered", {})
        message = getattr(event, "message", None)
        if isinstance(message, MetadataAnswer):
            before.pop(message.request, None)
        effects = super().step(event)
        for effect in effects:
            if isinstance(effect, Send) and isinstance(effect.message, Write):
                before[effect.message.request] = effect.message
        self._unanswered = before
        return effects

    def _begin_session(self, message: SessionBegun) -> None:
        former = dict(getattr(self, "_unanswered", {}))
        super()._begin_session(message)
        for write in former.values():
            self.node.ask(msgspec.structs.replace(write, session=message.session))
