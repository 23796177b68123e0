"""Checkpoints share what did not change, and replicas with one history write the same bytes."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from motet.core.vsr.block_ref import NO_BLOCK, BlockRef
from motet.core.vsr.checkpoint import Building, PageTable, begin_build, build_more, chunk_pages
from motet.core.vsr.config import VsrConfig
from motet.core.vsr.grid import BlockAllocator, decode_block, restored_allocator
from motet.core.vsr.restore import begin_restore
from motet.ids import Address, ClusterId

Changes = dict[int, bytes | None]

PAGE_NUMBERS = st.sampled_from([0, 1, 5, chunk_pages - 1, chunk_pages, 3 * chunk_pages + 7])
PAGES = st.one_of(st.none(), st.binary(max_size=12), st.integers(1, 3).map(lambda n: bytes(90 * n)))
CHECKPOINTS = st.tuples(st.dictionaries(PAGE_NUMBERS, PAGES, max_size=5), st.binary(max_size=300))


CLUSTER = VsrConfig(ClusterId(1), (Address("n1"),))
SMALL = msgspec.structs.replace(CLUSTER, block_bytes=128)
#: in a block of 512 bytes a chunk has room for a few short pages
CONFIGS = st.sampled_from([SMALL, msgspec.structs.replace(CLUSTER, block_bytes=512)])


class Replica:
    """A table, an allocator, a disk, and the root that a superblock would name."""

    def __init__(self, config: VsrConfig = SMALL, *, blocks_at_once: int = 1_000) -> None:
        self.config = config
        self.blocks_at_once = blocks_at_once
        self.table, self.allocator = PageTable(), BlockAllocator()
        self.disk: dict[int, bytes] = {}
        self.root = NO_BLOCK

    def build(self, changed: Changes, extra: bytes = b"") -> Building:
        building = begin_build(self.config, self.allocator, changed, extra)
        left = dict(changed)
        while building.root is None:
            build_more(
                self.config,
                self.table,
                self.allocator,
                building,
                left.pop,
                self.blocks_at_once,
            )
        assert not left, "each page that changed is taken once"
        return building

    def checkpoint(self, changed: Changes, extra: bytes = b"") -> Building:
        built = self.build(changed, extra)
        self.disk.update(built.writes)
        assert built.root is not None
        self.root = built.root
        self.allocator.checkpoint_durable()
        return built

    def restart(self) -> tuple[dict[int, bytes], bytes]:
        restore = begin_restore(self.config, self.root)
        while not restore.is_done:
            for ref in restore.wanted(3):
                assert restore.give(ref, self.disk[ref.index])
        pages, extra, self.table = restore.result()
        self.allocator = restored_allocator(self.table.refs())
        return dict(pages), extra


@settings(deadline=None)
@given(
    CONFIGS, st.lists(st.tuples(CHECKPOINTS, st.sampled_from(["", "restart", "crash"])), max_size=7)
)
def test_a_replica_that_crashes_all_the_time_writes_what_one_that_never_stops_writes(
    config: VsrConfig,
    history: list[tuple[tuple[Changes, bytes], str]],
) -> None:
    steady, shaky = Replica(config), Replica(config, blocks_at_once=1)
    pages: dict[int, bytes] = {}
    for (changed, extra), what in history:
        if what == "crash":  # half of the next checkpoint reaches the disk, and no superblock
            unfinished = shaky.build(changed, extra).writes
            shaky.disk.update(unfinished[::2])
        if what:
            assert shaky.restart()[0] == pages
        assert steady.checkpoint(changed, extra) == shaky.checkpoint(changed, extra)
        pages = {n: page for n, page in (pages | changed).items() if page is not None}
        assert (steady.table, steady.allocator) == (shaky.table, shaky.allocator)
        assert shaky.restart() == (pages, extra)
        assert (steady.table, steady.allocator) == (shaky.table, shaky.allocator)


@settings(deadline=None)
@given(CONFIGS, st.lists(CHECKPOINTS, min_size=1, max_size=6))
def test_a_checkpoint_in_the_making_leaves_the_durable_one_whole(
    config: VsrConfig,
    history: list[tuple[Changes, bytes]],
) -> None:
    replica = Replica(config)
    for changed, extra in history[:-1]:
        replica.checkpoint(changed, extra)
    durable = [ref.index for ref in replica.table.refs()]
    written = [index for index, _ in replica.build(*history[-1]).writes]
    assert not [index for index in written if index in durable]
    assert len(dict.fromkeys(written)) == len(written)


@settings(deadline=None)
@given(CONFIGS, st.lists(CHECKPOINTS, min_size=1, max_size=6))
def test_all_blocks_of_a_checkpoint_are_listed_once_and_no_others_are_in_use(
    config: VsrConfig,
    history: list[tuple[Changes, bytes]],
) -> None:
    replica = Replica(config)
    for changed, extra in history:
        replica.checkpoint(changed, extra)
    refs = list(replica.table.refs())
    assert refs[0] == replica.root
    assert all(decode_block(replica.disk[ref.index], ref) is not None for ref in refs)
    indexes = sorted(ref.index for ref in refs)
    in_use = [n for n in range(replica.allocator.end) if n not in replica.allocator.free]
    assert indexes == in_use


def test_only_what_changed_is_written() -> None:
    replica = Replica(CLUSTER)
    everything: Changes = {number: b"page %d" % number * 20 for number in range(1000)}
    assert len(replica.checkpoint(everything).writes) == 1000 + 8 + 1
    assert len(replica.checkpoint({5: b"a", 6: b"b", 900: None}).writes) == 2 + 2 + 1
    assert len(replica.checkpoint({}).writes) == 1


def test_pages_that_fit_into_the_block_of_their_chunk_take_no_blocks_of_their_own() -> None:
    replica = Replica(CLUSTER)
    short: Changes = {number: b"page %d" % number for number in range(1000)}
    assert len(replica.checkpoint(short).writes) == 8 + 1
    assert len(replica.checkpoint({5: b"a", 6: b"b", 900: None}).writes) == 2 + 1
    assert replica.restart()[0] == {
        n: page for n, page in {**short, 5: b"a", 6: b"b", 900: None}.items() if page is not None
    }


def test_a_chunk_that_has_outgrown_its_block_keeps_its_pages_elsewhere() -> None:
    replica = Replica(CLUSTER)
    replica.checkpoint(dict.fromkeys(range(100), b"short"))
    long_page = bytes(CLUSTER.block_bytes // 2)
    assert len(replica.checkpoint({100: long_page, 101: long_page}).writes) == 102 + 1 + 1
    assert len(replica.checkpoint({100: b"short", 101: b"short"}).writes) == 2 + 1 + 1
    replica.checkpoint(dict.fromkeys(range(102)))
    assert len(replica.checkpoint({7: b"short"}).writes) == 1 + 1, "it begins anew"


def test_a_state_that_comes_back_takes_no_more_room() -> None:
    replica = Replica()
    sizes: list[int] = []
    for _ in range(6):
        replica.checkpoint({number: bytes(50) for number in range(20)})
        replica.checkpoint(dict.fromkeys(range(20)))
        sizes.append(replica.allocator.end)
    assert sizes[1:] == sizes[:-1]


def test_pages_that_are_all_gone_leave_a_root_alone() -> None:
    replica = Replica()
    replica.checkpoint({1: b"x", 200: b"y"})
    replica.checkpoint({1: None, 200: None, 4000: None})
    assert (replica.table.pages, replica.table.chunks) == ({}, {})
    assert list(replica.table.refs()) == [replica.root]


def test_the_root_says_what_the_whole_state_is() -> None:
    roots: list[BlockRef] = []
    for page, extra in ((b"x", b""), (b"y", b""), (b"x", b"e")):
        replica = Replica()
        replica.checkpoint({300: page}, extra)
        roots.append(replica.root)
    assert len(dict.fromkeys(roots)) == 3


def test_a_root_of_many_blocks_is_a_list_of_lists() -> None:
    replica = Replica()
    replica.checkpoint({1: b"x"}, bytes(range(256)) * 20)
    assert len(replica.table.root) > 50
    assert replica.restart() == ({1: b"x"}, bytes(range(256)) * 20)
