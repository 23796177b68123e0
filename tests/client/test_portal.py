"""The portal: coroutines from outside their loop, and an end that leaves nobody waiting."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

from motet.client.portal import Portal
from motet.errors import NodeError


async def twice(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


async def fail() -> None:
    raise ZeroDivisionError


async def for_ever(begun: threading.Event) -> None:
    begun.set()
    await asyncio.Event().wait()


def test_calls_from_many_threads_get_their_own_answers() -> None:
    portal = Portal("test")
    found: dict[int, int] = {}

    def work(number: int) -> None:
        found[number] = portal.call(twice, number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    portal.close()
    assert found == {number: 2 * number for number in range(16)}


def test_errors_come_out() -> None:
    portal = Portal("test")
    with pytest.raises(ZeroDivisionError):
        portal.call(fail)
    assert portal.call(twice, 2) == 4
    portal.close()


def test_closing_ends_who_waits_and_leaves_no_thread() -> None:
    before = threading.active_count()
    portal = Portal("test")
    begun = threading.Event()
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            portal.call(for_ever, begun)
        except NodeError as error:
            raised.append(error)

    waiter = threading.Thread(target=wait)
    waiter.start()
    assert begun.wait(60)
    portal.close()
    waiter.join()
    assert "closed" in str(raised[0])
    assert threading.active_count() == before


def test_a_closed_portal_refuses_and_closes_once_more() -> None:
    portal = Portal("test")
    closed: list[str] = []

    async def last() -> None:
        closed.append("last")

    portal.close(last)
    portal.close(last)
    assert closed == ["last"]
    with pytest.raises(NodeError, match="test is closed"):
        portal.call(twice, 1)


def test_a_last_call_that_fails_still_ends_the_thread() -> None:
    before = threading.active_count()
    portal = Portal("test")
    with pytest.raises(ZeroDivisionError):
        portal.close(fail)
    assert threading.active_count() == before


def test_another_process_cannot_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    portal = Portal("test")
    with monkeypatch.context() as forked:
        forked.setattr(os, "getpid", lambda: -1)
        with pytest.raises(NodeError, match="forked"):
            portal.call(twice, 1)
        portal.close()
    assert portal.call(twice, 1) == 2
    portal.close()


def test_its_end_needs_no_new_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the end of the interpreter there is none, from Python 3.12 on."""
    portal = Portal("left open")
    assert portal.call(asyncio.to_thread, int) == 0

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    portal.close()
    assert not [each for each in threading.enumerate() if "left open" in each.name]
