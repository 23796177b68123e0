"""Commands about staged parts, publications, staging jobs and ordered writers, in golden scripts."""

from __future__ import annotations

import msgspec

from motet.core.clock.hlc import Clock
from motet.core.clock.writer_step import WriterStep
from motet.core.mergetree.messages import (
    FindVersion,
    OpenJob,
    PartStaged,
    PublishParts,
    ReadWriters,
    RenewJob,
    StagedPart,
    StagePart,
    TablePublication,
)
from motet.core.mergetree.names import PARTITION
from motet.core.mergetree.paths import WRITERS, ShardPaths
from motet.ids import Address, TableId, WriterName
from motet.testing.part import verb
from motet.testing.scripts.mergetree_client import CLIENT, KEY, MergeTreeClient, header_of


class PublishingPart(MergeTreeClient):
    """Stages parts and publishes them."""

    def __init__(self) -> None:
        super().__init__()
        #: parts as their clients were told that they are staged
        self.staged: dict[str, PartStaged] = {}

    @verb
    def stage(
        self,
        node: str,
        part: str,
        *,
        table: str = "t",
        shard: int = 0,
        quorum: int = 0,
        partition: str = PARTITION,
        size: int = 100,
        job: str = "",
        wait: bool = True,
    ) -> list[str]:
        """Stage a part whose bytes have arrived at a replica; it has others hold it, too."""
        header = msgspec.structs.replace(header_of(part, None, partition), size_bytes=size)
        self.bench.folders[Address(node)].arrived[header.id] = header
        request = self.request()
        lines = self.ask(node, StagePart(TableId(table), shard, request, header, quorum, job), wait)
        for told in self.bench.received.get(CLIENT, []):
            if isinstance(told, PartStaged) and told.request == request:
                self.staged[part] = told
        return lines

    @verb
    def publish(
        self,
        node: str,
        *parts: str,
        token: str = "",
        step: str = "",
        replace: str = "",
        content: str = "c",
        tables: str = "",
        job: str = "",
        wait: bool = True,
    ) -> list[str]:
        """Publish staged parts; step=writer:epoch:after:through, clocks are numbers, - is none."""
        each: dict[str, list[StagedPart]] = {name: [] for name in tables}
        for part in parts:
            told = self.staged[part]
            staged = StagedPart(told.shard, told.part, told.holders)
            each.setdefault(told.table, []).append(staged)
        replaced = tuple(replace.split(",")) if replace else ()
        publications = tuple(
            TablePublication(TableId(name), 0, tuple(staged), replaced, content=content)
            for name, staged in each.items()
        )
        message = PublishParts(
            self.request(),
            publications,
            token,
            step=_step(step) if step else None,
            jobs=(job,) if job else (),
        )
        if step:
            self.keeper().put(WRITERS, b"") if self.keeper().get(WRITERS) is None else None
        return self.ask(node, message, wait)

    @verb
    def open_job(self, node: str, job: str, tables: str = "t") -> list[str]:
        """Open a staging job."""
        return self.ask(node, OpenJob(self.request(), job, tuple(map(TableId, tables))), wait=True)

    @verb
    def renew_job(self, node: str, job: str, tables: str = "t") -> list[str]:
        """Renew the lease of a staging job."""
        return self.ask(node, RenewJob(self.request(), job, tuple(map(TableId, tables))), wait=True)

    @verb
    def jobs(self, table: str = "t") -> list[str]:
        """The staging jobs of a table, in the keeper."""
        path = ShardPaths(TableId(table), 0).staging
        return self.below(path, len(path) + 1) or ["no jobs"]

    @verb
    def find_version(self, node: str, time: int) -> list[str]:
        """The version of the shard at a moment of the keeper's clock."""
        return self.ask(node, FindVersion(*KEY, self.request(), time), wait=True)

    @verb
    def writer(self, node: str, name: str) -> list[str]:
        """How far is an ordered writer?"""
        return self.ask(node, ReadWriters(self.request(), WriterName(name)), wait=True)


def _step(text: str) -> WriterStep:
    writer, epoch, after, through = text.split(":")
    begun = None if after == "-" else Clock(int(after), 0)
    return WriterStep(writer, int(epoch), begun, Clock(int(through), 0))
