"""Keys and values: the state machine under the keeper.

A request is a batch of calls, and its reply one result for each, in their order. Every value remembers
the op that wrote it, so that a reader can tell a value that came back from one that never left.

A checkpoint keeps them in *pages* by a checksum of the key, which is the same in every process and release.
Many small pages rather than few large ones: what a checkpoint writes is every page that changed, whole, and
changes are spread over all keys. Between two checkpoints nobody asks on which page a key is: which keys
changed is remembered, and their pages are looked up when the next one is taken. Nor are they all encoded
at once then, which would take long enough to be noticed: a page is encoded when it is taken, or, if that
comes first, before one of its keys changes again.

A reply is no larger than ``reply_bytes_max``, whatever was asked: a batch with too many calls is refused
before its first, and a ``Get`` whose value has no room left is answered ``Omitted``; ask again for those.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Self, cast

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
_Keys = dict[bytes, None]
"""A dict for its order."""

_encode = msgspec.msgpack.Encoder().encode
_ONLY_PUTS = {Put}
_decode_calls = msgspec.msgpack.Decoder(list[Call]).decode
_decode_results = msgspec.msgpack.Decoder(list[Result]).decode
_decode_page = msgspec.msgpack.Decoder(list[tuple[bytes, _Value]]).decode


def encode_calls(calls: Sequence[Call]) -> bytes:
    """The body of a request."""
    return _encode(calls)


def join_calls(parts: Sequence[bytes], count: int) -> bytes:
    """One body of several, which have so many calls together."""
    if len(parts) == 1:
        return parts[0]
    return b"".join([_list_start(count), *(part[_start_bytes(part) :] for part in parts)])


def _list_start(count: int) -> bytes:
    """How MessagePack begins a list of so many."""
    if count < 16:
        return bytes((0x90 | count,))
    if count < 1 << 16:
        return b"\xdc" + count.to_bytes(2, "big")
    return b"\xdd" + count.to_bytes(4, "big")


def _start_bytes(body: bytes) -> int:
    """How long the beginning of an encoded list is, before its first item."""
    return {0xDC: 3, 0xDD: 5}.get(body[0], 1)


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
        #: key -> value and the op that wrote it
        self._values: dict[bytes, _Value] = {}
        #: page number -> its keys, as of the last checkpoint; no page is empty
        self._pages: dict[int, _Keys] = {}
        #: keys since the last checkpoint
        self._changed: _Keys = {}
        #: pages of the checkpoint that nobody has taken yet, and those of them that had to be encoded
        self._waiting: dict[int, None] = {}
        self._frozen: dict[int, bytes | None] = {}

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
        stored = Stored(op)
        if {*map(type, calls)} == _ONLY_PUTS:
            # Most of what is ever asked comes this way: no call at a time.
            written = {call.key: (call.value, op) for call in cast("list[Put]", calls)}
            if self._waiting:
                self._freeze(written)
            self._values.update(written)
            self._changed.update(dict.fromkeys(written))
            return [stored] * len(calls)
        results: list[Result] = []
        for call in calls:
            if isinstance(call, Put):
                self._put(call.key, call.value, op)
                results.append(stored)
            elif isinstance(call, Get):
                value, written_by = self._look_up(call.key)
                if value is None or len(value) <= room_bytes:
                    room_bytes -= len(value or b"")
                    results.append(Found(value, written_by))
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
        return self._values.get(key, (None, Op(0)))

    def _put(self, key: bytes, value: bytes, op: Op) -> None:
        if self._waiting:
            self._freeze((key,))
        self._values[key] = (value, op)
        self._changed[key] = None

    def _delete(self, key: bytes) -> None:
        if self._waiting:
            self._freeze((key,))
        if self._values.pop(key, None) is not None:
            self._changed[key] = None

    # Pages

    def take_changed(self) -> dict[int, bytes | None]:
        """All pages that changed, at once."""
        return {number: self.take_page(number) for number in self.begin_pages()}

    def begin_pages(self) -> list[int]:
        assert not self._waiting, "all pages are taken before the next begin"
        assert not self._frozen, "all pages are taken before the next begin"
        changed, self._changed = self._changed, {}
        values, pages, buckets = self._values, self._pages, self._buckets
        touched: dict[int, None] = {}
        for key in changed:
            number = crc32c(key) % buckets
            touched[number] = None
            keys = pages.setdefault(number, {})
            if key in values:
                keys[key] = None
            else:
                keys.pop(key, None)
        self._waiting = touched
        return list(touched)

    def take_page(self, number: int) -> bytes | None:
        if number in self._frozen:
            return self._frozen.pop(number)
        del self._waiting[number]
        return self._encode_page(number)

    def _freeze(self, keys: Iterable[bytes]) -> None:
        """These keys are about to change: what a checkpoint is still to get is how they are now."""
        for key in keys:
            number = crc32c(key) % self._buckets
            if number in self._waiting:
                self._frozen[number] = self.take_page(number)

    def _encode_page(self, number: int) -> bytes | None:
        keys = self._pages[number]
        if not keys:
            del self._pages[number]
            return None
        values = self._values
        return _encode([(key, values[key]) for key in sorted(keys)])

    def restore(self, pages: Iterable[tuple[int, bytes]]) -> None:
        restored: dict[int, _Keys] = {}
        values: dict[bytes, _Value] = {}
        for number, data in pages:
            try:
                items = _decode_page(data)
            except msgspec.MsgspecError as error:
                raise BadRecord(f"page {number} is not a list of keys") from error
            restored[number] = dict.fromkeys(key for key, _ in items)
            values.update(items)
            if not items or any(crc32c(key) % self._buckets != number for key, _ in items):
                raise BadRecord(f"page {number} is empty, or has keys of other pages")
        self._values, self._pages, self._changed = values, restored, {}
        self._waiting, self._frozen = {}, {}

    # What a replica and a checker need

    def fingerprint(self) -> bytes:
        return hashlib.blake2b(_encode(sorted(self._values.items())), digest_size=16).digest()

    def clone(self) -> Self:
        twin = type(self)(self._buckets, reply_bytes_max=self._reply_bytes_max)
        twin._values = dict(self._values)
        twin._pages = {number: dict(keys) for number, keys in self._pages.items()}
        twin._changed = dict(self._changed)
        twin._waiting, twin._frozen = dict(self._waiting), dict(self._frozen)
        return twin
