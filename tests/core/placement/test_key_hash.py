"""A key has one shard, for ever, and keys that count up use all shards."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.core.metadata.definitions import NEWEST, KeyHash, shard_of
from motet.limits import stream_shards_max


@given(
    st.binary(min_size=1, max_size=40),
    st.integers(1, stream_shards_max),
    st.sampled_from(list(KeyHash)),
)
def test_a_key_has_one_shard_of_those_there_are(key: bytes, shards: int, hash_: KeyHash) -> None:
    assert 0 <= shard_of(key, shards, hash_) < shards
    assert shard_of(key, shards, hash_) == shard_of(bytes(bytearray(key)), shards, hash_)


def test_the_shard_of_a_key_never_changes() -> None:
    # CRC-32C of "123456789" is 0xE3069283 by its definition, of which the finalizer of MurmurHash3 makes
    # 0xAC7081CC: clients in any language get the same.
    assert shard_of(b"123456789", 256, KeyHash.CRC32C) == 0x83
    assert shard_of(b"123456789", 256, KeyHash.CRC32C_FMIX32) == 0xCC
    assert [shard_of(f"k{n}".encode(), 4) for n in range(8)] == [3, 3, 2, 1, 2, 2, 3, 2]


@pytest.mark.parametrize("form", ["k{}", "o-{}", "user{}", "{}", "order:{:08}", "s-{:03}"])
@pytest.mark.parametrize("shards", [2, 3, 4, 8])
def test_keys_that_count_up_use_all_shards(form: str, shards: int) -> None:
    few = Counter(shard_of(form.format(n).encode(), shards, NEWEST) for n in range(10 * shards))
    assert len(few) == shards
    many = Counter(shard_of(form.format(n).encode(), shards, NEWEST) for n in range(1000 * shards))
    assert max(many.values()) < 1.15 * min(many.values())
