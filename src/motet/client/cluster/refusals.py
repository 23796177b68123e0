"""What a client says of a shard that it cannot ask."""

from __future__ import annotations

from motet.core.operator.messages import ShardMap, ShardPlace
from motet.errors.shards import NotLeader, ShardLost
from motet.ids import ShardName


def no_leader(
    shards: ShardMap, shard: ShardName, place: ShardPlace | None
) -> NotLeader | ShardLost:
    """Why nobody leads it: an election is under way, or there can be none."""
    label = shards.label(shard)
    if place is None or not place.wiped:
        return NotLeader(f"{label} has no leader right now", hint="try again in a moment")
    lost, copies = " and ".join(place.wiped), len(place.ensemble)
    return ShardLost(
        f"{lost} lost or damaged their data of {label}, which has {copies} replicas: "
        "too few are left to elect a leader"
    )
