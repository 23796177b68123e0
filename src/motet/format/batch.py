"""Many small frames in one: what waits together travels together, under one pair of checksums.

Packing and checking frames one by one is most of what a message costs in Python. A batch is a frame
whose body is a list of small frames, encoded and decoded in one call. Large frames and single ones
travel as themselves; order is kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from motet.errors import BadFrame
from motet.format.frame import FRAME_HEADER_BYTES, Frame, FrameKind, encode_frame, frame_header
from motet.limits import batch_bytes_max

MESSAGE_KIND_MIN = 16
"""The first kind that is a message's; the ones below are about the connection."""

_encoded_bytes_max = 2 * batch_bytes_max
"""A batch as its sender may have packed it: names and numbers make small frames a little larger."""

_UNDECODABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Frame]).decode


def encode_batches(frames: Sequence[Frame], size_bytes: int) -> list[bytes]:
    """The bytes of all frames, in batches as large as allowed; on their own they are so many bytes.

    They are in pieces, so that the body of a large frame need not be copied.
    """
    if size_bytes <= batch_bytes_max:
        return [_encode_run(frames)]
    pieces: list[bytes] = []
    start = size_bytes = 0
    for position, frame in enumerate(frames):
        frame_bytes = FRAME_HEADER_BYTES + len(frame.body)
        size_bytes += frame_bytes
        if size_bytes > batch_bytes_max:
            if position > start:
                pieces.append(_encode_run(frames[start:position]))
                start, size_bytes = position, frame_bytes
            if frame_bytes > batch_bytes_max:
                pieces += (frame_header(frame), frame.body)
                start, size_bytes = position + 1, 0
    if start < len(frames):
        pieces.append(_encode_run(frames[start:]))
    return pieces


def decode_batch(data: bytes) -> list[Frame]:
    """The frames in the body of a batch. ``BadFrame`` when it is not one."""
    if len(data) > _encoded_bytes_max:
        raise BadFrame(f"a batch of {len(data)} bytes, at most {_encoded_bytes_max}")
    try:
        return _decode(data)
    except _UNDECODABLE as error:
        raise BadFrame(f"not a batch: {error}") from None


def _encode_run(frames: Sequence[Frame]) -> bytes:
    if len(frames) == 1:
        return encode_frame(frames[0].kind, frames[0].id, frames[0].body)
    return encode_frame(FrameKind.BATCH, 0, _encode(frames))
