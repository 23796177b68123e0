"""The one checksum of frames and journal records: CRC-32C, the Castagnoli polynomial S3 uses too.

It finds every burst of damage up to 32 bits and, in anything up to a few hundred bytes, every handful
of flipped bits; it is no defence against somebody who wants to be believed. Everything imports it from
here, bound once, so that a hot loop calls straight into C.
"""

from __future__ import annotations

from collections.abc import Callable

import google_crc32c

crc32c: Callable[[bytes], int] = google_crc32c.value
"""The checksum of the whole of ``data`` as an unsigned 32-bit number."""

crc32c_more: Callable[[int, bytes], int] = google_crc32c.extend
"""The checksum of bytes whose start has this one, from the rest of them."""
