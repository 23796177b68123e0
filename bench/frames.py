"""What a frame costs: nanoseconds to encode and to decode one, with a body of 232 bytes.

64 frames of 256 bytes to a chunk, as they arrive when a turn of the loop brings many. The raw limit
beside it, in the same run, is the least any protocol does: a length of four bytes in front of each body,
one slice to cut it out again, and nothing checked.

    python bench/frames.py [--quick] [--json]
"""

from __future__ import annotations

import argparse
import json
import struct
import time
from collections.abc import Callable

from motet.format.frame import FRAME_HEADER_BYTES, Frame, FrameDecoder, encode_frame, encode_frames

DECODE_NS_MAX = 1_600
ENCODE_NS_MAX = 1_200
CHUNK_FRAMES = 64
BODY = bytes(range(256 - FRAME_HEADER_BYTES))
FRAMES = [Frame(16, number, BODY) for number in range(CHUNK_FRAMES)]
CHUNK = encode_frames(FRAMES)

_length = struct.Struct("<I")
BARE_CHUNK = (_length.pack(len(BODY)) + BODY) * CHUNK_FRAMES


def bare_encode() -> list[bytes]:
    pack = _length.pack
    return [pack(len(frame.body)) + frame.body for frame in FRAMES]


def bare_decode() -> list[bytes]:
    bodies, position = [], 0
    unpack, data = _length.unpack_from, BARE_CHUNK
    while position < len(data):
        (body_bytes,) = unpack(data, position)
        start = position + 4
        position = start + body_bytes
        bodies.append(data[start:position])
    return bodies


def encode_each() -> list[bytes]:
    return [encode_frame(frame.kind, frame.id, frame.body) for frame in FRAMES]


def ns_per_frame(work: Callable[[], object], chunks: int) -> float:
    """CPU time of this process, so that neighbours on the machine count as little as possible."""
    began = time.process_time_ns()
    for _ in range(chunks):
        work()
    return (time.process_time_ns() - began) / chunks / CHUNK_FRAMES


def measure(rounds: int, chunks: int) -> dict[str, float]:
    """The best of some rounds; within a round all take turns, so they meet the same machine."""
    decoder = FrameDecoder()
    works: dict[str, Callable[[], object]] = {
        "decode_ns": lambda: decoder.feed(CHUNK),
        "bare_decode_ns": bare_decode,
        "encode_ns": encode_each,
        "encode_batch_ns": lambda: encode_frames(FRAMES),
        "bare_encode_ns": bare_encode,
    }
    taken = [{n: ns_per_frame(work, chunks) for n, work in works.items()} for _ in range(rounds)]
    return {name: min(round_[name] for round_ in taken) for name in works}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = measure(5, 200) if options.quick else measure(15, 1_000)
    figures["decode_ratio_to_bare"] = figures["decode_ns"] / figures["bare_decode_ns"]
    figures["encode_ratio_to_bare"] = figures["encode_ns"] / figures["bare_encode_ns"]
    figures["decode_ratio_to_required"] = DECODE_NS_MAX / figures["decode_ns"]
    figures["encode_ratio_to_required"] = ENCODE_NS_MAX / figures["encode_ns"]
    if options.json:
        print(json.dumps({"bench": "frames", **figures}))
        return
    for name, figure in figures.items():
        print(f"{name:<26} {figure:>10,.2f}")


if __name__ == "__main__":
    main()
