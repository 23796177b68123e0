"""The handshake, byte for byte, with and without the flag that newer clients send."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kazoo.protocol.serialization import Connect
from tests.format.zookeeper.samples import buffers, ints, longs

from motet.errors import BadFrame
from motet.format.zookeeper.records import (
    ConnectReply,
    ConnectRequest,
    decode_connect_reply,
    decode_connect_request,
    encode_connect_reply,
    encode_connect_request,
    expired_reply,
)

PASSWORD = bytes(range(16))
flags = st.sampled_from([None, False, True])


def test_the_bytes_of_a_handshake_without_the_flag() -> None:
    asked = bytes.fromhex("0000002c 00000000 0000000000000005 00007530 0000000000000007 00000010")
    request = ConnectRequest(0, 5, 30_000, 7, PASSWORD)
    assert encode_connect_request(request) == asked + PASSWORD
    assert decode_connect_request(asked[4:] + PASSWORD) == request
    answered = bytes.fromhex("00000024 00000000 00007530 0000000000000007 00000010")
    assert encode_connect_reply(ConnectReply(30_000, 7, PASSWORD)) == answered + PASSWORD


@pytest.mark.parametrize(("read_only", "request_bytes"), [(None, 44), (False, 45), (True, 45)])
def test_the_answer_has_the_flag_if_the_question_had_it(
    read_only: bool | None, request_bytes: int
) -> None:
    asked = encode_connect_request(ConnectRequest(0, 0, 1, 9, PASSWORD, read_only))[4:]
    assert len(asked) == request_bytes
    expired = expired_reply(decode_connect_request(asked))
    assert len(encode_connect_reply(expired)[4:]) == request_bytes - 8
    assert (expired.timeout_ms, expired.session, expired.password) == (0, 0, bytes(16))


@given(ints, longs, ints, longs, buffers, flags)
def test_requests_survive(
    protocol: int, zxid: int, timeout_ms: int, session: int, password: bytes, flag: bool | None
) -> None:
    request = ConnectRequest(protocol, zxid, timeout_ms, session, password, flag)
    assert decode_connect_request(encode_connect_request(request)[4:]) == request


@given(ints, longs, buffers, flags)
def test_replies_survive(timeout_ms: int, session: int, password: bytes, flag: bool | None) -> None:
    reply = ConnectReply(timeout_ms, session, password, flag)
    assert decode_connect_reply(encode_connect_reply(reply)[4:]) == reply


@given(st.one_of(st.binary(max_size=60), st.binary(max_size=40).map(lambda tail: bytes(24) + tail)))
def test_any_bytes_are_a_handshake_or_a_bad_frame(data: bytes) -> None:
    for decode in (decode_connect_request, decode_connect_reply):
        with contextlib.suppress(BadFrame):
            decode(data)


def test_a_client_does_not_overlook_bytes() -> None:
    reply = encode_connect_reply(ConnectReply(1, 2, PASSWORD, False))[4:]
    with pytest.raises(BadFrame, match="too many"):
        decode_connect_reply(reply + b"\0")


@pytest.mark.parametrize("read_only", [False, True])
def test_kazoo_and_we_understand_each_other(read_only: bool) -> None:
    theirs = bytes(Connect(0, 5, 30_000, 7, PASSWORD, read_only).serialize())
    ours = ConnectRequest(0, 5, 30_000, 7, PASSWORD, read_only)
    assert decode_connect_request(theirs) == ours
    assert encode_connect_request(ours)[4:] == theirs

    for flag in (None, read_only):
        reply = encode_connect_reply(ConnectReply(30_000, 7, PASSWORD, flag))[4:]
        found, end = Connect.deserialize(reply, 0)
        assert found == Connect(0, 0, 30_000, 7, PASSWORD, bool(flag))
        assert end == len(reply)
