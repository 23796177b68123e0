"""Spark's filters as filters of ours, where both mean exactly the same.

What is not translated is left to Spark: paths into structs, and values that the column cannot hold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql import datasource as spark

from motet.columnar import filters as ours

_WITH_VALUE: dict[type[spark.Filter], Callable[[str, Any], ours.Filter]] = {
    spark.EqualTo: ours.Equal,
    spark.EqualNullSafe: ours.SameOrBothNull,
    spark.LessThan: ours.Less,
    spark.LessThanOrEqual: ours.LessOrEqual,
    spark.GreaterThan: ours.Greater,
    spark.GreaterThanOrEqual: ours.GreaterOrEqual,
    spark.StringStartsWith: ours.StartsWith,
    spark.StringEndsWith: ours.EndsWith,
    spark.StringContains: ours.Contains,
}


def translated(given: spark.Filter, schema: pa.Schema) -> ours.Filter | None:
    """Our filter that keeps the same rows; None if there is none."""
    made = _translated(given)
    return made if made is not None and ours.can_filter(made, schema) else None


def _translated(given: spark.Filter) -> ours.Filter | None:
    if isinstance(given, spark.Not):
        inner = _translated(given.child)
        return None if inner is None else ours.Not(inner)
    path: tuple[str, ...] = getattr(given, "attribute", ())
    if len(path) != 1:
        return None
    if isinstance(given, spark.IsNull):
        return ours.IsNull(path[0])
    if isinstance(given, spark.IsNotNull):
        return ours.IsNotNull(path[0])
    if isinstance(given, spark.In):
        return ours.In(path[0], tuple(given.value))
    kind = _WITH_VALUE.get(type(given))
    return None if kind is None else kind(path[0], getattr(given, "value", None))
