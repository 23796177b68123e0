"""Whatever bytes come, in whatever pieces: a connection raises nothing, and ends at most once."""

from __future__ import annotations

import asyncio
import struct

from hypothesis import given
from hypothesis import strategies as st
from tests.node.zookeeper.served import HELLO

from motet.core.keeper.messages import Ask, Connect, FromConnection, Gone
from motet.format.zookeeper.codec import encode_request
from motet.format.zookeeper.four_letter import WORDS
from motet.format.zookeeper.messages import (
    Acl,
    Auth,
    Check,
    Create,
    GetData,
    Multi,
    Ping,
    SetWatches,
)
from motet.ids import Address
from motet.node.zookeeper.connection import ZooKeeperConnection
from motet.real.budgets import ClientBudget


class Wire(asyncio.Transport):
    """Takes what is written, and knows how it was closed."""

    def __init__(self) -> None:
        super().__init__({"socket": self})
        self.closings: list[str] = []
        self.written = b""

    def setsockopt(self, *_: object) -> None:
        pass

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def is_closing(self) -> bool:
        return bool(self.closings)

    def close(self) -> None:
        self.closings.append("close")

    def abort(self) -> None:
        self.closings.append("abort")


class Listener:
    """A server that writes down what it is told."""

    requests_max = 8

    def __init__(self) -> None:
        self.told: list[FromConnection] = []
        self.refusals: list[str] = []
        self.lost_count = 0
        self.asked_bytes = 0
        self.budget = ClientBudget(unsent_bytes_max=1 << 20, unfinished_bytes_max=1 << 20)

    def asked(self, size_bytes: int) -> None:
        self.asked_bytes += size_bytes

    def is_full(self, _connection: ZooKeeperConnection) -> bool:
        return False

    def opened(self, connection: ZooKeeperConnection) -> bool:
        return True

    def lost(self, connection: ZooKeeperConnection) -> None:
        self.lost_count += 1
        self.asked(-connection.asked_bytes)

    def tell(self, connection: ZooKeeperConnection, message: FromConnection) -> None:
        self.told.append(message)

    def answer_word(self, word: bytes) -> bytes:
        return b"answer to " + word

    def refused(self, why: str) -> None:
        self.refusals.append(why)

    def wants_flush(self, connection: ZooKeeperConnection) -> None:
        """Nothing is sent here."""


_ACL = (Acl(31, "world", "anyone"),)
_GOOD = (
    encode_request(1, GetData("/a", True)),
    encode_request(2, Multi((Create("/a", None, _ACL, 3), Check("/b", 1)))),
    encode_request(-2, Ping()),
    encode_request(-4, Auth("digest", b"a:b")),
    encode_request(-8, SetWatches(7, ("/a",), ("/b",), ())),
)


def _framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


@st.composite
def _hurt(draw: st.DrawFn) -> bytes:
    """A good message with some bytes of its payload changed."""
    frame = bytearray(draw(st.sampled_from(_GOOD)))
    for _ in range(draw(st.integers(1, 3))):
        frame[draw(st.integers(4, len(frame) - 1))] = draw(st.integers(0, 255))
    return bytes(frame)


_pieces = st.one_of(
    st.sampled_from(_GOOD),
    st.sampled_from(WORDS),
    _hurt(),
    st.binary(max_size=60).map(_framed),
    st.binary(max_size=40),
)


@given(
    start=st.sampled_from((b"", HELLO, HELLO[:-1])),
    pieces=st.lists(_pieces, max_size=8),
    cuts=st.lists(st.integers(1, 40), max_size=12),
)
def test_any_bytes(start: bytes, pieces: list[bytes], cuts: list[int]) -> None:
    asyncio.run(_feed(start + b"".join(pieces), cuts))


async def _feed(data: bytes, cuts: list[int]) -> None:
    listener, wire = Listener(), Wire()
    one = ZooKeeperConnection(listener, Address("zk/1"), 0)
    one.connection_made(wire)
    for length in (*cuts, len(data)):
        if data and not wire.is_closing():
            one.data_received(data[:length])
            data = data[length:]
    one.connection_lost(None)
    told = [type(message) for message in listener.told]
    assert told in ([], [Connect, *[Ask] * (len(told) - 2), Gone]), "in this order, each once"
    assert listener.lost_count == 1
    assert listener.asked_bytes == listener.budget.unfinished_bytes == 0
    assert wire.closings in ([], ["close"] if wire.written else ["abort"])
    assert len(listener.refusals) == wire.closings.count("abort")
