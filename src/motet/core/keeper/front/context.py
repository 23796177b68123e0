"""What the parts of a front end share: its replica, its connections, and the effects of a step so far.

Each part is a module of functions over a ``FrontEndContext``, which looks at the replica through ``core`` and
never changes it.
"""

from __future__ import annotations

import hashlib
from typing import Self

import msgspec

from motet.core.fingerprint import clone_plain, fingerprint
from motet.core.keeper.front.connections import Connection, Connections
from motet.core.keeper.front.lanes import Lanes
from motet.core.keeper.front.pulses import Pulses
from motet.core.keeper.front.reads import Reads
from motet.core.keeper.front.watches import Watches
from motet.core.keeper.machine import Keeper
from motet.core.keeper.messages import Answer, FrontEndConfig, Hangup, answer_bytes
from motet.core.machine import Effect, Message, Now, Send
from motet.core.vsr.context import Core
from motet.ids import Address, Op, View


class FrontEndState(msgspec.Struct):
    """All there is to a front end but its lanes."""

    nonce: int = 0
    passwords_drawn: int = 0
    #: as far as the keeper is, and its stream is taken
    applied: Op = Op(-1)
    #: the last in which this replica was in order
    view: View = View(-1)
    connections: Connections = msgspec.field(default_factory=Connections)
    reads: Reads = msgspec.field(default_factory=Reads)
    watches: Watches = msgspec.field(default_factory=Watches)
    pulses: Pulses = msgspec.field(default_factory=Pulses)


class FrontEndContext:
    """A front end while it takes a step."""

    def __init__(self, core: Core, config: FrontEndConfig) -> None:
        assert isinstance(core.machine, Keeper)
        self.core = core
        self.keeper = core.machine
        self.config = config
        reply_bytes_max = self.keeper.config.reply_bytes_max
        self.lanes = Lanes(core.config, core.own, config.lanes, reply_bytes_max)
        self.state = FrontEndState()
        self.now = Now(0, 0)
        self.effects: list[Effect] = []

    def send(self, address: Address, message: Message) -> None:
        self.effects.append(Send(address, message))

    def answer(self, connection: Connection, answer: Answer) -> None:
        """Give an answer, and count it as long as it has not left (C6)."""
        self.send(connection.address, answer)
        unsent_bytes = connection.unsent_bytes + answer_bytes(answer.result)
        self.state.connections.set_unsent(connection, unsent_bytes, self.config.unsent_bytes_free)

    def hang_up(self, connection: Connection, why: str) -> None:
        """What it was not told by now, its client will not know."""
        self.send(connection.address, Hangup(why))
        self.leave(connection, is_gone=False)

    def leave(self, connection: Connection, *, is_gone: bool) -> None:
        """It is over, by our wish or because it is ``gone``."""
        self.state.watches.forget(connection.address)
        self.state.pulses.heard.pop(connection.address, None)
        self.state.connections.leave(connection, is_gone=is_gone)

    def draw_password(self) -> bytes:
        """Sixteen bytes that nobody can guess who does not know the nonce."""
        state = self.state
        state.passwords_drawn += 1
        seed = f"{state.nonce} {state.passwords_drawn}".encode()
        return hashlib.blake2b(seed, digest_size=16, person=b"keeper password").digest()

    # What a driver and a checker need

    def clone(self, core: Core) -> Self:
        twin = type(self)(core, self.config)
        twin.lanes, twin.state, twin.now = self.lanes.clone(), clone_plain(self.state), self.now
        return twin

    def fingerprint(self) -> bytes:
        return fingerprint((self.state, self.lanes.fingerprint()))
