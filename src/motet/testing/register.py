"""A register: values under keys, the smallest state machine that a replica can be tested with.

A request is a batch of calls, its reply one result for each, in their order. A value remembers the op that
wrote it, so that a reader can tell a value that came back from one that never left. All pages of a
checkpoint are encoded when it begins, and those that differ from the last one's are handed out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

import msgspec

from motet.core.vsr.header import OPERATION_MIN
from motet.core.vsr.state_machine import Entry
from motet.errors import BadRecord
from motet.format.checksum import crc32c
from motet.ids import Op

BATCH = OPERATION_MIN
"""The one operation: the body is a batch of calls."""

_pages_max = 8


class _Call(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    key: bytes


class Put(_Call, frozen=True, tag=0):
    """Keep this value under this key."""

    value: bytes


class Get(_Call, frozen=True, tag=1):
    """What is under this key?"""


class Delete(_Call, frozen=True, tag=2):
    """Forget this key; one that is not there is fine too."""


class Compare(_Call, frozen=True, tag=3):
    """Put ``value`` if what is there equals ``expected``; None is a key that is not there."""

    expected: bytes | None
    value: bytes


Call = Put | Get | Delete | Compare


class Stored(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """Put or deleted by this op."""

    op: Op


class Found(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """The value, and the op that wrote it; None and 0 for a key that is not there."""

    value: bytes | None
    op: Op


class Swapped(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Was it as expected, and is it now as asked?"""

    is_swapped: bool


class Refused(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """Nothing of the batch was done: the only result of its reply."""

    why: str


Result = Stored | Found | Swapped | Refused
_Items = list[tuple[bytes, tuple[bytes, Op]]]

_encode = msgspec.msgpack.Encoder().encode
_decode_calls = msgspec.msgpack.Decoder(list[Call]).decode
_decode_page = msgspec.msgpack.Decoder(_Items).decode
encode_calls = _encode
decode_results = msgspec.msgpack.Decoder(list[Result]).decode


class Register:
    """The machine."""

    def __init__(self) -> None:
        #: key -> value and the op that wrote it
        self._values: dict[bytes, tuple[bytes, Op]] = {}
        #: page number -> its content, as of the last checkpoint; no page is empty
        self._pages: dict[int, bytes] = {}

    def apply(self, entry: Entry) -> bytes:
        if entry.operation < OPERATION_MIN:
            return b""  # the protocol's own
        if entry.operation != BATCH:
            return _encode([Refused("no such operation")])
        try:
            calls = _decode_calls(entry.body)
        except msgspec.MsgspecError:
            return _encode([Refused("the body is not a list of calls")])
        return _encode([self._run(call, entry.op) for call in calls])

    def _run(self, call: Call, op: Op) -> Result:
        value, written_by = self._values.get(call.key, (None, Op(0)))
        if isinstance(call, Get):
            return Found(value, written_by)
        if isinstance(call, Compare) and value != call.expected:
            return Swapped(False)
        if isinstance(call, Delete):
            self._values.pop(call.key, None)
        else:
            self._values[call.key] = (call.value, op)
        return Swapped(True) if isinstance(call, Compare) else Stored(op)

    def begin_pages(self) -> list[int]:
        before, self._pages = self._pages, self._encode_pages()
        numbers = sorted({**before, **self._pages})
        return [each for each in numbers if before.get(each) != self._pages.get(each)]

    def take_page(self, number: int) -> bytes | None:
        return self._pages.get(number)

    def _encode_pages(self) -> dict[int, bytes]:
        pages: dict[int, _Items] = {}
        for item in sorted(self._values.items()):
            pages.setdefault(crc32c(item[0]) % _pages_max, []).append(item)
        return {number: _encode(items) for number, items in pages.items()}

    def restore(self, pages: Iterable[tuple[int, bytes]]) -> None:
        found = dict(pages)
        twin = Register()
        try:
            for data in found.values():
                twin._values.update(_decode_page(data))
        except msgspec.MsgspecError as error:
            raise BadRecord("this is no page of a register") from error
        if twin._encode_pages() != found:
            raise BadRecord("these are not the pages of one register")
        self._values, self._pages = twin._values, found

    def fingerprint(self) -> bytes:
        return _encode(sorted(self._values.items()))

    def clone(self) -> Self:
        twin = type(self)()
        twin._values, twin._pages = dict(self._values), dict(self._pages)
        return twin
