"""The names of parts: text and back, and which covers which."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.core.mergetree.names import Block, PartName, of_block, parse_part_name
from motet.errors import BadInput

blocks = st.builds(Block, st.integers(0, 9), st.integers(0, 2))
partitions = st.sampled_from(["p", "17", "2026-11", "a_b", "p_1.0_2.0_3"])


@st.composite
def names(draw: st.DrawFn) -> PartName:
    low, high = sorted([draw(blocks), draw(blocks)])
    return PartName(draw(partitions), low, high, draw(st.integers(0, 3)))


@given(names())
def test_a_name_reads_back(name: PartName) -> None:
    assert parse_part_name(str(name)) == name


@given(names(), names(), blocks)
def test_a_part_that_covers_another_holds_all_its_blocks(
    one: PartName, other: PartName, block: Block
) -> None:
    if one.covers(other) and other.holds(other.partition, block):
        assert one.holds(other.partition, block)


@pytest.mark.parametrize(
    "text", ["", "p", "p_1.0_0.0_0", "p_01.0_1.0_0", "p_1_1_0", "a/b_1.0_1.0_0", "p_1.0_1.0_-1"]
)
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        parse_part_name(text)


def test_the_name_of_a_block_is_level_zero() -> None:
    assert str(of_block("17", Block(3, 1))) == "17_3.1_3.1_0"
