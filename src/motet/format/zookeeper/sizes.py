"""How large a write may be, and how large it is: counted alike by the keeper, its clients and cores.

A keeper of ours answers a write with one reply of its log, so what a multi may hold follows from the answers
that its operations have if all of them are done. Whoever asks can count them before: nothing depends on what
is in the tree.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from motet.format.zookeeper.jute import INT, PAYLOAD_BYTES_MAX
from motet.format.zookeeper.messages import (
    Acl,
    Check,
    Create,
    Create2,
    Delete,
    Multi,
    SetAcl,
    SetData,
    WriteRequest,
)
from motet.format.zookeeper.records import MULTI_END, MULTI_HEADER, REQUEST_HEADER
from motet.limits import keeper_multi_operations_max, keeper_reply_bytes_default

result_bytes_max = 144
"""A result without its path: a stat of eleven numbers, a zxid, an error, tags and lengths."""

_nothing_bytes_max = 8
_created_bytes_max = 24
"""A result that says nothing, or an error; one that is a path, besides the path as it was asked for."""

_outcome_bytes_max = 32
"""An outcome that says nothing but an error."""

_length_bytes = _int_bytes = INT.size


class WriteLimits(msgspec.Struct, frozen=True):
    """What one keeper takes as one write."""

    #: one reply of its log: ``keeper.request_bytes_max``; None where answers have no limit
    reply_bytes_max: int | None = keeper_reply_bytes_default
    #: a request on the wire, with its length
    request_bytes_max: int = PAYLOAD_BYTES_MAX
    operations_max: int = keeper_multi_operations_max


OURS = WriteLimits()
"""Of a keeper of ours with the sizes as they come."""

ZOOKEEPER = WriteLimits(
    reply_bytes_max=None,
    request_bytes_max=(1 << 20) - 1,  # beyond it the server hangs up without a word
    operations_max=1 << 20,
)


def why_too_large(multi: Multi, limits: WriteLimits) -> str | None:
    """What of a multi exceeds a limit; None if it fits."""
    count = len(multi.operations)
    too_much = f"the multi of {count} operations exceeds the limit of"
    if count > limits.operations_max:
        return f"{too_much} {limits.operations_max} operations"
    if limits.reply_bytes_max is not None:
        reply_bytes = empty_reply_bytes(1) + answer_bytes(multi)
        if reply_bytes > limits.reply_bytes_max:
            return f"{too_much} {limits.reply_bytes_max} bytes for its answers, which take {reply_bytes}"
    request_bytes = multi_bytes(multi)
    if request_bytes > limits.request_bytes_max:
        return f"{too_much} {limits.request_bytes_max} bytes for a request, and has {request_bytes}"
    return None


# The answer


def empty_reply_bytes(count: int) -> int:
    """A reply in which each of so many writes has failed."""
    return _outcome_bytes_max * (count + 1)


def answer_bytes(request: WriteRequest) -> int:
    """How much longer a reply can get by the answer to this write, on top of ``empty_reply_bytes``."""
    if isinstance(request, Multi):
        return sum(map(answer_bytes, request.operations)) + _nothing_bytes_max
    if isinstance(request, Check | Delete):
        return _nothing_bytes_max
    if isinstance(request, Create):
        return _created_bytes_max + path_bytes(request.path)
    if isinstance(request, Create2):
        return result_bytes_max + path_bytes(request.path)
    assert isinstance(request, SetData | SetAcl), "every write has its branch"
    return result_bytes_max


# The request


def multi_bytes(multi: Multi) -> int:
    """How long the request is on the wire; in the log it is no longer."""
    around_bytes = _length_bytes + REQUEST_HEADER.size + len(MULTI_END)
    header_bytes = len(multi.operations) * MULTI_HEADER.size
    return around_bytes + header_bytes + sum(map(_operation_bytes, multi.operations))


def _operation_bytes(operation: Create | Create2 | Delete | SetData | Check) -> int:
    # every operation ends in an int: its version, or its flags
    size_bytes = _length_bytes + path_bytes(operation.path) + _int_bytes
    if isinstance(operation, Create | Create2 | SetData):
        size_bytes += _length_bytes + len(operation.data or b"")
    if isinstance(operation, Create | Create2):
        size_bytes += acls_bytes(operation.acl)
    return size_bytes


def acls_bytes(acls: Sequence[Acl]) -> int:
    """A list of permissions on the wire."""
    named = sum(path_bytes(each.scheme) + path_bytes(each.id) for each in acls)
    return _length_bytes + len(acls) * (_int_bytes + 2 * _length_bytes) + named


def path_bytes(path: str) -> int:
    """A text as it is in a message."""
    return len(path) if path.isascii() else len(path.encode("utf-8", "surrogatepass"))
