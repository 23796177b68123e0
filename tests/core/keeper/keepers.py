"""A keeper with a log of its own, for tests: what is asked is an entry, what comes back is decoded."""

from __future__ import annotations

from motet.core.keeper.acl import Identity, identity_of
from motet.core.keeper.config import KeeperConfig
from motet.core.keeper.ids import Generation
from motet.core.keeper.machine import Keeper
from motet.core.keeper.operations import (
    BATCH,
    AddIdentity,
    AnyOperation,
    Attached,
    OpenSession,
    Outcome,
    Outcomes,
    Pulse,
    Write,
    decode_reply,
    encode_batch,
)
from motet.core.vsr.state_machine import Entry
from motet.format.zookeeper.messages import (
    Acl,
    AnyResult,
    Create,
    Created,
    Data,
    Exists,
    Failed,
    GetData,
    ReadRequest,
    Stat,
    StatResult,
    WriteRequest,
)
from motet.ids import ClientId, Op, SessionId, View

OPEN = (Acl(31, "world", "anyone"),)
SMALL = KeeperConfig(
    node_pages=4, session_pages=2, timeout_ms_min=100, pulse_ms_max=100, grace_ms=0
)
PASSWORD = b"0123456789abcdef"
FIRST = SessionId(1)
GENERATION = Generation(1)


def entry(op: int, body: bytes, operation: int = BATCH) -> Entry:
    return Entry(Op(op), op * 1_000_000_000, ClientId(7), operation, body)


class Harness:
    """Sends batches, each at a time of its own: the entry of op n is of second n."""

    def __init__(self, config: KeeperConfig = SMALL, *, sessions: int = 1) -> None:
        self.keeper = Keeper(config)
        self.op = 0
        for _ in range(sessions):
            self.open()

    def run(self, *operations: AnyOperation) -> list[Outcome]:
        self.op += 1
        reply = decode_reply(self.keeper.apply(entry(self.op, encode_batch(operations))))
        assert isinstance(reply, Outcomes)
        assert len(reply.outcomes) == len(operations)
        return reply.outcomes

    def one(self, operation: AnyOperation) -> Outcome:
        (outcome,) = self.run(operation)
        return outcome

    def open(self, timeout_ms: int = 1000) -> SessionId:
        result = self.one(OpenSession(timeout_ms, PASSWORD)).result
        assert isinstance(result, Attached)
        return result.session

    def write(self, request: WriteRequest, session: SessionId = FIRST) -> AnyResult:
        result = self.one(Write(session, GENERATION, request)).result
        assert not isinstance(result, Attached)
        return result  # type: ignore[return-value]

    def create(self, path: str, flags: int = 0, session: SessionId = FIRST) -> str:
        result = self.write(Create(path, b"", OPEN, flags), session)
        assert isinstance(result, Created), result
        return result.path

    def error(self, request: WriteRequest, session: SessionId = FIRST) -> int:
        result = self.write(request, session)
        return result.error if isinstance(result, Failed) else 0

    def identify(self, auth: bytes, session: SessionId = FIRST) -> Identity:
        identity = identity_of("digest", auth)
        assert identity is not None
        outcome = self.one(AddIdentity(session, GENERATION, identity.scheme, identity.id))
        assert outcome.error == 0
        return identity

    def pulse(self, elapsed_ms: int, view: int = 0) -> None:
        assert self.one(Pulse(elapsed_ms, View(view))).error == 0

    def read(self, request: ReadRequest, session: SessionId = FIRST) -> AnyResult:
        error, result = self.keeper.read(session, request)
        assert error == (result.error if isinstance(result, Failed) else 0)
        return result

    def read_error(self, request: ReadRequest, session: SessionId = FIRST) -> int:
        result = self.read(request, session)
        return result.error if isinstance(result, Failed) else 0

    def stat(self, path: str) -> Stat:
        result = self.read(Exists(path, False))
        assert isinstance(result, StatResult), result
        return result.stat

    def data(self, path: str) -> bytes | None:
        result = self.read(GetData(path, False))
        assert isinstance(result, Data), result
        return result.data

    def is_there(self, path: str) -> bool:
        return path in self.keeper._tree.nodes

    def events(self) -> list[tuple[int, str]]:
        """All that were not asked for yet, as (type, path)."""
        taken = self.keeper.take_applied().applied
        return [(event.type, event.path) for each in taken for event in each.events]


def pages_of(keeper: Keeper) -> dict[int, bytes]:
    """All pages, from a copy that begins anew."""
    twin = keeper.clone()
    from_start = {}
    twin._tree._changed = dict.fromkeys(twin._tree.pages)
    twin._sessions._changed = dict.fromkeys(twin._sessions.pages)
    twin._counters_taken = b""
    for number, data in twin.take_changed().items():
        assert data is not None
        from_start[number] = data
    return from_start


def tree_pages(keeper: Keeper) -> dict[int, bytes]:
    return {
        number: data
        for number, data in pages_of(keeper).items()
        if number < keeper.config.node_pages
    }
