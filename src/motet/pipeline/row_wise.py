"""Whether the rows of a table depend on how the feed is cut into slices.

A function that looks at one change at a time makes the same rows of the whole feed as of its slices one by
one, so one batch job can check them. One that groups, joins or limits sees one slice at a time; what it
made can only be made again along the same slices. When in doubt it is taken to depend on them: that is
right as well, and only slower.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motet.core.tables.records import Engine

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROW_WISE = frozenset({"Project", "Filter", "Generate", "SubqueryAlias", "LogicalRDD"})
"""The steps of a plan of Spark's that look at one row at a time, and keep the order of rows."""

UNORDERED = frozenset({"Union"})
"""Those that only change the order of rows, which matters where a later row replaces an earlier one."""


def is_row_wise(rows: DataFrame, engine: Engine) -> bool:
    """Whether one change makes the same rows whatever is with it."""
    allowed = ROW_WISE | UNORDERED if engine == "merge" else ROW_WISE
    plan: Any = rows._jdf.queryExecution().analyzed()
    if not plan.deterministic():
        return False
    return _steps(plan) <= allowed


def _steps(plan: Any) -> set[str]:
    names = set()
    waiting = [plan]
    while waiting:
        step = waiting.pop()
        names.add(str(step.nodeName()))
        if not step.subqueries().isEmpty():
            names.add("Subquery")
        children = step.children()
        waiting += [children.apply(i) for i in range(children.size())]
    return names
