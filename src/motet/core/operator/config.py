"""How long an operator waits before it does something about it, and how much it does at once."""

from __future__ import annotations

import msgspec

from motet.limits import operator_requests_max


class OperatorConfig(msgspec.Struct, frozen=True):
    """Times are in milliseconds.

    A leader that dies is missed after ``dead_after_ms`` at the latest one heartbeat later. Then an election
    takes two writes in the store and two round trips to nodes, and ``grace_ms`` if a node does not answer: in
    sum well below two seconds.
    """

    heartbeat_ms: int = 200
    #: a node that has not answered for so long is taken for dead
    dead_after_ms: int = 1_000
    #: how often what is under way is looked at; between heartbeats, while something is
    tick_ms: int = 50
    #: after the majority has answered, so long are the others waited for that seem alive
    grace_ms: int = 100
    #: what was not answered is sent again; doubles up to the maximum where it says so
    retry_ms: int = 300
    retry_ms_max: int = 5_000
    #: an election without a majority is begun anew in a higher epoch after so long; doubles up to the maximum
    election_ms: int = 3_000
    election_ms_max: int = 60_000
    #: a leader that does not answer a step of its election or a reconfiguration for so long is replaced
    step_ms: int = 3_000
    #: an election or reconfiguration of another operator is left alone as long as it moves within this
    foreign_ms: int = 2_000
    #: a new node that has fetched nothing more of its snapshot for so long is given up
    snapshot_ms: int = 60_000
    #: a contraction that stays unsafe for so long is rolled back
    unsafe_ms: int = 30_000
    #: a store that says nothing for so long has an unknown outcome
    store_ms: int = 10_000
    #: a shard that was taken over from another operator is read once more after so long
    look_again_ms: int = 15_000
    #: replicas of a dead node are replaced after so long
    replace_after_ms: int = 30_000
    #: before a shard is created, nodes of other shards have so long to say which clocks were handed out
    creation_ms: int = 10_000
    #: leaderships are balanced by one after so long in which every shard was steady
    balance_after_ms: int = 10_000
    #: a node whose wall was wrong leads nothing until it has been right for so long
    drift_hold_ms: int = 10_000
    #: changes of ensembles that the operator begins by itself and that are under way at once
    moves_max: int = 4
    #: changes of the shard map are gathered so long before they are pushed
    map_ms: int = 20
    #: nodes that answer no heartbeats get the shard map again this often
    map_again_ms: int = 5_000
    #: a client is told that it is not known after so long
    request_ms: int = 60_000
    requests_max: int = operator_requests_max
    #: replicas of a stream that does not say how many
    replicas: int = 3
