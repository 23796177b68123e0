"""Many small frames in one: what waits together travels together, under one pair of checksums.

Packing and checking frames one by one is most of what a message costs in Python. A batch is a frame
whose body is a list of small frames, encoded and decoded in one call. Large frames and single ones
travel as themselves; order is kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from motet.errors import BadFrame
from motet.format.frame import FRAME_HEADER_BYTES, Frame, encode_frame
from motet.limits import KIB

BATCH_KIND = 2
"""The frame kind of a batch, one of those that are about the connection."""

MESSAGE_KIND_MIN = 16
MESSAGE_KIND_MAX = 255
"""The kinds that are a message's; the others are not for the inside of a batch."""

batch_bytes_max = 64 * KIB
"""Frames in one batch. Nothing of a batch is seen before its last byte, so it must not take long."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Frame]).decode


def encode_batches(frames: Sequence[Frame], size_bytes: int) -> bytes:
    """The bytes of all frames, in batches as large as allowed; on their own they are so many bytes."""
    if size_bytes <= batch_bytes_max:
        return _encode_run(frames)
    runs: list[bytes] = []
    start = size_bytes = 0
    for position, frame in enumerate(frames):
        frame_bytes = FRAME_HEADER_BYTES + len(frame.body)
        size_bytes += frame_bytes
        if size_bytes > batch_bytes_max and position > start:
            runs.append(_encode_run(frames[start:position]))
            start, size_bytes = position, frame_bytes
    runs.append(_encode_run(frames[start:]))
    return runs[0] if len(runs) == 1 else b"".join(runs)


def decode_batch(data: bytes) -> list[Frame]:
    """The frames in the body of a batch. ``BadFrame`` when it is not one."""
    try:
        frames = _decode(data)
    except msgspec.MsgspecError as error:
        raise BadFrame(f"not a batch: {error}") from None
    kinds = [frame.kind for frame in frames] or [MESSAGE_KIND_MIN]
    if min(kinds) < MESSAGE_KIND_MIN or max(kinds) > MESSAGE_KIND_MAX:
        raise BadFrame(f"kinds from {min(kinds)} to {max(kinds)} in a batch")
    if min([frame.id for frame in frames], default=0) < 0:
        raise BadFrame("a negative id in a batch")
    return frames


def _encode_run(frames: Sequence[Frame]) -> bytes:
    if len(frames) == 1:
        return encode_frame(frames[0].kind, frames[0].id, frames[0].body)
    return encode_frame(BATCH_KIND, 0, _encode(frames))
