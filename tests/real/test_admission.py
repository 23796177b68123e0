"""Who is admitted as a node, and who takes the place of whom: with a cluster key and without one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.real.tcp import HOST, Endpoint, Line, Play, frame, until

from motet.errors import BadConfig
from motet.format.frame import Frame, FrameKind
from motet.ids import Address
from motet.real import admission
from motet.real.connection import Connection
from motet.real.hello import (
    PROTOCOL_VERSION,
    ClusterKey,
    Hello,
    Refusal,
    decode_hello,
    fresh_nonce,
    is_proof,
    make_proof,
)

KEY = ClusterKey("a key of this test's own")
OTHER_KEY = ClusterKey("a key of another cluster")


async def closed_with(server: Endpoint, line: Line, why: Refusal) -> None:
    await line.closed()
    await until(lambda: why in server.refusals)


async def know_each_other(one: Endpoint, other: Endpoint) -> None:
    """Each has sent the other a frame over what is there then."""
    one.network.add_peer(other.address, (HOST, other.network.port))
    other.network.add_peer(one.address, (HOST, one.network.port))
    await one.send_until_received(other, frame(1))
    await other.send_until_received(one, frame(2))


# With a key


def test_nodes_with_the_same_key_admit_each_other(play: Play) -> None:
    async def main() -> None:
        async with (
            Endpoint("n1", key=KEY, incarnation=1) as n1,
            Endpoint("n2", key=KEY, incarnation=2) as n2,
        ):
            await know_each_other(n1, n2)
            assert n1.refusals == n2.refusals == []

    play(main())


def test_a_client_needs_no_key(play: Play) -> None:
    async def main() -> None:
        async with Endpoint("n1", key=KEY) as server, server.client() as client:
            client.network.send(server.address, frame(1))
            client.network.flush()
            (delivery,) = await server.receive(1)
            assert delivery.sender == "client-1"
            server.network.send(delivery.sender, frame(2))
            server.network.flush()
            assert [one.frame.id for one in await client.receive(1)] == [2]

    play(main())


@pytest.mark.parametrize(
    ("one_key", "other_key"), [(KEY, OTHER_KEY), (KEY, None), (None, KEY)], ids=str
)
def test_nodes_that_do_not_share_a_key_refuse_each_other(
    play: Play, one_key: ClusterKey | None, other_key: ClusterKey | None
) -> None:
    async def main() -> None:
        async with Endpoint("n1", key=one_key) as n1, Endpoint("n2", key=other_key) as n2:
            n1.network.add_peer(n2.address, (HOST, n2.network.port))
            n1.network.send(n2.address, frame(1))
            n1.network.flush()
            await until(lambda: n1.dials_failed() > 0)
            await until(lambda: Refusal.UNPROVEN in n1.refusals + n2.refusals)
            assert n2.network.take(10) == []

    play(main())


def test_silent_impostors_get_nothing_of_what_is_said_to_a_node(play: Play) -> None:
    async def main() -> None:
        async with (
            Endpoint("n1", key=KEY, incarnation=1) as n1,
            Endpoint("n2", key=KEY, incarnation=2) as n2,
            Line(n1) as mute,
            Line(n1) as without_proof,
            Line(n1) as liar,
        ):
            await know_each_other(n1, n2)
            nonce = fresh_nonce()
            mute.write(Line.hello(address="n2", incarnation=9))
            await closed_with(n1, mute, Refusal.UNPROVEN)
            without_proof.write(Line.hello(address="n2", incarnation=9, nonce=nonce))
            without_proof.write(Line.framed(frame(66)))
            await closed_with(n1, without_proof, Refusal.UNPROVEN)
            liar.write(Line.hello(address="n2", incarnation=9, nonce=nonce) + Line.proof(b"?" * 32))
            await closed_with(n1, liar, Refusal.UNPROVEN)
            assert n1.network.take(10) == []
            await n1.send_until_received(n2, frame(3))
            assert n1.refusals == [Refusal.UNPROVEN] * 3

    play(main())


def test_a_proof_is_worth_nothing_on_another_connection_nor_sent_back(play: Play) -> None:
    async def main() -> None:
        async with (
            Endpoint("n1", key=KEY, incarnation=1) as server,
            Line(server) as honest,
            Line(server) as replaying,
            Line(server) as mirror,
        ):
            greeting = decode_hello(await honest.read_frame())
            assert greeting is not None
            nonce = fresh_nonce()
            ours = Hello(PROTOCOL_VERSION, greeting.cluster, "n2", (), 5, nonce)
            hello = Line.hello(address="n2", incarnation=5, nonce=nonce)
            proof = Line.proof(make_proof(KEY, ours, greeting, dialed=True))
            honest.write(hello + proof + Line.framed(frame(1)))
            assert [one.sender for one in await server.receive(1)] == ["n2"]

            replaying.write(hello + proof + Line.framed(frame(2)))
            await closed_with(server, replaying, Refusal.UNPROVEN)

            theirs = decode_hello(await mirror.read_frame())
            assert theirs is not None
            # the claims of the server itself, but for the id, and its own proof of them
            mirror.write(Line.hello(address="n2", incarnation=1, nonce=theirs.nonce))
            shown = await mirror.read_frame()
            mirror.write(Line.proof(shown.body))
            await mirror.closed()
            await until(lambda: server.refusals == [Refusal.UNPROVEN] * 2)
            assert server.network.take(10) == []

    play(main())


def test_a_proof_is_of_one_claim() -> None:
    maker = Hello(1, "c", "n1", (), 7, fresh_nonce())
    other = Hello(1, "c", "n2", (), 8, fresh_nonce())
    proof = make_proof(KEY, maker, other, dialed=True)
    assert is_proof(KEY, proof, maker, other, dialed=True)
    assert not is_proof(OTHER_KEY, proof, maker, other, dialed=True)
    assert not is_proof(KEY, proof, maker, other, dialed=False)
    assert not is_proof(KEY, proof, other, maker, dialed=True)
    changes: list[dict[str, Any]] = [
        {"address": "n3"},
        {"cluster": "d"},
        {"incarnation": 9},
        {"nonce": fresh_nonce()},
        {"nonce": b""},
    ]
    for change in changes:
        changed = Hello(**{**{f: getattr(maker, f) for f in maker.__struct_fields__}, **change})
        assert not is_proof(KEY, proof, changed, other, dialed=True), change
    assert "this test" not in repr(KEY)


def test_a_key_is_not_short() -> None:
    with pytest.raises(BadConfig) as refused:
        ClusterKey("hunter2")
    assert "hunter2" not in str(refused.value)


def test_a_node_that_is_in_no_configuration_is_refused_even_if_it_knows_the_key(play: Play) -> None:
    async def main() -> None:
        nodes = {Address("n2"): (HOST, 1)}
        async with (
            Endpoint("n1", key=KEY, peers=nodes, peers_only=True) as server,
            Line(server) as listed,
            Line(server) as unlisted,
            server.client() as client,
        ):
            await listed.introduce("n2", KEY, 1)
            listed.write(Line.framed(frame(1)))
            assert [one.sender for one in await server.receive(1)] == ["n2"]
            unlisted.write(Line.hello(address="front", incarnation=1, nonce=fresh_nonce()))
            await closed_with(server, unlisted, Refusal.WRONG_ADDRESS)
            client.network.send(server.address, frame(2))
            client.network.flush()
            assert [one.frame.id for one in await server.receive(1)] == [2]

    play(main())


# Without a key


def test_without_a_key_a_second_connection_does_not_take_over(play: Play) -> None:
    async def main() -> None:
        async with (
            Endpoint("n1") as n1,
            Endpoint("n2") as n2,
            Line(n1) as first,
            Line(n1) as second,
        ):
            await know_each_other(n1, n2)
            for line in (first, second):
                line.write(Line.hello(address="n2", incarnation=1 << 60))
            # n1 has at most one connection that n2 dialed. Whoever is admitted besides it gets nothing.
            await until(lambda: Refusal.DUPLICATE in n1.refusals)
            for number in range(3, 8):
                await n1.send_until_received(n2, frame(number))
            assert Refusal.REPLACED not in n1.refusals

    play(main())


def test_without_a_key_a_node_that_only_dials_us_is_not_displaced(play: Play) -> None:
    async def main() -> None:
        async with Endpoint("n1") as server, Line(server) as first, Line(server) as second:
            first.write(Line.hello(address="n9") + Line.framed(frame(1)))
            await server.receive(1)
            second.write(Line.hello(address="n9", incarnation=9) + Line.framed(frame(2)))
            await closed_with(server, second, Refusal.DUPLICATE)
            server.network.send(Address("n9"), frame(3))
            server.network.flush()
            await first.read_frame()
            assert await first.read_frame() == frame(3)
            assert server.network.take(10) == []

    play(main())


def test_without_a_key_nodes_are_on_this_machine(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "is_loopback", lambda _connection: False)

    async def main() -> None:
        async with Endpoint("n1") as server, Line(server) as node, server.client() as client:
            node.write(Line.hello(address="n9") + Line.framed(frame(1)))
            await closed_with(server, node, Refusal.NOT_LOOPBACK)
            client.network.send(server.address, frame(2))
            client.network.flush()
            assert [one.frame.id for one in await server.receive(1)] == [2]

    play(main())


@pytest.mark.parametrize(
    ("host", "is_here"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("10.0.0.7", False),
        ("::ffff:10.0.0.7", False),
        ("fe80::1%eth0", False),
        ("", False),
    ],
)
def test_which_addresses_are_on_this_machine(host: str, is_here: bool) -> None:
    transport = SimpleNamespace(get_extra_info=lambda _name: (host, 4711))
    connection = cast("Connection", SimpleNamespace(transport=transport))
    assert admission.is_loopback(connection) is is_here


def test_a_client_cannot_probe(play: Play) -> None:
    async def main() -> None:
        async with Endpoint("n1") as server, Line(server) as client:
            client.write(Line.hello() + Line.framed(Frame(FrameKind.PROBE, 0, b"x")))
            await closed_with(server, client, Refusal.BAD_FRAME)

    play(main())
