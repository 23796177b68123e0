"""Streams with something in their feed."""

from __future__ import annotations

import asyncio

from tests.behaviour.places import fresh

from motet.aio import Database
from motet.client.change import Change
from motet.core.clock.hlc import Clock


async def filled(db: Database, transactions: int = 20) -> list[str]:
    """Three streams with transactions of one to four changes over them, and raw entries between these."""
    streams = [fresh(f"feed_{letter}") for letter in "abc"]
    await asyncio.gather(*(db.create_stream(name, shards=2) for name in streams))
    for i in range(transactions):
        async with db.transaction() as txn:
            for j in range(1 + i % 4):
                txn.change(streams[(i + j) % 3], key=f"{i}-{j}", op="insert", row={"i": i, "j": j})
        if i % 5 == 0:
            await db.stream(streams[0]).append(f"raw-{i}", b"\xff\x00")
    await db.visible_clock(*streams, wait=True)
    return streams


async def write(db: Database, stream: str, *keys: str) -> Clock:
    async with db.transaction() as txn:
        for key in keys:
            txn.change(stream, key, "insert", row={"n": 1})
    assert txn.clock is not None
    return txn.clock


async def put(db: Database, stream: str, key: str, left: int) -> Clock:
    """A transaction of one change; its clock."""
    async with db.transaction() as txn:
        txn.change(stream, key=key, op="update", row={"left": left})
    assert txn.clock is not None
    return txn.clock


async def feed(db: Database, *streams: str) -> list[Change]:
    """All that is committed."""
    await db.visible_clock(*streams, wait=True)
    return (await db.changes(*streams)).changes
