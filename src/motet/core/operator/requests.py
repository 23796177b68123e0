"""What people ask of an operator: taken, refused, and answered when it is done.

Q1  An operator that is not active refuses, and names the active one if it knows.
Q2  Requests that wait are bounded in number and in time. Who has waited too long is told that the outcome is
    not known; what was begun goes on.
Q3  Each precondition has an error of its own, and a request that is refused by one has changed nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from motet.core.machine import NS_PER_MS
from motet.core.operator.answers import answer, refuse
from motet.core.operator.changes import (
    contract_shard,
    expand_shard,
    is_overtaken,
    settle_change,
    swap_node,
)
from motet.core.operator.clock_visibility import enable_clock, settle_clock_visibility
from motet.core.operator.context import Core
from motet.core.operator.deletion import delete_stream, settle_deletion
from motet.core.operator.elections import start_election
from motet.core.operator.moves import drain_node, settle_drain
from motet.core.operator.preconditions import check_steady, shard_control
from motet.core.operator.state import Waiting
from motet.core.operator.streams import create_stream, settle_creation
from motet.core.streams.cluster_messages import (
    ContractShard,
    CreateStream,
    DeleteStream,
    DescribeShards,
    DrainNode,
    ElectLeader,
    EnableClock,
    ExpandShard,
    OperatorDone,
    OperatorRequest,
    ShardsDescribed,
    SwapNode,
)
from motet.errors import MotetError, NoSuchStream, OutcomeUnknown
from motet.errors.operator import NotActive, NotInEnsemble, OperatorBusy
from motet.ids import Address, Epoch

Start = Callable[[Core, Waiting, Any], None]


def on_request(core: Core, client: Address, message: OperatorRequest) -> None:
    """Begin it, or say why not."""
    state = core.state
    waiting = Waiting(client, message, core.now_ns)
    start = STARTS.get(type(message))
    try:
        if not state.is_active:
            raise NotActive(f"{state.own} is not the active operator")
        if not state.is_loaded:
            raise NotActive(f"{state.own} has only just become the active operator")
        if start is None:
            core.drop("unexpected")
            return
        if len(state.waiting) >= core.config.requests_max:
            raise OperatorBusy(f"{len(state.waiting)} requests wait already")
        state.waiting.append(waiting)
        start(core, waiting, message)
        if any(each is waiting for each in state.waiting):
            _settle(core, waiting)
    except MotetError as error:
        refuse(core, waiting, error)


def settle(core: Core) -> None:
    """Answer whoever can be answered."""
    for waiting in list(core.state.waiting):
        _settle(core, waiting)


def _settle(core: Core, waiting: Waiting) -> None:
    end = SETTLES.get(type(waiting.message))
    if end is not None and not is_overtaken(core, waiting):
        end(core, waiting, waiting.message)


def expire(core: Core) -> None:
    """Q2."""
    oldest_ns = core.now_ns - core.config.request_ms * NS_PER_MS
    for waiting in list(core.state.waiting):
        if waiting.asked_ns < oldest_ns:
            hint = "it goes on: ask again, or see how things stand"
            refuse(core, waiting, OutcomeUnknown("it is still under way", hint=hint))


def refuse_all(core: Core) -> None:
    """No longer active: what was begun may be finished by another operator, or not."""
    for waiting in list(core.state.waiting):
        hint = "ask the active operator how things stand"
        refuse(core, waiting, OutcomeUnknown(f"{core.state.own} is no longer active", hint=hint))


def describe_shards(core: Core, waiting: Waiting, message: DescribeShards) -> None:
    state = core.state
    names = sorted(state.definitions) if message.stream is None else [message.stream]
    if message.stream is not None and message.stream not in state.definitions:
        raise NoSuchStream(f"there is no stream {message.stream!r}")
    shards = [c for c in state.shards.values() if c.stream in names and c.metadata is not None]
    told = {control.shard: None for control in shards}
    reports = tuple(
        (node, tuple(each for each in state.nodes[node].reports.values() if each.shard in told))
        for node in sorted(state.nodes)
        if state.nodes[node].is_alive
    )
    described = ShardsDescribed(
        message.request,
        tuple(state.definitions[name].value for name in names),
        tuple(control.known for control in shards),
        reports,
    )
    answer(core, waiting, described)


def elect_leader(core: Core, waiting: Waiting, message: ElectLeader) -> None:
    control = shard_control(core, message.stream, message.shard)
    check_steady(control)
    if message.preferred is not None and message.preferred not in control.known.ensemble:
        raise NotInEnsemble(f"{message.preferred} holds no replica of {control.shard}")
    waiting.shard, waiting.epoch = control.shard, Epoch(control.epoch + 1)
    start_election(core, control, "asked for", preferred=message.preferred)


def settle_election(core: Core, waiting: Waiting, message: ElectLeader) -> None:
    control = None if waiting.shard is None else core.state.shards.get(waiting.shard)
    if control is None or control.metadata is None or control.epoch < waiting.epoch:
        return
    leader = control.metadata.leader
    if leader is not None:
        what = f"{leader} leads in epoch {control.epoch}"
        answer(core, waiting, OperatorDone(message.request, what))


STARTS: dict[type[OperatorRequest], Start] = {
    CreateStream: create_stream,
    DeleteStream: delete_stream,
    DescribeShards: describe_shards,
    ElectLeader: elect_leader,
    SwapNode: swap_node,
    ExpandShard: expand_shard,
    ContractShard: contract_shard,
    DrainNode: drain_node,
    EnableClock: enable_clock,
}

SETTLES: dict[type[OperatorRequest], Start] = {
    CreateStream: settle_creation,
    DeleteStream: settle_deletion,
    ElectLeader: settle_election,
    SwapNode: settle_change,
    ExpandShard: settle_change,
    ContractShard: settle_change,
    DrainNode: settle_drain,
    EnableClock: settle_clock_visibility,
}
