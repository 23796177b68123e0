"""Texts that carry something from one process to another: a prefix with a version, a checksum, the fields.

Letters, digits, dots, dashes and underscores; a text of which a single character was changed is refused.
"""

from __future__ import annotations

import base64
import binascii

from motet.errors import BadInput
from motet.format.checksum import crc32c

CHECKSUM_BYTES = 4
text_length_max = 1 << 20


def printable(prefix: str, body: bytes) -> str:
    """Bytes as text."""
    data = crc32c(body).to_bytes(CHECKSUM_BYTES, "little") + body
    return prefix + base64.urlsafe_b64encode(data).decode().rstrip("=")


def unprintable(prefix: str, text: object, what: str, error: type[BadInput]) -> bytes:
    """The bytes of a text; this error when it is not ``what`` it should be."""
    if not isinstance(text, str) or not text.startswith(prefix) or len(text) > text_length_max:
        raise error(f"{shown(text)} is not {what}")
    digits = text.removeprefix(prefix)
    try:
        data = base64.b64decode(digits + "=" * (-len(digits) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise error(f"{shown(text)} is garbled") from None
    body = data[CHECKSUM_BYTES:]
    if crc32c(body).to_bytes(CHECKSUM_BYTES, "little") != data[:CHECKSUM_BYTES]:
        raise error(f"{shown(text)} is garbled: its checksum is wrong")
    if printable(prefix, body) != text:
        raise error(f"{shown(text)} is garbled")
    return body


def shown(text: object) -> str:
    """A text that was given to us, for an error."""
    whole = repr(text)
    return whole if len(whole) <= 60 else whole[:60] + "…"
