"""What a client says of a shard that cannot be asked: in the reader's words, and never unknown for a read."""

from __future__ import annotations

import pytest

from motet.client.cluster.refusals import given_up, no_leader, readable, refused
from motet.core.metadata.definitions import StreamDefinition, shard_names
from motet.core.streams.cluster_messages import OperatorRefused, ShardMap, ShardPlace, StreamPlace
from motet.core.streams.messages import DataRefused, RecordsAppended, RecordsRead, ShardFeed
from motet.errors import DiskFull, MotetError, OutcomeUnknown
from motet.errors.operator import NodeLeads
from motet.errors.shards import NotLeader, ShardLost, Unavailable
from motet.ids import Epoch, NodeId, RequestId, StreamId, StreamName

N0, N1, N2 = map(NodeId, ("n0", "n1", "n2"))
ORDERS = StreamDefinition(StreamId("0123456789abcdef"), StreamName("orders"), 12, 3)
SHARDS = shard_names(ORDERS)
MAP = ShardMap(
    1,
    N0,
    (),
    (
        StreamPlace(
            ORDERS, tuple(ShardPlace(each, Epoch(1), None, (N0, N1, N2)) for each in SHARDS)
        ),
    ),
)


def test_shards_are_called_as_people_know_them() -> None:
    assert readable(f"this node does not lead shard {SHARDS[0]}", MAP) == (
        "this node does not lead orders/0"
    )
    assert readable(f"{SHARDS[11]} and {SHARDS[1]}", MAP) == "orders/11 and orders/1"
    assert readable("nothing of it", None) == "nothing of it"
    full = DataRefused(RequestId(1), DiskFull.code, f"no room for shard {SHARDS[2]}", "free some")
    error = refused(full, MAP)
    assert isinstance(error, DiskFull)
    assert (error.what, error.advice) == ("no room for orders/2", "free some")
    leads = OperatorRefused(RequestId(1), NodeLeads.code, f"n0 leads {SHARDS[2]}", "elect another")
    assert str(refused(leads, MAP)) == "NODE_LEADS n0 leads orders/2; elect another"


@pytest.mark.parametrize("kind", [RecordsRead, ShardFeed])
@pytest.mark.parametrize("why", [OutcomeUnknown("no answer"), NotLeader("nobody leads")])
def test_a_read_that_is_given_up_is_unavailable(kind: type[object], why: MotetError) -> None:
    error = given_up(why, kind, MAP, SHARDS[3])
    assert isinstance(error, Unavailable)
    assert error.what == f"orders/3 cannot be read: {why.what}"


def test_a_write_that_is_given_up_stays_unknown() -> None:
    why = OutcomeUnknown("no answer")
    assert given_up(why, RecordsAppended, MAP, SHARDS[3]) is why


def test_a_shard_without_a_leader_is_waited_for_and_one_that_is_lost_is_not() -> None:
    place = MAP.streams[0].places[4]
    waited = no_leader(MAP, place.shard, place)
    assert isinstance(waited, NotLeader)
    assert waited.what == "orders/4 has no leader right now"
    lost = ShardPlace(place.shard, place.epoch, None, place.ensemble, (N0, N2))
    error = no_leader(MAP, place.shard, lost)
    assert isinstance(error, ShardLost)
    assert error.what.startswith("n0 and n2 lost or damaged their data of orders/4, which has 3")
