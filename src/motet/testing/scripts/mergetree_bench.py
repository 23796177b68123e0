"""A workbench for table replicas: a keeper that tells what is watched, and folders with parts."""

from __future__ import annotations

from typing import Self

import msgspec

from motet.core.machine import (
    NS_PER_MS,
    Effect,
    Event,
    Message,
    Note,
    Now,
    Received,
    Send,
    Work,
    WorkDone,
    WorkFailed,
)
from motet.core.mergetree.entries import PartHeader
from motet.core.mergetree.messages import (
    BlockInserted,
    HoldPart,
    JobStanding,
    NodeRefused,
    PartBytes,
    PartHeld,
    PartitionsDropped,
    PartPushed,
    PartsListed,
    PartsPublished,
    PartStaged,
    TableRefused,
    VersionFound,
    WritersAre,
    WriterStanding,
)
from motet.core.mergetree.paths import TABLE_NODES, TABLES, WRITERS
from motet.core.mergetree.work import (
    Arrive,
    Clear,
    Detach,
    Fetch,
    Forget,
    Hold,
    Keep,
    LookAtDisk,
    LookAtParts,
    Looked,
    Release,
)
from motet.core.metadata.definitions import DatabaseIdentity, encode_database_identity
from motet.core.metadata.messages import MetadataRequest
from motet.core.metadata.paths import DATABASE, DRAINS, NODES, ROOT, SETTINGS
from motet.core.render import render
from motet.ids import Address, NodeId, PartId, SessionId
from motet.testing.bench_network import InFlight, Line
from motet.testing.scripts.operator_bench import OperatorBench, kind_of, told_message
from motet.testing.scripts.operator_puppets import PuppetKeeper

INCARNATION = "a1b2"


