"""Standing for election: an operator does not wait for what former processes of its node have left."""

from __future__ import annotations

import asyncio
from typing import NoReturn, cast

from motet.client.keeper.client import KeeperClient
from motet.client.keeper.watches import Watch
from motet.core.keeper.acl import NODES_ACL
from motet.core.machine import Message
from motet.core.metadata.messages import Elected, Stand, Standing
from motet.core.metadata.paths import OPERATORS
from motet.ids import RequestId, SessionId
from motet.node.metadata_port import MetadataPort


class Entries:
    """The entries of operators, in the order in which they were made; those of dead sessions stay."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)

    async def create(
        self, path: str, _data: bytes, *, acl: object, ephemeral: bool, sequential: bool
    ) -> str:
        assert acl == NODES_ACL
        assert ephemeral
        assert sequential
        self.names.append(f"{path.rpartition('/')[2]}{len(self.names):010}")
        return f"{OPERATORS}/{self.names[-1]}"

    async def ensure_path(self, path: str, *, acl: object) -> None:
        assert (path, acl) == (OPERATORS, NODES_ACL)

    async def children(self, path: str) -> list[str]:
        assert path == OPERATORS
        return list(self.names)

    async def exists(self, path: str, _watch: Watch) -> object:
        return object() if path.rpartition("/")[2] in self.names else None

    async def delete(self, path: str) -> None:
        self.names.remove(path.rpartition("/")[2])


async def elected_within_a_moment(entries: Entries) -> bool:
    """Whether n0 is elected without anything more happening in the keeper."""
    told: list[Message] = []
    port = MetadataPort(no_session, acl=NODES_ACL)
    port._tell = told.append
    stand = Stand(RequestId(1), SessionId(1), OPERATORS, "n0")
    running = asyncio.ensure_future(port._stand(cast("KeeperClient", entries), stand))
    for _ in range(50):  # nothing in here waits for time
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert [type(each) for each in told][:1] == [Standing]
    return [type(each) for each in told][1:] == [Elected]


def no_session() -> NoReturn:
    raise AssertionError("it has one")


def test_entries_of_former_processes_of_the_same_node_are_removed() -> None:
    entries = Entries("n0-0000000000", "n0-0000000001")
    assert asyncio.run(elected_within_a_moment(entries))
    assert entries.names == ["n0-0000000002"]


def test_entries_of_other_nodes_stay() -> None:
    entries = Entries("n1-0000000000", "n0-0000000001", "n00-0000000002")
    assert not asyncio.run(elected_within_a_moment(entries))
    assert entries.names == ["n1-0000000000", "n00-0000000002", "n0-0000000003"]
