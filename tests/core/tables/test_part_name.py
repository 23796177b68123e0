"""Names of parts: one text each, and covering is to have all blocks of the other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.core.tables.part_name import PARTITION, PartName, of_block, parse_part_name
from motet.errors import BadInput

blocks = st.integers(0, 10**18 - 1)
levels = st.integers(0, 10**9 - 1)
partitions = st.from_regex(r"[A-Za-z0-9-]{1,64}", fullmatch=True)


def name_of(partition: str, one: int, other: int, level: int) -> PartName:
    return PartName(partition, min(one, other), max(one, other), level)


names = st.builds(name_of, partitions, blocks, blocks, levels)
few = st.integers(0, 4)
small_names = st.builds(name_of, st.sampled_from(["a", "b"]), few, few, st.integers(0, 2))


@given(names)
def test_a_name_is_read_back_as_it_was_written(name: PartName) -> None:
    assert parse_part_name(str(name)) == name


@given(st.text(alphabet="aZ09-_ \n٣", max_size=12))
def test_what_is_read_has_exactly_one_text(text: str) -> None:
    try:
        name = parse_part_name(text)
    except BadInput:
        return
    assert str(name) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "all",
        "all_1_1",
        "all_1_1_0_0",
        "_1_1_0",
        "all_-1_1_0",
        "all_1_+1_0",
        "all_01_1_0",
        "all_1_1_00",
        "all_٣_٣_0",
        "all_2_1_0",
        "all_1_1_0\n",
        " all_1_1_0",
        "a b_1_1_0",
        "x" * 65 + "_1_1_0",
        "all_1_" + "9" * 19 + "_0",
        "all_1_1_" + "9" * 10,
    ],
)
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        parse_part_name(text)


def test_a_part_of_one_block_is_the_block_alone() -> None:
    assert of_block(7) == PartName(PARTITION, 7, 7, 0)
    assert str(of_block(7)) == "all_7_7_0"


@given(small_names, small_names)
def test_a_part_covers_what_has_no_other_blocks_and_was_not_merged_more_often(
    one: PartName, other: PartName
) -> None:
    def has(name: PartName) -> set[tuple[str, int]]:
        return {(name.partition, block) for block in range(name.min_block, name.max_block + 1)}

    assert one.covers(other) == (has(other) <= has(one) and other.level <= one.level)