class WatchedKeeper(PuppetKeeper):
    """A keeper that tells sessions what they watch."""

    roots = (ROOT, DRAINS, NODES, SETTINGS, TABLES, TABLE_NODES, WRITERS)

    def __init__(self) -> None:
        super().__init__()
        self.put(DATABASE, encode_database_identity(DatabaseIdentity(INCARNATION)))
        #: whose session it is
        self.sessions: dict[SessionId, Address] = {}

    def step(self, event: Event) -> list[Effect]:
        if not isinstance(event, Received) or not isinstance(event.message, MetadataRequest):
            return []
        answer = self._answer(event.message, event.now.monotonic_ns // NS_PER_MS)
        return [Send(event.sender, answer), *self.news()]

    def news(self) -> list[Send]:
        """What sessions are to be told."""
        told = self.tree.take_news()
        return [Send(self.sessions[s], message) for s, message in told if s in self.sessions]

    def clone(self) -> Self:
        twin = super().clone()
        twin.sessions = dict(self.sessions)
        return twin


class PartFolder(msgspec.Struct):
    """The bytes of one node's parts: the value says whether they are what was written."""

    stored: dict[PartId, tuple[PartHeader, bool]] = {}
    arrived: dict[PartId, PartHeader] = {}
    staged: dict[PartId, PartHeader] = {}
    detached: dict[PartId, PartHeader] = {}
    #: of them those that are damaged
    rotten: dict[PartId, PartHeader] = {}
    #: damaged parts whose names do not tell it
    hidden: dict[PartId, None] = {}

    def look(self) -> Looked:
        """What is there; of stored parts that are whole the names alone."""
        named = tuple(part for part, each in self.stored.items() if each[1] or part in self.hidden)
        broken = tuple(part for part in self.stored if part not in named)
        aside = (*self.arrived.values(), *self.detached.values())
        return Looked((), aside, tuple(self.staged.values()), broken, named)

    def look_at(self, parts: tuple[PartId, ...]) -> Looked:
        """What the manifests of stored parts say."""
        there = [self.stored[part] for part in parts if part in self.stored]
        broken = tuple(header.id for header, is_whole in there if not is_whole)
        return Looked(tuple(header for header, is_whole in there if is_whole), (), broken=broken)

    def detach(self, part: PartId) -> None:
        kept = self.stored.pop(part, None)
        if kept is not None:
            (self.detached if kept[1] else self.rotten)[part] = kept[0]

    def clear(self) -> None:
        for each in (self.stored, self.arrived, self.staged, self.detached):
            each.clear()


class MergeTreeBench(OperatorBench):
    """Table replicas, their folders, and a keeper."""

    def __init__(self) -> None:
        super().__init__()
        self.folders: dict[Address, PartFolder] = {}

    def work(self, name: Address, work: Work, now: Now) -> Event:
        """Do what a replica wants done with bytes."""
        why, result = self._looked_or_done(name, self.folders[name], work.task)
        return WorkDone(now, work.id, result) if why is None else WorkFailed(now, work.id, why)

    def _looked_or_done(
        self, name: Address, folder: PartFolder, task: Message
    ) -> tuple[str | None, Message | None]:
        if isinstance(task, LookAtDisk):
            return None, folder.look()
        if isinstance(task, LookAtParts):
            return None, folder.look_at(task.parts)
        return self._done(name, folder, task)

    def _done(
        self, name: Address, folder: PartFolder, task: Message
    ) -> tuple[str | None, Message | None]:
        match task:
            case Arrive(part=part):
                if self.nodes[name].disk.full:
                    return "disk full", None
                folder.arrived[part.id] = part
            case Keep(part=part, block=block):
                return self._keep(name, folder, part, block), None
            case Hold(part=part, block=block, source=source):
                return self._hold(name, folder, part, block, source), None
            case Release(part=part_id):
                folder.staged.pop(part_id, None)
                folder.arrived.pop(part_id, None)
            case Fetch(part=part, source=source):
                why = self._fetch(name, Address(source), part)
                if why is not None:
                    return why, None
                folder.stored[part.id] = part, True
            case Forget(part=part_id):
                folder.stored.pop(part_id, None)
            case Detach(part=part_id):
                folder.detach(part_id)
            case Clear():
                folder.clear()
        return None, None

    def _keep(
        self, name: Address, folder: PartFolder, part: PartHeader, block: PartBytes | None
    ) -> str | None:
        if folder.stored.get(part.id, (part, False))[1]:
            return None
        if self.nodes[name].disk.full:
            return "disk full"
        places = (folder.staged, folder.arrived, folder.detached)
        aside = [each.pop(part.id) for each in places if part.id in each]
        if block is None and not any(each.hash == part.hash for each in aside):
            return "no such bytes have arrived"
        folder.stored[part.id] = part, True
        return None

    def _hold(
        self,
        name: Address,
        folder: PartFolder,
        part: PartHeader,
        block: PartBytes | None,
        source: NodeId | None,
    ) -> str | None:
        if self.nodes[name].disk.full:
            return "disk full"
        stored = folder.stored.get(part.id)
        here = [folder.staged.get(part.id), folder.arrived.get(part.id), stored and stored[0]]
        if block is None and not any(each and each.hash == part.hash for each in here):
            if source is None:
                return "no such bytes have arrived"
            why = self._fetch(name, Address(source), part)
            if why is not None:
                return why
        folder.arrived.pop(part.id, None)
        folder.staged[part.id] = part
        return None

    def _fetch(self, name: Address, source: Address, part: PartHeader) -> str | None:
        if self.nodes[source].machine is None or (source, name) in self.network.cut_links:
            return f"{source} does not answer"
        folder = self.folders[source]
        found = folder.stored.get(part.id)
        if found is None and part.id in folder.staged:
            found = folder.staged[part.id], True
        if found is None:
            return f"{source} does not have it"
        return None if found[1] and found[0].hash == part.hash else f"{source} sent other bytes"

    def _deliver(self, each: InFlight) -> list[Line]:
        node = self.nodes.get(each.send.to)
        if node is None:
            self.received.setdefault(each.send.to, []).append(each.send.message)
            return [Line("send", f"{each.send.to} <- {told_answer(each.send.message)}")]
        return super()._deliver(each)

    def _sent(self, sender: Address, send: Send) -> list[Line]:
        return self._put_in_flight(sender, send, kind_of(send.message), told)

    def _noted(self, name: Address, note: Note) -> list[Line]:
        if note.what in self.muted:
            return []
        detail = note.detail.partition(" ")[2]
        told = note.what.removeprefix("table_").replace("_", " ")
        return [Line("note", f"{name} {told}{': ' if detail else ''}{detail}")]


def told(message: Message) -> str:
    """A message in one line: of a part its id."""
    match message:
        case PartPushed(part=part) | HoldPart(part=part):
            return f"{kind_of(message)} {part.id}"
        case PartHeld(part=part_id, host_version=version):
            return f"{kind_of(message)} {part_id} host {version}"
    return told_message(message)


def _told_writer(each: WriterStanding) -> str:
    step = "no step" if each.step is None else f"epoch {each.step.epoch} to {each.step.through}"
    version = "" if each.version is None else f" at {each.version.zxid}"
    tables = " ".join(each.tables)
    error = f", error {each.error}" if each.error else ""
    return f"{each.writer}: {step}{version}, {each.rows} rows, {each.steps} steps, {tables}{error}"


def told_answer(message: Message) -> str:
    """What a client is told."""
    match message:
        case BlockInserted(name=name, version=version, is_duplicate=is_duplicate):
            return f"inserted {name} at {version}{', was there' if is_duplicate else ''}"
        case PartitionsDropped(version=version):
            return f"dropped at {version}"
        case PartsListed(parts=parts, more=more):
            listed = " ".join(f"{each.header.id}={each.name}" for each in parts) or "no rows"
            return f"{listed}, and more" if more else listed
        case PartStaged(part=part, holders=holders):
            told_holders = " ".join(f"{each.node}@{each.host_version}" for each in holders)
            return f"staged {part.id} on {told_holders}"
        case JobStanding(value=value):
            return f"job {value}"
        case VersionFound(version=version):
            return f"version {version}"
        case PartsPublished(version=version, names=names, is_duplicate=is_duplicate):
            listed = " ".join(name or "-" for name in names) if any(names) else "nothing new"
            return f"published {listed} at {version.zxid}{', was there' if is_duplicate else ''}"
        case WritersAre(writers=writers):
            return "; ".join(map(_told_writer, writers)) or "no writer"
        case (
            TableRefused(code=code, what=what, advice=advice)
            | NodeRefused(code=code, what=what, advice=advice)
        ):
            return f"{code} {what}; {advice}"
    return render(message)
