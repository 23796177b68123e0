"""Who waits for an answer: told in time, and never left behind in the book."""

from __future__ import annotations

import asyncio

import pytest

from motet.client.link import Patience
from motet.errors import OutcomeUnknown
from motet.ids import Address

NODE = Address("n1")


def begun(
    patience: Patience[str], seconds: float, *, request: int = 7, is_worth: bool | None = None
) -> asyncio.Future[str]:
    async def worth() -> bool:
        return bool(is_worth)

    loop = asyncio.get_running_loop()
    return patience.begin(request, NODE, loop, seconds, None if is_worth is None else worth)


def test_an_answer_ends_the_wait() -> None:
    async def scene() -> None:
        patience: Patience[str] = Patience()
        future = begun(patience, 60.0)
        waiter = patience.end(7)
        assert waiter is not None
        waiter.future.set_result("yes")
        assert await future == "yes"
        assert not patience.waiters
        assert patience.end(7) is None, "a second answer is for nobody"
        patience.stop()

    asyncio.run(scene())


def test_who_waits_too_long_is_told_so_and_forgotten() -> None:
    async def scene() -> None:
        patience: Patience[str] = Patience()
        with pytest.raises(TimeoutError):
            await begun(patience, 0.01)
        assert not patience.waiters

    asyncio.run(scene())


def test_who_is_cancelled_is_forgotten_when_its_time_is_over() -> None:
    async def scene() -> None:
        patience: Patience[str] = Patience()
        begun(patience, 0.01).cancel()
        with pytest.raises(TimeoutError):
            await begun(patience, 0.02, request=8)
        assert not patience.waiters

    asyncio.run(scene())


def test_who_waits_for_a_node_that_is_not_the_one_any_more_is_told() -> None:
    async def scene() -> None:
        patience: Patience[str] = Patience()
        with pytest.raises(OutcomeUnknown, match="not the one"):
            await begun(patience, 60.0, is_worth=False)
        patience.stop()

    asyncio.run(scene())
