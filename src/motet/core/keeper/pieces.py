"""Writes that are larger than a request: they travel in pieces, and are done when the last one is there.

The log has room for requests of a bounded size, all of it set aside from the start; a node may hold sixteen
times as much. So a large write is cut up, and what has come of it is kept with its session.

P1  The pieces of one write come in their order, one write at a time. A piece that is not the next one, or is
    one too many, is refused, and what was kept is dropped.
P2  Pieces belong to a generation: attaching the session again drops them, for nobody will send the rest.
P3  What they make together is a batch of one write of the same session and generation, or it is not done.
"""

from __future__ import annotations

from motet.core.keeper.config import KeeperConfig
from motet.core.keeper.operations import Piece, Write, decode_batch, encode_batch
from motet.core.keeper.sessions import Session

piece_overhead_bytes = 64
"""A request around the data of its only piece."""


def split(write: Write, request_bytes_max: int) -> list[Piece]:
    """The pieces of a write, each of which fits into a request."""
    room_bytes = request_bytes_max - piece_overhead_bytes
    assert room_bytes > 0
    body = encode_batch([write])
    starts = range(0, len(body), room_bytes)
    return [
        Piece(
            write.session,
            write.generation,
            number,
            start + room_bytes >= len(body),
            body[start : start + room_bytes],
        )
        for number, start in enumerate(starts)
    ]


def add_piece(config: KeeperConfig, session: Session, piece: Piece) -> bool:
    """Keep a piece; False if it is not the next one (P1)."""
    kept = session.pieces if piece.number else ()
    size_bytes = sum(map(len, kept)) + len(piece.data)
    is_next = piece.number == len(kept) and bool(piece.data)
    if not is_next or size_bytes > config.write_bytes_max:
        session.pieces = ()
        return False
    session.pieces = (*kept, piece.data)
    return True


def take_write(session: Session) -> Write | None:
    """What the pieces make together; None if that is no write of this session (P3). They are gone then."""
    body, session.pieces = b"".join(session.pieces), ()
    batch = decode_batch(body)
    if batch is None or len(batch) != 1 or not isinstance(batch[0], Write):
        return None
    write = batch[0]
    is_own = (write.session, write.generation) == (session.id, session.generation)
    return write if is_own else None
