"""Where a block of the checkpoint is, and what must be found there.

Who refers to a block says its checksum too. So a block that was written to the wrong place, or not at
all, is noticed by whoever follows the reference: a block alone could only say that it is some block.
"""

from __future__ import annotations

import msgspec

from motet.core.vsr.header import NO_CHECKSUM, Checksum


class BlockRef(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A place in the file of blocks, and the checksum of what belongs there."""

    index: int
    checksum: Checksum


NO_BLOCK = BlockRef(0, NO_CHECKSUM)
"""Refers to nothing: what the root of an empty state is."""
