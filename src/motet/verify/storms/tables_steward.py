"""Who creates, renames and drops whole tables in the storm, and how clients find them by their names."""

from __future__ import annotations

from motet.core.machine import Effect, Message
from motet.core.mergetree.messages import (
    CreateTable,
    DropTable,
    NodeRefused,
    RenameTable,
    TableChanged,
    TableReady,
)
from motet.core.metadata.definitions import Column, TableDefinition
from motet.ids import TableId, TableName
from motet.verify.storms.tables_clients import NAMES, REFUSED, Cluster, TableClient

CREATED, RENAMED, TABLE_DROPPED = "table_created", "table_renamed", "whole_table_dropped"
COLUMNS = (Column(1, "sku"), Column(2, "at"))


class Steward(TableClient):
    """Creates the first table; in some runs it goes on, and names come to mean other tables."""

    def __init__(self, cluster: Cluster, name: str, between_ms_max: int, changes: float) -> None:
        super().__init__(cluster, name, between_ms_max)
        self._changes = changes
        self._tables = 0

    def begin(self) -> list[Effect]:
        living = [name for name in NAMES if self.cluster.look_up(name) is not None]
        self.is_done = self.is_last_round and bool(living)
        if not living:
            return self._create(NAMES[0])  # in the last round, too: a drop may have come late
        if self.is_last_round or not self.dice.chance(self._changes):
            return self.pause()
        self.turn_to_any()
        free = [name for name in NAMES if name not in living]
        name, change = (
            self.dice.pick(living),
            self.dice.pick(["create", "rename", "rename", "drop"]),
        )
        if change == "drop":
            return self.ask(DropTable(self.next_request(), TableName(name)))
        if not free:
            return self.pause()
        if change == "create":
            return self._create(free[0])
        return self.ask(RenameTable(self.next_request(), TableName(name), TableName(free[0])))

    def _create(self, name: str) -> list[Effect]:
        self.turn_to_any()
        self._tables += 1
        cluster = self.cluster
        definition = TableDefinition(
            *(TableId(f"{self._tables:016x}"), b"schema", COLUMNS, ("sku",)),
            shards=cluster.shards,
            dedup="content" if cluster.told_by == "content" else None,
        )
        replicas = len(cluster.nodes)
        return self.ask(CreateTable(self.next_request(), TableName(name), definition, replicas))

    def answered(self, asked: Message, answer: Message | None) -> list[Effect]:
        if isinstance(answer, NodeRefused):
            self.world.mark(f"{REFUSED}_{answer.code.lower()}")
        elif isinstance(answer, TableReady):
            self.world.mark(CREATED)
        elif isinstance(answer, TableChanged):
            self.world.mark(RENAMED if isinstance(asked, RenameTable) else TABLE_DROPPED)
        return self.pause()
