"""The history of a simulated keeper's tree: what its clients ask over their connections, and are told."""

from __future__ import annotations

from motet.core.keeper.messages import Answer, Ask
from motet.core.machine import Effect, Event, Received, Send
from motet.format.zookeeper.messages import (
    Check,
    Children,
    Children2,
    CloseSession,
    Create,
    Create2,
    Created,
    Created2,
    CreateFlags,
    Data,
    Delete,
    ErrorCode,
    Exists,
    Failed,
    GetChildren,
    GetChildren2,
    GetData,
    Multi,
    MultiResult,
    Nothing,
    Result,
    SetData,
    StatResult,
)
from motet.format.zookeeper.records import AnyRequest
from motet.sim.host import Host
from motet.sim.world import World
from motet.verify.history.operation import OperationId
from motet.verify.storms.histories import Book
from motet.verify.storms.keeper import KeeperRun
from motet.verify.storms.keeper_client import KeeperClient

REFUSALS = (
    *(ErrorCode.NO_NODE, ErrorCode.NODE_EXISTS, ErrorCode.BAD_VERSION, ErrorCode.NOT_EMPTY),
    ErrorCode.NO_CHILDREN_FOR_EPHEMERALS,
)
"""What the tree itself refuses; whatever else went wrong, nobody knows what became of it."""

Call = tuple[str, str | None, object]
"""Function, key and value of an operation."""


class TreeTap:
    """Follows the connections of clients. What is asked over one is taken to be asked at once."""

    def __init__(self, world: World, run: KeeperRun) -> None:
        self._clients = {client.name: client for client in run.clients}
        self.tree = Book(world, "tree")
        # Where reads are local they may be old, and no order explains them.
        self.books = () if run.front.reads_are_local else (self.tree,)
        #: (address of a connection, number of the request) -> its operation
        self._open: dict[tuple[str, int], tuple[OperationId, AnyRequest]] = {}
        self._talks: dict[str, str] = {}
        #: sessions that have ephemeral nodes: their end is nobody's request
        self._mortal: dict[int, None] = {}
        world.observe(self._saw)

    def _saw(self, host: Host, event: Event, effects: list[Effect]) -> None:
        client = self._clients.get(host.node.address)
        if client is None:
            return
        if isinstance(event, Received) and isinstance(event.message, Answer):
            found = self._open.pop((event.sender, event.message.xid), None)
            if found is not None:
                self._answered(*found, event.message)
        self._hang_up(client)
        for effect in effects:
            if isinstance(effect, Send) and isinstance(effect.message, Ask):
                self._asks(client, effect.to, effect.message)

    def _hang_up(self, client: KeeperClient) -> None:
        """Of a connection that is given up nothing is heard any more."""
        address = "" if client.talk is None else str(client.talk.address)
        before = self._talks.get(client.name, "")
        self._talks[client.name] = address
        if before and address != before:
            for key in [key for key in self._open if key[0] == before]:
                self.tree.unknown(self._open.pop(key)[0])

    def _asks(self, client: KeeperClient, address: str, message: Ask) -> None:
        call = _call(message.request, client.session)
        if call is None:
            return
        if _makes_ephemeral(message.request) and client.session not in self._mortal:
            self._mortal[client.session] = None
            self.tree.begin(f"session-{client.session}", "end_session", None, str(client.session))
        op = self.tree.begin(client.name, *call)
        self._open[address, message.xid] = op, message.request

    def _answered(self, op: OperationId, request: AnyRequest, answer: Answer) -> None:
        told = _told(request, answer)
        if told is None:
            self.tree.unknown(op)
        else:
            self.tree.ok(op, told)


def _makes_ephemeral(request: AnyRequest) -> bool:
    if isinstance(request, Multi):
        return any(_makes_ephemeral(each) for each in request.operations)
    return isinstance(request, Create | Create2) and bool(request.flags & CreateFlags.EPHEMERAL)


def _call(request: AnyRequest, session: int) -> Call | None:
    """The operation that a request is; None if it is none of the tree's."""
    match request:
        case Create() | Create2():
            return "create", request.path, _create(request, session)
        case SetData():
            return "set", request.path, (_text(request.data), request.version)
        case Delete():
            return "delete", request.path, request.version
        case Check():
            return "check", request.path, request.version
        case GetData():
            return "get", request.path, None
        case Exists():
            return "exists", request.path, None
        case GetChildren() | GetChildren2():
            return "children", request.path, None
        case CloseSession():
            return "end_session", None, str(session)
        case Multi():
            return "multi", None, [_call(each, session) for each in request.operations]
    return None


def _create(request: Create | Create2, session: int) -> tuple[str, ...]:
    value = [_text(request.data)]
    if request.flags & CreateFlags.SEQUENTIAL:
        value.append("sequential")
    if request.flags & CreateFlags.EPHEMERAL:
        value += ["ephemeral", str(session)]
    return tuple(value)


def _told(request: AnyRequest, answer: Answer) -> list[object] | None:
    if isinstance(answer.result, MultiResult):
        return _of_multi(answer.result)
    if answer.error in REFUSALS:
        return [ErrorCode(answer.error).name]
    if answer.error:
        return None
    return _result(request, answer.result)


def _of_multi(result: MultiResult) -> list[object] | None:
    for place, each in enumerate(result.results):
        if isinstance(each, Failed) and each.error not in (0, ErrorCode.RUNTIME_INCONSISTENCY):
            return [ErrorCode(each.error).name, place] if each.error in REFUSALS else None
    return ["OK", [_result(None, each) for each in result.results]]


def _result(request: AnyRequest | None, result: Result) -> list[object]:
    match result:
        case Created() | Created2():
            return ["OK", result.path]
        case StatResult():
            return ["OK", result.stat.version]
        case Data():
            return ["OK", _text(result.data), result.stat.version]
        case Children() | Children2():
            return ["OK", list(result.children)]
        case Nothing():
            return ["OK"]
    raise AssertionError(f"{request} was answered with {result}")


def _text(data: bytes | None) -> str:
    """Values are never the same twice, also without their padding."""
    return (data or b"").rstrip(b".").decode()
