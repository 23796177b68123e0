"""What Spark's analyzed plan says about a table function.

*Does it look at changes together that may come in different batches?* A function sees the changes of one
batch. One that joins two streams finds the matches within the batch and no others: a row of one stream whose
partner came in another batch is lost, without a word. The same goes for whatever looks at rows of several
streams together, such as an aggregate over their union.

A1  *Two sides with changes*, in anything but a union, are a join: also two uses of one stream, a set
    operation, a co-group, and a subquery within a query. Refused.
A2  *A join with something else* is one change at a time as long as it keeps only rows of the side with
    changes. One that keeps rows of the other side without a match (an outer join, seen from there) is
    refused.
A3  *Several rows of several streams*: whatever takes more than one row at a time is refused above a union of
    streams. What is known to take one row at a time is listed, all else is taken not to.
A4  *Several rows of one stream* are allowed: their results are partial, one for each batch, and are put
    together where the table is read.
A5  A stream that the function has asked for and that is not in the plan was read in another way: collected,
    or made an RDD. Refused, since it cannot be seen what becomes of it.

A table that is declared ``per_batch`` is not looked at.

*Do its rows depend on how the feed is cut into slices?* A function that looks at one change at a time makes
the same rows of the whole feed as of its slices one by one, so one batch job can check them. What groups,
joins or limits can only be made again along the same slices. When in doubt a function is taken to depend on
them: that is right as well, and only slower.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from motet.core.metadata.definitions import TableEngine

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


MARK = "motet stream "
"""What the aliases of streams begin with that a function gets when it is planned."""

ONE_ROW = frozenset(
    {
        "CollectMetrics",
        "CTERelationDef",
        "Expand",
        "Filter",
        "Generate",
        "Join",
        "Project",
        "RebalancePartitions",
        "Repartition",
        "RepartitionByExpression",
        "ResolvedHint",
        "Sample",
        "Sort",
        "SubqueryAlias",
        "Union",
        "View",
        "WithCTE",
    }
)
"""Steps that make of each row what they would make of it alone; an order of rows is none of a table's.

A join is one of them when A1 and A2 have nothing against it.
"""

DOES = {
    "Aggregate": "groups",
    "Deduplicate": "drops duplicates of",
    "Distinct": "drops duplicates of",
    "GlobalLimit": "limits",
    "LocalLimit": "limits",
    "Offset": "limits",
    "Tail": "limits",
    "Window": "uses a window over",
}
"""What a step does, in words; others are named as Spark does."""


def marked(rows: DataFrame, streams: Iterable[str]) -> DataFrame:
    """The changes of streams, so that they are known in a plan."""
    return rows.alias(MARK + ",".join(streams))


def across_batches(rows: DataFrame, asked: Iterable[str]) -> str | None:
    """What a function does with changes of different batches, as a part of a sentence; None for nothing."""
    plan: Any = rows._jdf.queryExecution().analyzed()
    search = _Search(plan)
    found = search.streams(plan)
    if search.why is not None:
        return search.why
    hidden = [stream for stream in asked if stream not in found]
    return f"uses stream {hidden[0]} outside of the rows it returns" if hidden else None


class _Search:
    """One walk through a plan."""

    def __init__(self, plan: Any) -> None:
        #: the first thing that was found
        self.why: str | None = None
        #: the plans of common table expressions, by their numbers
        self._common = {node.id(): node for node in _nodes(plan) if _kind(node) == "CTERelationDef"}

    def streams(self, node: Any) -> dict[str, None]:
        """The streams below a step, each once."""
        kind = _kind(node)
        if kind == "SubqueryAlias" and str(node.alias()).startswith(MARK):
            return dict.fromkeys(str(node.alias()).removeprefix(MARK).split(","))
        if kind == "CTERelationRef" and node.cteId() in self._common:
            return self.streams(self._common[node.cteId()])
        children = [self.streams(child) for child in _list(node.children())]
        inner = [self.streams(subquery) for subquery in _list(node.subqueries())]
        if kind == "WithCTE":
            children = children[-1:]  # the others count where they are used
        sides = [side for side in (*children, *inner) if side]
        found = {name: None for side in sides for name in side}
        if self.why is None:
            self.why = self._why(node, kind, children, inner, found)
        return found

    def _why(
        self,
        node: Any,
        kind: str,
        children: list[dict[str, None]],
        inner: list[dict[str, None]],
        found: dict[str, None],
    ) -> str | None:
        sides = [side for side in (*children, *inner) if side]
        if len(sides) > 1 and (kind != "Union" or any(inner)):
            one, other = ("stream " + " and ".join(side) for side in sides[:2])
            return f"joins {one} with itself" if one == other else f"joins {one} with {other}"
        if kind == "Join" and len(sides) == 1 and _keeps_the_other_side(node, bool(children[0])):
            return f"keeps rows that have no match in stream {' and '.join(found)}, with a join"
        if len(found) > 1 and kind not in ONE_ROW:
            does = DOES.get(kind, f"looks at several rows (Spark's {kind}) of")
            return f"{does} the streams {' and '.join(found)} together"
        return None


def _keeps_the_other_side(join: Any, is_left: bool) -> bool:
    """Whether a join of changes, which are on its left or not, keeps rows of its other side alone."""
    kind = str(join.joinType().sql())
    if kind in ("INNER", "CROSS"):
        return False
    return kind != "RIGHT OUTER" if not is_left else not kind.startswith("LEFT ")


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _list(sequence: Any) -> list[Any]:
    return [sequence.apply(i) for i in range(sequence.size())]


def _nodes(plan: Any) -> Iterable[Any]:
    """All steps of a plan, with those of its subqueries."""
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += _list(node.children()) + _list(node.subqueries())


ROW_WISE = frozenset({"Project", "Filter", "Generate", "SubqueryAlias", "LogicalRDD"})
"""The steps of a plan of Spark's that look at one row at a time, and keep the order of rows."""

UNORDERED = frozenset({"Union"})
"""Those that only change the order of rows, which matters where a later row replaces an earlier one."""


def is_row_wise(rows: DataFrame, engine: TableEngine) -> bool:
    """Whether one change makes the same rows whatever is with it."""
    allowed = ROW_WISE | UNORDERED if engine == "merge" else ROW_WISE
    plan: Any = rows._jdf.queryExecution().analyzed()
    return bool(plan.deterministic()) and all(
        str(step.nodeName()) in allowed and step.subqueries().isEmpty() for step in _nodes(plan)
    )
