"""Whatever happens to nodes, links and connections: what clients were told is true, in order, and once."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.core.keeper.front.clusters import NAMES, OPEN, Client, Cluster

from motet.core.keeper.messages import Answer, Happened
from motet.format.zookeeper.messages import (
    Children,
    Create,
    Created,
    CreateFlags,
    Data,
    GetChildren,
    GetData,
    Ping,
    SetData,
    StatResult,
)

SEQUENTIAL = int(CreateFlags.SEQUENTIAL)

_node = st.sampled_from(NAMES)
_who = st.integers(0, 3)
_steps = st.one_of(
    st.tuples(st.just("read"), _who),
    st.tuples(st.just("read"), _who),
    st.tuples(st.just("create"), _who),
    st.tuples(st.just("write")),
    st.tuples(st.just("ping"), _who),
    st.tuples(st.just("gone"), _who, _node),
    st.tuples(st.just("run"), st.integers(1, 900)),
    st.tuples(st.just("crash"), _node),
    st.tuples(st.just("isolate"), _node),
    st.tuples(st.just("lose"), st.sampled_from(("reply", "prepare", "commit", "read_point"))),
    st.tuples(st.just("heal")),
)


class History:
    """One writer that counts up, and readers that must not see it fall behind what it was told."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.writer = self.cluster.connected("r0", 40_000)
        self.writer.create("/count", b"0")
        self.clients = [self._fresh(name) for name in (*NAMES, "r1")]
        self.everybody = [self.writer, *self.clients]
        self.written = 0
        #: (reader, xid) -> what was known to be written when it was asked
        self.least: dict[tuple[str, int], int] = {}
        self.creates: list[tuple[Client, int]] = []
        self.down: list[str] = []

    def _fresh(self, name: str) -> Client:
        client = self.cluster.client(name)
        client.say_connect(timeout_ms=40_000)
        return client

    def step(self, what: str, *rest: object) -> None:
        getattr(self, f"on_{what}")(*rest)

    def _acknowledged(self) -> int:
        return sum(isinstance(answer.result, StatResult) for answer in self.writer.answers)

    def _is_up(self, client: Client) -> bool:
        return client.node not in self.down and not client.is_hung_up

    # What can happen

    def on_read(self, who: int) -> None:
        reader = self.clients[who]
        if self._is_up(reader):
            known = self._acknowledged()
            self.least[reader.address, reader.send(GetData("/count", True))] = known

    def on_create(self, who: int) -> None:
        if self._is_up(self.clients[who]):
            xid = self.clients[who].send(Create("/n-", b"", OPEN, SEQUENTIAL))
            self.creates.append((self.clients[who], xid))

    def on_write(self) -> None:
        if self._is_up(self.writer):
            self.written += 1
            self.writer.send(SetData("/count", str(self.written).encode(), -1))

    def on_ping(self, who: int) -> None:
        if self._is_up(self.clients[who]):
            self.clients[who].send(Ping())

    def on_gone(self, who: int, name: str) -> None:
        if self.clients[who].node not in self.down:
            self.clients[who].gone()
        if name not in self.down:
            self.clients[who] = self._fresh(name)
            self.everybody.append(self.clients[who])

    def on_run(self, ms: int) -> None:
        self.cluster.run(ms)

    def on_crash(self, name: str) -> None:
        if name in self.down:
            self.down.remove(name)
            self.cluster.bench.start(name)
        elif name != self.writer.node and not self.down:
            self.down.append(name)
            self.cluster.bench.crash(name)

    def on_isolate(self, name: str) -> None:
        self.cluster.bench.isolate(name)

    def on_lose(self, command: str) -> None:
        self.cluster.lose(command)

    def on_heal(self) -> None:
        self.cluster.bench.heal()

    def end(self) -> None:
        """All is well again, for long enough."""
        self.on_heal()
        for name in list(self.down):
            self.on_crash(name)
        self.cluster.run(6_000)
        self.cluster.until(self._is_agreed)

    def _is_agreed(self) -> bool:
        states = [self.cluster.node(name).replica.core.state for name in NAMES]
        return len({(state.commit_min, state.op) for state in states}) == 1

    # What must be so

    def check(self) -> None:
        for client in self.everybody:
            xids = [answer.xid for answer in client.answers]
            assert xids == sorted(set(xids)), "in order, and once"
            zxids = [a.zxid for a in client.answers if isinstance(a.result, Data | Created)]
            assert zxids == sorted(zxids)
            self._check_reads(client)
        keepers = [self.cluster.node(name).keeper for name in NAMES]
        assert len({keeper.fingerprint() for keeper in keepers}) == 1
        self._check_creates()

    def _check_reads(self, client: Client) -> None:
        seen, heard_since = 0, True
        for message in client.inbox:
            if isinstance(message, Happened):
                heard_since = True
            if isinstance(message, Answer) and isinstance(message.result, Data):
                value = int(message.result.data or b"")
                assert value >= self.least[client.address, message.xid], "linearizable"
                assert value == seen or heard_since, "no change without its event"
                assert value >= seen
                seen, heard_since = value, False

    def _check_creates(self) -> None:
        reader = self.cluster.connected("r2")
        result = reader.result(GetChildren("/", False))
        assert isinstance(result, Children)
        paths = [
            answer.result.path
            for client, xid in self.creates
            for answer in client.answers
            if answer.xid == xid and isinstance(answer.result, Created)
        ]
        assert len(paths) == len(set(paths)), "each is somebody's own"
        there = [f"/{name}" for name in result.children]
        assert all(path in there for path in paths)
        assert len(there) <= len(self.creates) + 1, "nothing was done twice"


@settings(
    max_examples=15,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # to make one smaller takes minutes
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.lists(_steps, min_size=10, max_size=50))
def test_what_clients_are_told_is_true(steps: list[tuple[str, ...]]) -> None:
    history = History()
    for step in steps:
        history.step(*step)
    history.end()
    history.check()
