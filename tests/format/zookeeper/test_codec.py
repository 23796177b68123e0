"""Requests and replies: bytes as the protocol has them, round trips for all, and no harm from any."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.format.zookeeper.samples import (
    A_STAT,
    AN_ACL,
    ints,
    longs,
    multis,
    requests,
    results_of,
    texts,
)

from motet.errors import BadFrame
from motet.format.zookeeper.codec import (
    RESULTS,
    Reply,
    ReplyHeader,
    decode_event,
    decode_reply_header,
    decode_request,
    decode_result,
    encode_event,
    encode_replies,
    encode_reply,
    encode_request,
)
from motet.format.zookeeper.jute import FrameCutter
from motet.format.zookeeper.messages import (
    OPCODES,
    AnyResult,
    Auth,
    Check,
    Children,
    CloseSession,
    Create,
    Created,
    Data,
    Delete,
    ErrorCode,
    EventType,
    Exists,
    Failed,
    GetChildren,
    GetData,
    Multi,
    MultiRead,
    MultiResult,
    Nothing,
    Ping,
    SetData,
    SetWatches,
    StatResult,
    Unknown,
    WatchEvent,
)
from motet.format.zookeeper.records import AUTH_XID, PING_XID, RECORDS, AnyRequest

MULTI = Multi((Check("/a", 3), Create("/b", b"", (), 0), Delete("/c", -1), SetData("/d", b"", 0)))
END = bytes.fromhex("ffffffff 01 ffffffff")
events = st.builds(WatchEvent, ints, texts)


# The bytes


@pytest.mark.parametrize(
    ("xid", "request_", "expected"),
    [
        (1, GetData("/a", True), "0000000f 00000001 00000004 00000002 2f61 01"),
        (2, Delete("/a", -1), "00000012 00000002 00000002 00000002 2f61 ffffffff"),
        (PING_XID, Ping(), "00000008 fffffffe 0000000b"),
        (0x7FFFFFFF, CloseSession(), "00000008 7fffffff fffffff5"),
        (AUTH_XID, Auth("d", b"u"), "00000016 fffffffc 00000064 00000000 00000001 64 00000001 75"),
        (
            3,
            Create("/a", b"x", AN_ACL[:1], 3),
            (
                "00000032 00000003 00000001 00000002 2f61 00000001 78"
                "00000001 0000001f 00000005 776f726c64 00000006 616e796f6e65 00000003"
            ),
        ),
        (
            4,
            Multi((Check("/a", 7),)),
            (
                "00000024 00000004 0000000e 0000000d 00 ffffffff 00000002 2f61 00000007"
                "ffffffff 01 ffffffff"
            ),
        ),
        (
            5,
            MultiRead((GetChildren("/a", False),)),
            "00000021 00000005 00000016 00000008 00 ffffffff 00000002 2f61 00 ffffffff 01 ffffffff",
        ),
        (
            -8,
            SetWatches(9, ("/a",), (), ("/b",)),
            (
                "00000028 fffffff8 00000065 0000000000000009"
                "00000001 00000002 2f61 00000000 00000001 00000002 2f62"
            ),
        ),
    ],
)
def test_the_bytes_of_a_request(xid: int, request_: AnyRequest, expected: str) -> None:
    encoded = encode_request(xid, request_)
    assert encoded.hex() == expected.replace(" ", "")
    assert decode_request(encoded[4:]) == (xid, request_)


@pytest.mark.parametrize(
    ("error", "result", "body"),
    [
        (0, Nothing(), b""),
        (0, Created("/a"), b"\0\0\0\2/a"),
        (0, Data(b"", A_STAT), bytes(4) + struct.pack(">qqqqiiiqiiq", *range(1, 12))),
        (0, Children(("a", "b")), b"\0\0\0\2\0\0\0\1a\0\0\0\1b"),
        (ErrorCode.NO_NODE, Nothing(), b""),
        (ErrorCode.NO_NODE, Failed(ErrorCode.NO_NODE), b""),
        (ErrorCode.BAD_VERSION, StatResult(A_STAT), b""),
    ],
)
def test_the_bytes_of_a_reply(error: int, result: AnyResult, body: bytes) -> None:
    header = struct.pack(">iiqi", 16 + len(body), 7, 1 << 40, error)
    assert encode_reply(7, 1 << 40, error, result) == header + body


def test_an_error_alone_is_the_error_of_its_reply() -> None:
    failed = encode_reply(7, 9, 0, Failed(ErrorCode.NO_NODE))
    assert failed == encode_reply(7, 9, ErrorCode.NO_NODE, Nothing())


def test_the_bytes_of_an_event() -> None:
    expected = bytes.fromhex("0000001e ffffffff ffffffffffffffff 00000000 00000004 00000003")
    event = WatchEvent(EventType.CHILD, "/a")
    assert encode_event(event) == expected + b"\0\0\0\2/a"


def test_the_bytes_of_a_multi_that_went_well() -> None:
    result = MultiResult((Nothing(), Created("/b"), Nothing(), StatResult(A_STAT)))
    stat = struct.pack(">qqqqiiiqiiq", *range(1, 12))
    body = (
        *(bytes.fromhex("0000000d 00 00000000"), b""),
        *(bytes.fromhex("00000001 00 00000000"), b"\0\0\0\2/b"),
        *(bytes.fromhex("00000002 00 00000000"), b""),
        *(bytes.fromhex("00000005 00 00000000"), stat),
    )
    assert encode_reply(7, 9, 0, result, MULTI)[20:] == b"".join(body) + END


def test_the_bytes_of_a_multi_that_failed() -> None:
    codes = (0, ErrorCode.NODE_EXISTS, ErrorCode.RUNTIME_INCONSISTENCY)
    encoded = encode_reply(7, 9, 0, MultiResult(tuple(map(Failed, codes))))
    results = b"".join(struct.pack(">i?ii", -1, False, code, code) for code in codes)
    assert encoded[4:] == struct.pack(">iqi", 7, 9, 0) + results + END


def test_a_read_that_fails_in_a_multi_leaves_the_others_whole() -> None:
    asked = MultiRead((GetData("/a", False), GetChildren("/b", False)))
    result = MultiResult((Failed(ErrorCode.NO_NODE), Children(("c",))))
    encoded = encode_reply(7, 9, 0, result)
    failed = struct.pack(">i?ii", -1, False, -101, -101)
    good = struct.pack(">i?i", 8, False, 0) + b"\0\0\0\1\0\0\0\1c"
    assert encoded[20:] == failed + good + END
    assert decode_result(asked, encoded[4:]) == result


# Round trips


def test_every_operation_has_its_fields_and_its_result() -> None:
    assert {*OPCODES} - {Multi, MultiRead} == {*RESULTS} - {Unknown}
    assert {*OPCODES} - {Multi, MultiRead} <= {*RECORDS}


@given(ints, requests)
def test_requests_survive(xid: int, request_: AnyRequest) -> None:
    assert decode_request(encode_request(xid, request_)[4:]) == (xid, request_)


@given(st.data(), ints, longs, requests)
def test_results_survive(data: st.DataObject, xid: int, zxid: int, request_: AnyRequest) -> None:
    result = data.draw(results_of(request_))
    payload = encode_reply(xid, zxid, 0, result, request_)[4:]
    error = result.error if isinstance(result, Failed) else 0
    assert decode_reply_header(payload) == ReplyHeader(xid, zxid, error)
    assert decode_result(request_, payload) == result


@given(st.data(), multis)
def test_a_multi_is_understood_also_if_its_server_has_forgotten_the_request(
    data: st.DataObject, request_: Multi | MultiRead
) -> None:
    result = data.draw(results_of(request_))
    assert decode_result(request_, encode_reply(1, 2, 0, result)[4:]) == result


@given(events)
def test_events_survive(event: WatchEvent) -> None:
    assert decode_event(encode_event(event)[4:]) == event


@given(st.data(), st.lists(st.one_of(requests, events), max_size=6))
def test_many_replies_are_the_single_ones_in_their_order(
    data: st.DataObject, items: list[AnyRequest | WatchEvent]
) -> None:
    many: list[Reply | WatchEvent] = [
        item
        if isinstance(item, WatchEvent)
        else Reply(xid, 5, 0, data.draw(results_of(item)), item)
        for xid, item in enumerate(items)
    ]
    single = [
        encode_event(one)
        if isinstance(one, WatchEvent)
        else encode_reply(one.xid, one.zxid, one.error, one.result, one.request)
        for one in many
    ]
    assert encode_replies(many) == b"".join(single)
    assert FrameCutter().feed(encode_replies(many)) == [one[4:] for one in single]


# Strangers


def test_an_operation_we_do_not_have_is_named() -> None:
    for opcode in (-12, 0, 10, 16, 102):
        assert decode_request(struct.pack(">ii", 5, opcode) + b"anything") == (5, Unknown(opcode))


@pytest.mark.parametrize("opcode", [-1, 3, 4, 14, 19, 21])
def test_a_multi_with_one_of_those_is_named_by_it(opcode: int) -> None:
    start = encode_request(5, Multi((Check("/a", 1),)))[4 : -len(END)]
    foreign = struct.pack(">i?i", opcode, False, -1) + b"anything"
    assert decode_request(start + foreign) == (5, Unknown(opcode))


@given(requests, st.binary(max_size=8))
def test_what_newer_clients_say_besides_is_left_alone(request_: AnyRequest, more: bytes) -> None:
    assert decode_request(encode_request(5, request_)[4:] + more) == (5, request_)


def test_nothing_at_all_is_read_as_empty_but_for_data() -> None:
    null = b"\xff\xff\xff\xff"
    create = struct.pack(">ii", 5, 1) + null + null + null + bytes(4)
    assert decode_request(create) == (5, Create("", None, (), 0))


def test_any_byte_but_zero_is_a_yes() -> None:
    payload = encode_request(5, Exists("/a", True))[4:-1] + b"\xff"
    assert decode_request(payload) == (5, Exists("/a", True))


# Harm


def value_or_bad_frame(decode: Callable[[], object]) -> None:
    with contextlib.suppress(BadFrame):
        decode()


@given(st.sampled_from([*OPCODES.values()]), st.binary(max_size=80))
def test_any_bytes_are_a_request_or_a_bad_frame(opcode: int, body: bytes) -> None:
    value_or_bad_frame(lambda: decode_request(body))
    value_or_bad_frame(lambda: decode_request(struct.pack(">ii", 1, opcode) + body))


@given(requests, st.binary(max_size=80))
def test_any_bytes_are_a_result_or_a_bad_frame(request_: AnyRequest, body: bytes) -> None:
    value_or_bad_frame(lambda: decode_result(request_, body))
    value_or_bad_frame(lambda: decode_result(request_, bytes(16) + body))
    value_or_bad_frame(lambda: decode_event(body))
    value_or_bad_frame(lambda: decode_event(b"\xff" * 12 + bytes(12) + body))


@given(st.data(), requests)
def test_bytes_changed_on_the_way_are_a_value_or_a_bad_frame(
    data: st.DataObject, request_: AnyRequest
) -> None:
    payload = bytearray(encode_request(1, request_)[4:])
    payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    value_or_bad_frame(lambda: decode_request(bytes(payload)))


@given(st.data(), requests.filter(lambda request_: not isinstance(request_, Unknown)))
def test_a_message_cut_short_is_a_bad_frame(data: st.DataObject, request_: AnyRequest) -> None:
    payload = encode_request(1, request_)[4:]
    cut = payload[: data.draw(st.integers(0, len(payload) - 1))]
    with pytest.raises(BadFrame):
        decode_request(cut)
    reply = encode_reply(1, 2, 0, data.draw(results_of(request_)), request_)[4:]
    for wrong in (reply[: data.draw(st.integers(0, len(reply) - 1))], reply + b"\0"):
        with pytest.raises(BadFrame):
            decode_result(request_, wrong)


@pytest.mark.parametrize(
    "results", [(), (Nothing(),), (Nothing(), Nothing(), Nothing()), (Created("/"), Nothing())]
)
def test_a_multi_with_results_of_something_else_is_a_bad_frame(results: tuple[Nothing]) -> None:
    asked = Multi((Delete("/a", -1), Delete("/b", -1)))
    with pytest.raises(BadFrame):
        decode_result(asked, encode_reply(1, 2, 0, MultiResult(results))[4:])


def test_a_reply_is_no_event() -> None:
    with pytest.raises(BadFrame, match="in the place of an event"):
        decode_event(encode_reply(1, 2, 0, Nothing())[4:])


@pytest.mark.parametrize(
    "request_", [Delete("/a", 2**31), Create("\ud800", b"", (), 0), Unknown(-(2**40))]
)
def test_a_request_that_does_not_fit_is_refused_before_it_is_sent(request_: AnyRequest) -> None:
    with pytest.raises(BadFrame):
        encode_request(1, request_)
