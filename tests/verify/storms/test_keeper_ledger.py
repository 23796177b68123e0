"""The ledger of a simulated keeper: an entry that is no batch is refused by all and changes nothing."""

from __future__ import annotations

import pytest

from motet.core.keeper.acl import OPEN_ACL
from motet.core.keeper.config import KeeperConfig
from motet.core.keeper.ids import Generation
from motet.core.keeper.machine import Keeper
from motet.core.keeper.operations import (
    BATCH,
    OpenSession,
    Outcomes,
    Refused,
    Write,
    encode_batch,
    encode_reply,
)
from motet.core.vsr.state_machine import Entry
from motet.format.zookeeper.messages import Create
from motet.ids import ClientId, Op, SessionId
from motet.sim.faults import Faults
from motet.sim.world import World
from motet.verify.storms.keeper_ledger import Ledger

BEGIN = encode_batch([OpenSession(4_000, b"password")])
CREATE = encode_batch([Write(SessionId(1), Generation(1), Create("/a", b"1", OPEN_ACL, 0))])
JUNK = b"junk"


def entry(op: int, body: bytes, operation: int = BATCH) -> Entry:
    return Entry(Op(op), op, ClientId(1), operation, body)


class Ledgered:
    """Keepers, and the ledger that is told what they apply."""

    def __init__(self) -> None:
        self.world = World(1, Faults())
        self.ledger = Ledger(self.world, KeeperConfig(), 100)
        self.keepers: dict[str, Keeper] = {}

    def apply(self, who: str, *entries: Entry) -> None:
        keeper = self.keepers.setdefault(who, Keeper(KeeperConfig()))
        for each in entries:
            self.ledger.applied(who, keeper, each, keeper.apply(each))

    @property
    def found(self) -> list[str]:
        return [each.invariant for each in self.world.violations]


@pytest.mark.parametrize("odd", [entry(2, JUNK), entry(2, CREATE, BATCH + 1)])
def test_what_is_refused_is_not_done_by_the_model_either(odd: Entry) -> None:
    """Only "no front end sends this" is found: what comes after is as the model has it."""
    log = (entry(1, BEGIN), odd, entry(3, CREATE))
    keepers = Ledgered()
    keepers.apply("n1", *log)
    keepers.apply("n2", *log)
    for who, keeper in keepers.keepers.items():
        keepers.ledger.compare_tree(who, keeper)
    assert keepers.found == ["Z5"]


def test_an_answer_that_is_no_refusal_is_found() -> None:
    keepers = Ledgered()
    keepers.ledger.applied("n1", Keeper(), entry(1, JUNK), encode_reply(Outcomes([])))
    assert "Z1" in keepers.found


def test_a_refusal_that_changes_the_tree_is_found() -> None:
    keepers, keeper = Ledgered(), Keeper()
    keeper.apply(entry(1, BEGIN))
    keeper.apply(entry(2, CREATE))
    keepers.ledger.applied("n1", keeper, entry(1, JUNK), encode_reply(Refused("not a batch")))
    assert "Z1" in keepers.found


def test_who_does_what_others_refuse_is_found() -> None:
    keepers = Ledgered()
    keepers.apply("n1", entry(1, JUNK))
    reply = encode_reply(Outcomes([]))
    keepers.ledger.applied("n2", Keeper(), entry(1, JUNK), reply)
    assert "Z1" in keepers.found
