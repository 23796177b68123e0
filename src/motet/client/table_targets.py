"""The tables that a client writes to: looked up once, and again when one turns out to be another table."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from motet.client.table_link import TableLink
from motet.client.table_reading import TablePlans
from motet.core.mergetree.messages import TableAt
from motet.core.mergetree.version import Version
from motet.errors.tables import TableMoved
from motet.ids import Address, TableId, TableName
from motet.ports import Entropy


class Target(NamedTuple):
    """A table as it was when it was looked up, and who has told of it."""

    table: TableAt
    told_by: Address
    version: Version

    @property
    def id(self) -> TableId:
        return self.table.definition.id


class TableTargets:
    """Those of one database."""

    def __init__(self, link: TableLink, plans: TablePlans, entropy: Entropy) -> None:
        self._link = link
        self._plans = plans
        #: by their names
        self._known: dict[TableName, asyncio.Task[Target]] = {}
        #: replicas of a shard take turns over all clients
        self._spread = entropy.nonce()

    async def get(self, name: TableName) -> Target:
        """The table of this name, as it was when it was first used here."""
        task = self._known.get(name)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = asyncio.get_running_loop().create_task(self._look_up(name))
            self._known[name] = task
        return await asyncio.shield(task)

    def forget(self, name: TableName) -> None:
        """Look it up again when it is used next."""
        self._known.pop(name, None)

    async def _look_up(self, name: TableName) -> Target:
        told = await self._plans.describe([name])
        return Target(told.answer.tables[0], told.node, told.answer.version)

    async def again(self, target: Target) -> Target:
        """The same table, with its replicas as they are now; ``TableMoved`` if the name has another one."""
        self.forget(target.table.name)
        found = await self.get(target.table.name)
        if found.id != target.id:
            raise TableMoved(f"{target.table.name} is another table now")
        return found

    def candidates(self, target: Target, shard: int) -> list[Address]:
        """The replicas that can be written through, in turn for each client; others are active again soon."""
        places = [each for each in target.table.shards[shard].replicas if not each.is_lost]
        active = [each for each in places if each.is_active] or places
        first = self._spread % max(len(active), 1)
        return self._link.silent_last(
            self._link.node_of(place, target.told_by) for place in active[first:] + active[:first]
        )
