"""Commands for the keeper that operators of a script work with: who is active, and what others write."""

from __future__ import annotations

from typing import Literal

import msgspec

from motet.core.metadata.definitions import decode_stream_definition, shard_name
from motet.core.metadata.messages import (
    METADATA,
    NO_SESSION,
    Changed,
    Deposed,
    Elected,
    SessionBegun,
)
from motet.core.metadata.paths import (
    CLOCK_ENABLED,
    MAP_TERM,
    OPERATORS,
    SETTINGS,
    SHARDS,
    shard_path,
    stream_path,
)
from motet.core.operator.operator import Operator
from motet.core.streams.cluster_messages import decode_metadata, encode_metadata
from motet.errors import BadScenario
from motet.ids import Epoch, SessionId, ShardName, StreamId, StreamName
from motet.testing.bench_part import BenchPart
from motet.testing.part import verb
from motet.testing.scripts.operator_bench import OperatorBench, named_shard, told_metadata
from motet.testing.scripts.operator_puppets import PuppetKeeper

KEEPER_NAME = str(METADATA)


class KeeperCommands(BenchPart):
    """The part of the commands that is about the keeper."""

    def __init__(self) -> None:
        self.bench: OperatorBench = OperatorBench()
        self.streams: dict[str, StreamId] = {}
        self.active = "o1"

    @verb
    def promote(self, operator: str) -> list[str]:
        """Tell an operator that it is the active one; the others are not told anything."""
        self.active = operator
        lines = []
        session = self._session(operator)
        if session in (None, NO_SESSION):
            session = self._keeper().tree.begin_session()
            lines += self.bench.receive(operator, KEEPER_NAME, SessionBegun(session))
        elected = Elected(session, OPERATORS, f"{OPERATORS}/{operator}-0")
        lines += self.bench.receive(operator, KEEPER_NAME, elected)
        return [*lines, *self.bench.run_ms(20)]

    def _session(self, operator: str) -> SessionId | None:
        """The session of an operator, 0 for none; None if it does not run."""
        machine = self.bench.node(operator).machine
        return machine.core.state.session if isinstance(machine, Operator) else None

    @verb
    def depose(self, operator: str) -> list[str]:
        """Tell an operator that it is not the active one."""
        session = self._session(operator)
        assert session is not None, f"{operator} runs"
        return self.bench.receive(operator, KEEPER_NAME, Deposed(session, OPERATORS))

    def _changed(self, path: str) -> list[str]:
        running = [name for name, node in self.bench.nodes.items() if name.startswith("o")]
        lines = []
        for name in running:
            session = self._session(name)
            if session is not None:
                lines += self.bench.receive(name, KEEPER_NAME, Changed(session, path))
        return [*lines, *self.bench.settle()]

    @verb
    def mishap(self, *kinds: Literal["ok", "unknown", "lost", "fail"]) -> list[str]:
        """How the next writes in the store end: written or not, and not told; or not reachable."""
        self._keeper().mishaps += kinds
        return []

    @verb
    def steal(self, shard: str | None = None) -> list[str]:
        """Somebody else writes the metadata of a shard as it is, with a higher version."""
        path = shard_path(self._shard(shard))
        self._keeper().put(path, self._stored(path)[0])
        return []

    @verb
    def put_metadata(self, shard: str | None = None, *, epoch: int) -> list[str]:
        """Somebody else raises the epoch of a shard."""
        path = shard_path(self._shard(shard))
        changed = msgspec.structs.replace(
            decode_metadata(self._stored(path)[0]), epoch=Epoch(epoch)
        )
        self._keeper().put(path, encode_metadata(changed))
        return []

    def _fence(self) -> int:
        """What a client with the newest map would name."""
        found = self._keeper().get(MAP_TERM)
        return 0 if found is None else found[1]

    def _stream_id(self, name: StreamName) -> StreamId:
        """The id of the stream that has a name now; one that nobody has if there is none."""
        found = self._keeper().get(stream_path(name))
        return StreamId("0" * 16) if found is None else decode_stream_definition(found[0]).id

    def _stored(self, path: str) -> tuple[bytes, int]:
        found = self._keeper().get(path)
        assert found is not None, f"{path} is there"
        return found

    @verb
    def setting(self, text: str | None = None) -> list[str]:
        """Somebody else writes the setting of the clock, or it is ``gone``; without a text it is told."""
        there = self._keeper().get(CLOCK_ENABLED)
        if text is None:
            return ["no setting" if there is None else f"{there[0].decode()} version {there[1]}"]
        if text == "gone":
            self._keeper().delete(CLOCK_ENABLED)
        else:
            self._keeper().put(CLOCK_ENABLED, text.encode())
        return self._changed(SETTINGS)

    @verb
    def metadata(self, *shards: str) -> list[str]:
        """What the store has of shards."""
        wanted = [shard_path(self._shard(name)) for name in shards]
        stored = [f"{SHARDS}/{name}" for name in self._keeper().tree.names(SHARDS)]
        found = [self._keeper().get(path) for path in wanted or stored]
        return [
            "gone" if each is None else self._short(told_metadata(decode_metadata(each[0])))
            for each in found
        ]

    def _keeper(self) -> PuppetKeeper:
        machine = self.bench.node(KEEPER_NAME).machine
        if machine is None:
            self.bench.start(KEEPER_NAME)
            machine = self.bench.node(KEEPER_NAME).machine
        assert isinstance(machine, PuppetKeeper)
        return machine

    def _shard(self, name: str | None) -> ShardName:
        stream, number = named_shard(name or "orders.0")
        if stream not in self.streams:
            raise BadScenario(f"there is no stream {stream!r} yet")
        return shard_name(self.streams[stream], number)

    def _short(self, text: str) -> str:
        for long, short in self.bench.short.items():
            text = text.replace(long, short)
        return text
