"""How entries get from the tail of a connection's queue to its head, and out (C1, C2, C3)."""

from __future__ import annotations

from motet.core.keeper.front.answers import give_answer, operation_of
from motet.core.keeper.front.connections import NOW, WAYS, Connection, Entry, Way
from motet.core.keeper.front.context import FrontEndContext
from motet.core.keeper.messages import Connect
from motet.core.keeper.operations import Outcome, failed
from motet.format.zookeeper.messages import ErrorCode, Multi


def advance(context: FrontEndContext, connection: Connection) -> None:
    """Answer what can be answered, from the head on."""
    while connection.entries:
        entry = connection.entries[0]
        if entry.op is None:
            return
        if entry.op > context.state.applied:
            context.state.connections.wait(connection, entry.op)  # F1
            return
        if isinstance(entry.request, Connect) and entry.outcome is None:
            _begin_handshake(context, connection, entry, entry.request)
            continue
        if _is_held(context, connection, entry):
            context.state.connections.held[connection.address] = None
            return
        connection.pop()
        give_answer(context, connection, entry)
        if entry.is_gate:
            _open_gate(context, connection)


def _is_held(context: FrontEndContext, connection: Connection, entry: Entry) -> bool:
    """Whether answers have to leave before it gets its own (C6)."""
    if connection.unsent_bytes >= context.config.unsent_bytes_max:
        return True
    is_read = WAYS[type(entry.request)] is Way.READ
    return is_read and context.state.connections.unsent_bytes >= context.config.unsent_bytes_all_max


def go_on(context: FrontEndContext) -> None:
    """Answers have left, or will not any more: answer those that were held back, in their order (C6)."""
    connections = context.state.connections
    connections.has_room = False
    for address in list(connections.held):
        del connections.held[address]
        advance(context, connections.by_address[address])


def _open_gate(context: FrontEndContext, connection: Connection) -> None:
    """What was held back by it is handed on (C2)."""
    for held in connection.before_gate():
        if WAYS[type(held.request)] is Way.LOG:
            hand_on(context, connection, held)


def _begin_handshake(
    context: FrontEndContext, connection: Connection, entry: Entry, request: Connect
) -> None:
    """This replica is as new as it can be; now for the session."""
    if request.last_zxid > context.keeper.zxid:
        context.hang_up(connection, "the client has seen what is not here")
        return
    entry.op = None
    hand_on(context, connection, entry)


def hand_on(context: FrontEndContext, connection: Connection, entry: Entry) -> None:
    """Have it logged; what cannot be is answered when its turn comes."""
    operation = operation_of(context, connection, entry.request)
    if isinstance(operation, Outcome):
        entry.outcome, entry.op = operation, NOW
        return
    request, most = entry.request, context.keeper.config.multi_operations_max
    is_too_long = isinstance(request, Multi) and len(request.operations) > most
    items = [] if is_too_long else context.lanes.items(connection.address, entry.number, operation)
    if not items:
        refusal = failed(context.keeper.zxid, ErrorCode.MARSHALLING_ERROR)
        entry.outcome, entry.op = refusal, NOW
        return
    connection.on_lane += len(items)
    for item in items:
        context.lanes.add(connection.lane, item)
