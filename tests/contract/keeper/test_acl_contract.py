"""Who may do what: ACLs and identities."""

from __future__ import annotations

import base64
import hashlib

import pytest
from tests.contract.keeper.world import World, in_loop, wire

from motet.client.keeper.client import OPEN
from motet.client.keeper.errors import BadVersion, InvalidAcl, NoAuth
from motet.format.zookeeper.messages import Acl

ALL, READ = 31, 1
WHO = "somebody:secret"
DIGEST = "somebody:" + base64.b64encode(hashlib.sha1(WHO.encode()).digest()).decode()
PRIVATE = [Acl(ALL, "digest", DIGEST)]


@in_loop
async def test_a_node_is_open_unless_told_otherwise(world: World) -> None:
    async with world.keeper() as keeper:
        path, stat = await keeper.create2(world.path("node"))
        assert await keeper.get_acl(path) == (OPEN, stat)


@in_loop
async def test_only_who_is_named_may_read_and_write(world: World) -> None:
    async with world.keeper() as keeper, world.keeper() as stranger:
        path = await keeper.create(world.path("node"), b"private", acl=PRIVATE)
        with pytest.raises(NoAuth):
            await keeper.get(path)
        await keeper.add_auth("digest", WHO.encode())
        assert (await keeper.get(path))[0] == b"private"
        assert (await keeper.get_acl(path))[0] == tuple(PRIVATE)
        with pytest.raises(NoAuth):
            await stranger.set(path, b"")
        with pytest.raises(NoAuth):
            await stranger.create(f"{path}/child")


@in_loop
async def test_an_acl_has_a_version_of_its_own(world: World) -> None:
    async with world.keeper() as keeper:
        path = await keeper.create(world.path("node"))
        stat = await keeper.set_acl(path, [Acl(READ, "world", "anyone"), *PRIVATE], version=0)
        assert (stat.aversion, stat.version) == (1, 0)
        with pytest.raises(NoAuth):
            await keeper.set(path, b"")
        await keeper.add_auth("digest", WHO.encode())
        assert (await keeper.set(path, b"")).aversion == 1
        with pytest.raises(BadVersion):
            await keeper.set_acl(path, OPEN, version=0)


@in_loop
async def test_the_scheme_auth_stands_for_whoever_creates_the_node(world: World) -> None:
    async with world.keeper() as keeper:
        mine = [Acl(ALL, "auth", "")]
        with pytest.raises(InvalidAcl):
            await keeper.create(world.path("node"), acl=mine)
        await keeper.add_auth("digest", WHO.encode())
        path = await keeper.create(world.path("node"), acl=mine)
        assert (await keeper.get_acl(path))[0] == tuple(PRIVATE)


@in_loop
async def test_an_acl_that_makes_no_sense_is_refused(world: World) -> None:
    async with world.keeper() as keeper:
        with pytest.raises(InvalidAcl):
            await keeper.create(world.path("node"), acl=[Acl(ALL, "nonsense", "x")])


@in_loop
async def test_an_identity_is_known_over_the_next_connection_too(world: World) -> None:
    async with wire(world) as cable, world.keeper(endpoints=cable.endpoint) as keeper:
        await keeper.add_auth("digest", WHO.encode())
        path = await keeper.create(world.path("node"), b"private", acl=PRIVATE)
        cable.shake()
        assert (await keeper.get(path))[0] == b"private"
