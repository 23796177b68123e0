"""The places that cases run in, and how a case that is a coroutine function is run.

A case that asks for ``db`` gets the database of its place, opened in its own event loop and closed behind it.
What happens differently in some place today is in :mod:`tests.behaviour.differences`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.behaviour.differences import difference_of
from tests.behaviour.places import CONNECTED, EMBEDDED, ONE_NODE, PLACES, SYNC_PLACES, Place

import motet
import motet.aio
from motet.aio import Opening
from motet.node.config import ROLES
from motet.testing.local_cluster import LocalCluster


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a case in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = pyfuncitem._fixtureinfo.argnames
    asyncio.run(_run(pyfuncitem.obj, {name: pyfuncitem.funcargs[name] for name in wanted}))
    return True


async def _run(case: Callable[..., Awaitable[None]], arguments: dict[str, Any]) -> None:
    async with AsyncExitStack() as opened:
        for name, value in arguments.items():
            if isinstance(value, Opening):
                arguments[name] = await opened.enter_async_context(value)
        await case(**arguments)


def pytest_itemcollected(item: pytest.Item) -> None:
    """A case that fails in some place today is expected to, with this error and no other."""
    if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
        file = item.path.stem.removeprefix("test_")
        variant = dict(item.callspec.params)
        name = variant.pop("place", variant.pop("sync_place", None))
        case = f"{file}::{item.originalname}"
        names = (file, case, f"{case}[{'-'.join(map(str, variant.values()))}]")
        found = difference_of(names, name)
        if found is not None:
            reason = f"today: {found.happens}; should: {found.should}"
            item.add_marker(pytest.mark.xfail(raises=found.error, reason=reason, strict=True))


# Places


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> Place:
    """Each of the places in turn; ``@pytest.mark.parametrize("place", …, indirect=True)`` chooses some."""
    return _place(request, request.param)


@pytest.fixture(params=SYNC_PLACES)
def sync_place(request: pytest.FixtureRequest) -> Place:
    """The places in which the face without an event loop is shown."""
    return _place(request, request.param)


def _place(request: pytest.FixtureRequest, name: str) -> Place:
    if name == EMBEDDED:
        folder: Path = request.getfixturevalue("tmp_path") / "data"
        return Place(name, lambda: motet.aio.open(folder), lambda: motet.open(folder))
    if name == CONNECTED:
        endpoint: str = request.getfixturevalue("served").endpoint
    else:
        size = "one_node" if name == ONE_NODE else "three_nodes"
        endpoint = request.getfixturevalue(size).endpoints
    return Place(name, lambda: motet.aio.connect(endpoint), lambda: motet.connect(endpoint))


@pytest.fixture
def db(place: Place) -> Opening:
    """The database of the place."""
    return place.open()


@pytest.fixture
def sync_db(sync_place: Place) -> Iterator[motet.Database]:
    """The same without an event loop."""
    with sync_place.open_sync() as database:
        yield database


@pytest.fixture(scope="package")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[motet.Database]:
    """An embedded database that others connect to."""
    with motet.open(tmp_path_factory.mktemp("served")) as database:
        yield database


@pytest.fixture(scope="package")
def one_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    yield from _cluster(tmp_path_factory, 1)


@pytest.fixture(scope="package")
def three_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    yield from _cluster(tmp_path_factory, 3)


def _cluster(folders: pytest.TempPathFactory, nodes: int) -> Iterator[LocalCluster]:
    with LocalCluster(nodes, folders.mktemp(f"nodes-{nodes}"), roles=ROLES) as cluster:
        yield cluster
        for number in range(nodes):
            cluster.kill(number)  # nobody looks at how they end
