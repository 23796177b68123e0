"""A part whose file was changed, read through the source, near and far, and by Spark's own reader."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.client.damage import ROWS, fill, flips, is_told, overwrite
from tests.spark.sales_table import load, read_directly

import motet
from motet.errors import BadRecord
from motet.pipeline import read_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("is_far", [False, True], ids=["near", "far"])
def test_no_flipped_bit_is_read_by_the_source(tmp_path: Path, is_far: bool) -> None:
    """A node that finds the damage itself refuses the part until it is started anew."""
    with motet.open(tmp_path) as db:
        path = fill(db)
        for place in flips(path, 40):
            with pytest.raises(BadRecord) as caught:
                read_directly(db, "hurt", is_far=is_far)
            assert is_told(caught.value, path), place
        assert sum(map(len, read_directly(db, "whole", is_far=is_far))) == ROWS
    with motet.open(tmp_path) as db:
        assert sum(map(len, read_directly(db, "hurt", is_far=is_far))) == ROWS


def test_no_flipped_bit_is_read_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    with motet.open(tmp_path) as db:
        path = fill(db)
        whole = path.read_bytes()
        for place in flips(path, 40):
            with pytest.raises(BadRecord) as caught:
                read_table(spark, "hurt", endpoint=db.endpoint)
            assert is_told(caught.value, path), place
        overwrite(path, bytes([whole[0] ^ 1]) + whole[1:])
        with pytest.raises(Exception, match="BAD_RECORD") as raised:
            load(spark, db, "hurt").count()
        assert is_told(raised.value, path)
        assert load(spark, db, "whole").count() == ROWS
        overwrite(path, whole)
        assert load(spark, db, "hurt").count() == ROWS
        assert read_table(spark, "hurt", endpoint=db.endpoint).count() == ROWS
