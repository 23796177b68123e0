"""Keys and values: the state machine under the keeper.

A request is a batch of calls, and its reply one result for each, in their order. Every value remembers
the op that wrote it, so that a reader can tell a value that came back from one that never left.

Keys live in *pages* by a checksum of the key, which is the same in every process and release. Many
small pages rather than few large ones: what a checkpoint writes is every page that changed, whole, and
changes are spread over all keys.

A reply is no larger than ``reply_bytes_max``, whatever was asked: a batch with too many calls is refused
before its first, and a ``Get`` whose value has no room left is answered ``Omitted``; ask again for those.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Self

import msgspec

from motet.core.vsr.header import OPERATION_MIN
from motet.core.vsr.state_machine import Entry
from motet.errors import BadRecord
from motet.format.checksum import crc32c
from motet.ids import Op

BATCH = OPERATION_MIN
"""The one operation: the body is a batch of calls."""

buckets_default = 1 << 16
"""A million keys make pages of 16."""

_result_bytes_max = 16
"""A result without its value: a tag, an op, the lengths."""


class Put(
    msgspec.Struct, frozen=True, array_like=True, tag=0, gc=False, forbid_unknown_fields=True
):
    """Keep this value under this key."""

    key: bytes
    value: bytes


class Get(
    msgspec.Struct, frozen=True, array_like=True, tag=1, gc=False, forbid_unknown_fields=True
):
    """What is under this key?"""

    key: bytes


class Delete(
    msgspec.Struct, frozen=True, array_like=True, tag=2, gc=False, forbid_unknown_fields=True
):
    """Forget this key; one that is not there is fine too."""

    key: bytes


class Compare(
    msgspec.Struct, frozen=True, array_like=True, tag=3, gc=False, forbid_unknown_fields=True
):
    """Put ``value`` if what is there equals ``expected``; None is a key that is not there."""

    key: bytes
    expected: bytes | None
    value: bytes | None


# Calls refuse fields that they do not know: to skip a foreign value means to descend into it, and how
# deep Python descends is not the same on every replica.
Call = Put | Get | Delete | Compare


class Stored(msgspec.Struct, frozen=True, array_like=True, tag=0, gc=False):
    """Put or deleted by this op."""

    op: Op


class Found(msgspec.Struct, frozen=True, array_like=True, tag=1, gc=False):
    """The value, and the op that wrote it; None and 0 for a key that is not there."""

    value: bytes | None
    op: Op


class Swapped(msgspec.Struct, frozen=True, array_like=True, tag=2, gc=False):
    """Was it as expected, and is it now as asked?"""

    is_swapped: bool


class Omitted(msgspec.Struct, frozen=True, array_like=True, tag=3, gc=False):
    """There is a value, and no room for it in this reply."""


class Refused(msgspec.Struct, frozen=True, array_like=True, tag=4, gc=False):
    """Nothing of the batch was done: the only result of its reply."""

    why: str


Result = Stored | Found | Swapped | Omitted | Refused

_Value = tuple[bytes, Op]
_Page = dict[bytes, _Value]

_encode = msgspec.msgpack.Encoder().encode
_decode_calls = msgspec.msgpack.Decoder(list[Call]).decode
_decode_results = msgspec.msgpack.Decoder(list[Result]).decode
_decode_page = msgspec.msgpack.Decoder(list[tuple[bytes, _Value]]).decode


def encode_calls(calls: Sequence[Call]) -> bytes:
    """The body of a request."""
    return _encode(calls)


def decode_results(body: bytes) -> list[Result]:
    """What a reply's body says; ``BadRecord`` if it is none."""
    try:
        return _decode_results(body)
    except msgspec.MsgspecError as error:
        raise BadRecord("the reply is not a list of results") from error


