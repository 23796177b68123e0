"""What a data node may say to an operator: the door, before any protocol looks at it.

Of a shard a node says nothing beyond the epoch that it was asked in, but that it is in a higher one, which is
believed step by step (``writing.overtaken``). A head may be ahead of what all nodes have reported, but not
by more than a log can grow. Whoever says anything else is dropped, counted and noted.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import msgspec

from motet.core.bounds import FieldRules, Rule, first_problem, rules_of
from motet.core.machine import Message
from motet.core.operator.context import Core
from motet.core.operator.state import ShardControl
from motet.core.shardlog.bounds import RULES as SHARD_RULES
from motet.core.shardlog.bounds import is_counter
from motet.core.shardlog.messages import FenceResponse, ShardMessage, ShardReport
from motet.core.streams.cluster_messages import HeartbeatAnswer
from motet.ids import Epoch, NodeId, ShardName
from motet.limits import counter_max, op_step_max

RULES: dict[object, Rule] = {**SHARD_RULES, Epoch: is_counter}


@cache
def _fields(kind: type[Message]) -> FieldRules:
    return rules_of(kind, RULES)


def problem_with_heartbeat(
    message: HeartbeatAnswer, known: Mapping[ShardName, ShardReport]
) -> str | None:
    """What of an answer to a heartbeat no node can mean; ``known`` is what it said of its shards before."""
    # What was fine is so again. Of many shards, few have something new to say.
    new = tuple(report for report in message.shards if known.get(report.shard) != report)
    told = msgspec.structs.replace(message, shards=new)
    problem = first_problem(told, _fields(HeartbeatAnswer), counter_max)
    if problem is None and not is_counter(message.map_version):
        return "map_version"
    return problem


def problem_with_answer(core: Core, control: ShardControl, message: ShardMessage) -> str | None:
    """What of an answer about a shard no node can mean that was asked in the epoch of the store."""
    problem = first_problem(message, _fields(type(message)), control.epoch)
    if problem is None and isinstance(message, FenceResponse):
        highest = _highest_head(core, control) + op_step_max
        if max(message.head_index.offset, message.commit_index.offset) > highest:
            return "head_index"
    return problem


def _highest_head(core: Core, control: ShardControl) -> int:
    reports = [node.reports.get(control.shard) for node in core.state.nodes.values()]
    return max((report.head_index.offset for report in reports if report is not None), default=0)


def refuse(core: Core, sender: NodeId, message: Message, problem: str) -> None:
    """Drop it. Who says nonsense may say much of it, so ever fewer of them get a line."""
    count = core.drop(f"out_of_bounds_{problem}")
    if count & (count - 1) == 0:
        said = str(getattr(message, problem, ""))[:100]
        what = f"{type(message).__name__} from {sender}: {problem} {said}, {count} so far"
        core.note("out_of_bounds", what)
