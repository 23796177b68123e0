"""The fault atlas: where on which disk damage may strike, so that the cluster can survive all of it.

An operation is committed when a replication quorum has it. So for each place, be it in the log, the replies
or the blocks, one replica less than that quorum is drawn from the seed, and only those may lose it: one good
copy is left, whatever happens. A cluster of one survives no damage, and a cluster of two none of its blocks.

Some damage costs the replica its vote: of the superblock, if a crash comes in the middle of a change, and of
the log to the right of its head, until another leads. Only so many replicas as a view change can do without
are *expendable* and suffer that; the logs of the others are damaged only where they are committed.

Damage goes where there is something to damage: most of a file is room that is not used. The worst that can
be lost is what was acknowledged last, just before a crash; that is what ``newest_slot`` is for.
"""

from __future__ import annotations

from motet.core.vsr.config import VsrConfig
from motet.core.vsr.context import GRID, REPLIES, SUPERBLOCK, WAL, Core
from motet.core.vsr.replies import reply_offset, reply_slot_bytes
from motet.core.vsr.superblock import copies, copy_offset
from motet.core.vsr.wal_layout import WalLayout
from motet.ids import FileName, Op, ReplicaIndex
from motet.sim.dice import Dice

blocks_drawn = 64
"""Blocks beyond these share their replicas with them."""

superblock_used_bytes = 1_500
prepare_used_bytes = 1_024
reply_used_bytes = 256


class Atlas:
    """The draw of one seed."""

    def __init__(self, config: VsrConfig, dice: Dice) -> None:
        self.config = config
        self.layout = WalLayout.of(config)
        replicas = [ReplicaIndex(number) for number in range(config.count)]
        losses = config.quorums.replication - 1
        grid_losses = losses if config.count > 2 else 0
        spared = config.quorums.view_change

        def draw(count: int) -> list[ReplicaIndex]:
            return dice.shuffled(replicas)[:count]

        #: [n] may lose slots 2n and 2n + 1: their headers are in one sector
        self.wal = [draw(losses) for _ in range((config.slots + 1) // 2)]
        self.replies = [draw(losses) for _ in range(config.clients_max)]
        self.blocks = [draw(grid_losses) for _ in range(blocks_drawn)]
        #: may lose their vote -> the copy of their superblock that may be lost
        self.expendable = {
            replica: dice.between(0, copies - 1) for replica in draw(config.count - spared)
        }

    @property
    def permits_damage(self) -> bool:
        return self.config.count > 1

    def disk_of(self, replica: ReplicaIndex) -> ReplicaDamage:
        return ReplicaDamage(self, replica)


class ReplicaDamage:
    """The page of the atlas for one replica: what its disk asks before it is damaged."""

    def __init__(self, atlas: Atlas, replica: ReplicaIndex) -> None:
        self._atlas = atlas
        #: the replica as it was last seen; the one before, while a new one starts
        self.core: Core | None = None
        #: while set, damage goes there
        self.aim: int | None = None
        self._layout = atlas.layout
        pairs = [n for n, drawn in enumerate(atlas.wal) if replica in drawn]
        self._slots = [slot for n in pairs for slot in (2 * n, 2 * n + 1)]
        self._slots = [slot for slot in self._slots if slot < atlas.config.slots]
        self._replies = [n for n, drawn in enumerate(atlas.replies) if replica in drawn]
        self._blocks = [n for n, drawn in enumerate(atlas.blocks) if replica in drawn]
        self._copy = atlas.expendable.get(replica)
        #: blocks that were damaged here at least once: checkers do not look at them
        self.damaged_blocks: dict[int, None] = {}

    def spot(self, dice: Dice, /) -> tuple[FileName, int] | None:
        """A byte of this replica's disk to rot."""
        if self.aim is not None:
            return WAL, self._layout.prepare_offset(self.aim)
        kinds = [self._header, self._prepare, self._prepare, self._reply, self._block]
        return dice.pick([*kinds, self._superblock])(dice)

    def may_fail(self, file: FileName, offset: int, size_bytes: int, /) -> bool:
        """Is all of it among what may be lost?"""
        if file == GRID:
            index, rest = divmod(offset, self._atlas.config.block_bytes)
            fits = rest + size_bytes <= self._atlas.config.block_bytes
            return fits and index % blocks_drawn in self._blocks
        if file == REPLIES:
            slot_bytes = reply_slot_bytes(self._atlas.config)
            slot, rest = divmod(offset, slot_bytes)
            return rest + size_bytes <= slot_bytes and slot in self._replies
        if file == WAL and offset >= self._layout.prepares_offset:
            slot, rest = divmod(offset - self._layout.prepares_offset, self._layout.slot_bytes)
            return rest + size_bytes <= self._layout.slot_bytes and slot in self._slots
        return False

    def _header(self, dice: Dice) -> tuple[FileName, int] | None:
        slot = self._slot(dice)
        if slot is None:
            return None
        return WAL, self._layout.header_offset(slot) + dice.between(0, 200)

    def _prepare(self, dice: Dice) -> tuple[FileName, int] | None:
        slot = self._slot(dice)
        if slot is None:
            return None
        return WAL, self._layout.prepare_offset(slot) + dice.between(0, prepare_used_bytes - 1)

    def _slot(self, dice: Dice) -> int | None:
        slots = self._slots
        if self._copy is None:
            core = self.core
            if core is None:
                return None
            committed = range(core.checkpoint_op + 1, core.state.commit_min)
            within = [op % self._layout.slots for op in committed]
            # Two headers are in one sector, and both must be well below the head.
            slots = [slot for slot in slots if slot in within and slot ^ 1 in within]
        return dice.pick(slots) if slots else None

    def newest_slot(self, dice: Dice) -> int | None:
        """A slot whose prepare was on disk when the replica was last seen, and the one above it too."""
        if self.core is None:
            return None
        state = self.core.state
        newest = range(max(state.commit_min, state.op - self._atlas.config.pipeline_max), state.op)
        found = [
            op % self._layout.slots
            for op in newest
            if state.journal.is_clean(Op(op)) and state.journal.is_clean(Op(op + 1))
        ]
        slots = [slot for slot in found if slot in self._slots]
        return dice.pick(slots) if slots else None

    def _reply(self, dice: Dice) -> tuple[FileName, int] | None:
        if not self._replies:
            return None
        offset = reply_offset(self._atlas.config, dice.pick(self._replies))
        return REPLIES, offset + dice.between(0, reply_used_bytes - 1)

    def _block(self, dice: Dice) -> tuple[FileName, int] | None:
        if not self._blocks:
            return None
        index = dice.pick(self._blocks)
        block_bytes = self._atlas.config.block_bytes
        self.damaged_blocks[index] = None
        return GRID, index * block_bytes + dice.between(0, block_bytes - 1)

    def _superblock(self, dice: Dice) -> tuple[FileName, int] | None:
        if self._copy is None:
            return None
        return SUPERBLOCK, copy_offset(self._copy) + dice.between(0, superblock_used_bytes - 1)