class KeyValue:
    """The machine. ``buckets`` and ``reply_bytes_max`` must be the same on all replicas, for ever."""

    def __init__(
        self, buckets: int = buckets_default, *, reply_bytes_max: int = 128 * 1024
    ) -> None:
        assert buckets > 0
        assert reply_bytes_max >= 64, "a refusal always fits"
        self._buckets = buckets
        self._reply_bytes_max = reply_bytes_max
        #: page number -> key -> value and the op that wrote it; no page is empty
        self._pages: dict[int, _Page] = {}
        #: page numbers since the last checkpoint; a dict for its order
        self._changed: dict[int, None] = {}

    # Entries

    def apply(self, entry: Entry) -> bytes:
        if entry.operation < OPERATION_MIN:
            return b""  # the protocol's own
        if entry.operation != BATCH:
            return _encode([Refused("no such operation")])
        try:
            calls = _decode_calls(entry.body)
        except msgspec.MsgspecError:
            return _encode([Refused("the body is not a list of calls")])
        room_bytes = self._reply_bytes_max - _result_bytes_max * (len(calls) + 1)
        if room_bytes < 0:
            return _encode([Refused("too many calls for one reply")])
        reply = _encode(self._run(calls, entry.op, room_bytes))
        assert len(reply) <= self._reply_bytes_max
        return reply

    def _run(self, calls: list[Call], op: Op, room_bytes: int) -> list[Result]:
        results: list[Result] = []
        stored, pages, changed, buckets = Stored(op), self._pages, self._changed, self._buckets
        for call in calls:
            if type(call) is Put:
                # What ``_put`` does, without the call: most of what is ever asked comes this way.
                key = call.key
                number = crc32c(key) % buckets
                page = pages.get(number)
                if page is None:
                    pages[number] = {key: (call.value, op)}
                else:
                    page[key] = (call.value, op)
                changed[number] = None
                results.append(stored)
            elif isinstance(call, Get):
                value, written = self._look_up(call.key)
                if value is None or len(value) <= room_bytes:
                    room_bytes -= len(value or b"")
                    results.append(Found(value, written))
                else:
                    results.append(Omitted())
            elif isinstance(call, Compare):
                results.append(Swapped(self._compare(call, op)))
            else:
                assert isinstance(call, Delete)
                self._delete(call.key)
                results.append(stored)
        return results

    def _compare(self, call: Compare, op: Op) -> bool:
        if self._look_up(call.key)[0] != call.expected:
            return False
        if call.value is None:
            self._delete(call.key)
        else:
            self._put(call.key, call.value, op)
        return True

    def _look_up(self, key: bytes) -> tuple[bytes | None, Op]:
        page = self._pages.get(crc32c(key) % self._buckets)
        return (None, Op(0)) if page is None else page.get(key, (None, Op(0)))

    def _put(self, key: bytes, value: bytes, op: Op) -> None:
        number = crc32c(key) % self._buckets
        try:
            self._pages[number][key] = (value, op)
        except KeyError:
            self._pages[number] = {key: (value, op)}
        self._changed[number] = None

    def _delete(self, key: bytes) -> None:
        number = crc32c(key) % self._buckets
        page = self._pages.get(number)
        if page is None or page.pop(key, None) is None:
            return
        if not page:
            del self._pages[number]
        self._changed[number] = None

    # Pages

    def take_changed(self) -> dict[int, bytes | None]:
        changed, self._changed = self._changed, {}
        return {number: self._encode_page(number) for number in changed}

    def _encode_page(self, number: int) -> bytes | None:
        page = self._pages.get(number)
        if page is None:
            return None
        return _encode(sorted(page.items()))  # keys differ, so no two values are ever compared

    def restore(self, pages: Iterable[tuple[int, bytes]]) -> None:
        restored: dict[int, _Page] = {}
        for number, data in pages:
            try:
                items = _decode_page(data)
            except msgspec.MsgspecError as error:
                raise BadRecord(f"page {number} is not a list of keys") from error
            restored[number] = dict(items)
            if not items or any(crc32c(key) % self._buckets != number for key, _ in items):
                raise BadRecord(f"page {number} is empty, or has keys of other pages")
        self._pages, self._changed = restored, {}

    # What a replica and a checker need

    def fingerprint(self) -> bytes:
        digest = hashlib.blake2b(digest_size=16)
        for number in sorted(self._pages):
            digest.update(_encode((number, self._encode_page(number))))
        return digest.digest()

    def clone(self) -> Self:
        twin = type(self)(self._buckets, reply_bytes_max=self._reply_bytes_max)
        twin._pages = {number: dict(page) for number, page in self._pages.items()}
        twin._changed = dict(self._changed)
        return twin
