"""What `@pipeline.table` takes, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from motet import pipeline
from motet.errors import BadPipeline
from motet.pipeline.definition import MARKS, TableDefinition


def define(**options: Any) -> TableDefinition:
    """The definition that a marked function leaves behind in its module."""
    module: dict[str, Any] = {"pipeline": pipeline, "options": options}
    exec("@pipeline.table(**options)\ndef stock_now(changes): return changes", module)
    (made,) = module[MARKS]
    assert isinstance(made, TableDefinition)
    assert module["stock_now"](7) == 7, "the function stays what it was"
    return made


def test_a_table_is_called_like_its_function_unless_it_is_named() -> None:
    made = define(engine="merge", order_by=["minute", "sku"])
    assert (made.name, made.order_by, made.shards) == ("stock_now", ("minute", "sku"), 1)
    assert define(engine="merge", order_by=["a"], name="other").name == "other"


def test_the_columns_that_the_result_must_have_are_known() -> None:
    made = define(engine="replacing", order_by=["sku"], version="clock", tombstone="gone")
    assert made.special_columns() == (
        ("order_by", "sku"),
        ("version", "clock"),
        ("tombstone", "gone"),
    )


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"engine": "mergetree", "order_by": ["a"]}, "engine is 'mergetree'"),
        ({"engine": "merge", "order_by": []}, "order_by names one column or more"),
        ({"engine": "merge", "order_by": "sku"}, "order_by is a list of columns"),
        ({"engine": "merge", "order_by": ["a", "a"]}, "names a column twice"),
        ({"engine": "merge", "order_by": ["a"], "version": "clock"}, "mean nothing for engine"),
        ({"engine": "merge", "order_by": ["a"], "shards": 0}, "shards is a whole number"),
        ({"engine": "merge", "order_by": ["a"], "name": "no/name"}, "not a name for a table"),
    ],
)
def test_a_definition_that_cannot_be_is_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(BadPipeline, match=why):
        define(**options)


def test_a_function_takes_the_changes_and_nothing_else() -> None:
    with pytest.raises(BadPipeline, match="one argument, the changes"):

        @pipeline.table(engine="merge", order_by=["a"])
        def nothing() -> None: ...


def test_only_a_function_can_be_marked() -> None:
    with pytest.raises(BadPipeline, match="not type"):

        @pipeline.table(engine="merge", order_by=["a"])
        class Table: ...
