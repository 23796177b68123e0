"""PostgreSQL asked by one Python program with many connections, as ours are: asyncpg, if it is installed."""

from __future__ import annotations

import asyncio
import importlib.util
import time
from typing import Any

ROW = "values ($1, $2, $3, $4)"
STATEMENTS = {
    "one": f"insert into orders {ROW}",
    "two": f"with first as (insert into orders {ROW}) insert into stock {ROW}",
}


def is_there() -> bool:
    """Whether asyncpg is installed."""
    return importlib.util.find_spec("asyncpg") is not None


async def commits(
    address: dict[str, Any], case: str, lanes: int, seconds: float, values: tuple[Any, ...]
) -> dict[str, Any]:
    """Transactions by so many connections of this process; one second before is not counted."""
    import asyncpg

    connections = [await asyncpg.connect(**address) for _ in range(lanes)]
    prepared = [await each.prepare(STATEMENTS[case]) for each in connections]
    begin = time.perf_counter() + 1.0
    end = begin + seconds
    run, counts = f"{time.time_ns():x}", [0] * lanes

    async def lane(number: int) -> None:
        statement, count = prepared[number], 0
        while (before := time.perf_counter()) < end:
            await statement.fetch(f"o-{run}-{number}-{count}", *values)
            count += 1
            counts[number] += before >= begin

    await asyncio.gather(*map(lane, range(lanes)))
    for each in connections:
        await each.close()
    return {"rate": round(sum(counts) / seconds)}
