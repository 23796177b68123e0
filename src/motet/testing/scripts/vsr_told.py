"""What happens in a cluster of replicas, in few words: a message, a replica, a log, each on one line."""

from __future__ import annotations

from motet.core.machine import Message
from motet.core.vsr.messages import Prepare, Reply, StartView, command_name
from motet.core.vsr.replica import Replica
from motet.core.vsr.state import Status
from motet.ids import Op
from motet.testing.register import Found, Refused, Stored, Swapped, decode_results

_FIELDS = (
    "view",
    "log_view",
    "op",
    "op_min",
    "op_max",
    "commit",
    "commit_max",
    "client",
    "session",
    "request",
    "round",
    "reason",
)
"""Of a message, what a reader of a script wants to know, in this order."""


def told_message(message: Message) -> str:
    """The command and its numbers."""
    if isinstance(message, Prepare):
        return f"prepare op={message.header.op} of view {message.header.view}"
    known = [(field, getattr(message, field, None)) for field in _FIELDS]
    words = [command_name(type(message))]
    words += [f"{field}={value}" for field, value in known if value is not None]
    if isinstance(message, StartView):
        words.append(f"checkpoint={message.checkpoint.op}")
    if isinstance(message, Reply):
        words.append(f"checksum={message.checksum[:4].hex()}")
    return " ".join(words)


def told_replica(name: str, replica: Replica | None) -> str:
    """Where a replica is; ``*`` marks one that leads."""
    if replica is None:
        return f"{name}  down"
    core, state = replica.core, replica.core.state
    mark = "*" if core.is_primary else " "
    if state.status is Status.REFUSED:
        return f"{name}{mark} refused: {state.refusal}"
    views = f"view={state.view} log_view={state.log_view}"
    commit = str(state.commit_min)
    if state.commit_max != state.commit_min:
        commit += f" of {state.commit_max}"
    doing = [
        word
        for word, holds in (
            ("catching_up", state.catching_up),
            ("leading", state.leading),
            ("syncing", core.is_syncing),
            ("restoring", state.restore is not None),
        )
        if holds
    ]
    where = f"op={state.op} commit={commit} checkpoint={core.checkpoint_op}"
    return " ".join([f"{name}{mark} {state.status.value} {views} {where}", *doing])


def told_log(replica: Replica) -> str:
    """The log above the checkpoint: op, its view, and whether its prepare is there."""
    core = replica.core
    ops = range(core.checkpoint_op + 1, core.state.op + 1)
    return " ".join(_told_slot(replica, Op(op)) for op in ops) or "empty"


def _told_slot(replica: Replica, op: Op) -> str:
    journal = replica.core.state.journal
    header = journal.header(op)
    name = f"{op}" if header is None else f"{op}v{header.view}"
    if journal.is_faulty(op):
        return f"{name}:faulty"
    if header is None:
        return f"{name}:none"
    return name if journal.is_clean(op) else f"{name}:dirty"


def told_results(body: bytes) -> str:
    """What came of a batch of calls."""
    words = []
    for result in decode_results(body):
        match result:
            case Stored():
                words.append("stored")
            case Found(value=value, op=op):
                words.append("nothing" if value is None else f"{value.decode()} of op {op}")
            case Swapped(is_swapped=is_swapped):
                words.append("swapped" if is_swapped else "not swapped")
            case Refused(why=why):
                words.append(f"refused: {why}")
    return ", ".join(words)
