"""Ways into the shard log, step by step, to where its faults are; see ``explore.instances.led``."""

from __future__ import annotations

Script = tuple[str, ...]


def elected(leader: int, *others: int, late: tuple[int, ...] = (), epoch: int = 1) -> Script:
    """An election whose majority is the leader and the others; the late ones are added after it."""
    first, *middle = sorted((leader, *others))
    *before, last = (first, *middle)
    return (
        "OperatorStartsElection(o0",
        *(
            f"NodeHandlesFencingRequest((node={n} operator=0 epoch={epoch}"
            for n in sorted((leader, *others, *late))
        ),
        *(
            f"OperatorHandlesPreQuorumFencingResponse((node={n} operator=0 epoch={epoch}"
            for n in before
        ),
        f"OperatorHandlesQuorumFencingResponse((node={last} operator=0 epoch={epoch}",
        f"NodeHandlesBecomeLeaderRequest((node={leader}",
        "OperatorHandlesBecomeLeaderResponse",
        *(step for n in late for step in added(n)),
    )


def added(late: int) -> Script:
    """A node whose answer came after the election."""
    return (
        f"OperatorHandlesPostQuorumFencingResponse((node={late}",
        "LeaderHandlesAddFollowerRequest",
    )


def written(value: int, leader: int, *followers: int) -> Script:
    """A value that these followers have and whose client is told, if they are enough."""
    return (
        f"Write(n{leader}, v{value})",
        f"LeaderSendsEntriesToFollowers(n{leader})",
        *(f"FollowerConfirmsEntry((dest_node={n}" for n in followers),
        *(f"LeaderHandlesEntryConfirm((dest_node={leader} source_node={n}" for n in followers),
    )


def changing(start: str) -> Script:
    """A swap or an expansion up to its commit phase."""
    return (
        start,
        "LeaderHandlesPrepareReconfigRequest",
        "OperatorHandlesPrepareReconfigResponse",
        "NodeHandlesSnapshotRequest",
        "OperatorHandlesSnapshotResponse",
    )


STARTED: Script = ("OperatorStarts(o0)",)
STEADY: Script = (*STARTED, *elected(0, 1, late=(2,)))

SWAP = "OperatorStartsNodeSwapReconfiguration(o0, n2, n3)"
EXPAND = "OperatorStartsExpandReconfiguration(o0, n3)"

SWAP_AT_LEADER: Script = (
    *STEADY,
    *changing(SWAP),
    "LeaderHandlesCommitNodeSwapReconfigRequest",
)
"""The leader has swapped n2 for n3; the metadata does not say so yet."""

SWAP_AFTER_WRITE: Script = (*STEADY, *written(0, 0, 1, 2), *changing(SWAP))
"""A value is confirmed, and a swap is in its commit phase."""

EXPAND_STALLED: Script = (*STEADY, *changing(EXPAND))

EXPAND_FENCED: Script = (
    *EXPAND_STALLED,
    "OperatorStartsElection(o0",
    *(f"NodeHandlesFencingRequest((node={n} operator=0 epoch=3" for n in range(4)),
)
"""An election has begun over a stalled expansion, and all four nodes are fenced."""

EXPANDED: Script = (
    *EXPAND_STALLED,
    "LeaderHandlesCommitExpandReconfigRequest",
    "OperatorCompletesReconfiguration",
)

TWO_OPERATORS: Script = (*SWAP_AT_LEADER, "OperatorStarts(o1)")

DIRTY_FOLLOWER: Script = (
    *STARTED,
    *elected(0, 1),
    "Write(n0, v0)",
    *elected(1, 2, epoch=2),
    *written(1, 1, 2),
    "NodeHandlesFencingRequest((node=0 operator=0 epoch=2",
    "OperatorHandlesPostQuorumFencingResponse((node=0 operator=0 epoch=2",
)
"""n0 has an entry of the first epoch that nobody else has; it is late, and the leader has written since."""

OLD_ENTRY_AT_MAJORITY: Script = (
    *STARTED,
    *elected(0, 1),
    "Write(n0, v0)",
    *elected(1, 2, epoch=2),
    "Write(n1, v1)",
    *elected(0, 2, epoch=3),
)
"""n0 has (1,1) alone, n1 has (2,1) alone, and n0 leads the third epoch with n2."""

REPLACED_EPOCH: Script = (
    *OLD_ENTRY_AT_MAJORITY,
    "Write(n0, v2)",
    *elected(1, 2, epoch=4),
    "NodeHandlesFencingRequest((node=0 operator=0 epoch=4",
    "OperatorHandlesPostQuorumFencingResponse((node=0 operator=0 epoch=4",
)
"""n0 has (1,1) and (3,2); n1 leads the fourth epoch with (2,1), and n0 is about to be added."""

CONTRACT_OF_FIVE: Script = (
    *STARTED,
    *elected(0, 1, 2, late=(3, 4)),
    *written(0, 0, 3, 4),
    "OperatorStartsContractReconfiguration(o0, n4)",
    "LeaderHandlesPrepareReconfigRequest",
    "OperatorHandlesPrepareReconfigResponse",
)
"""A value is on n0, n3 and n4 of five, and n4 is about to be removed."""

CONTRACT_IDLE: Script = (
    *STARTED,
    *elected(0, 1, 2, late=(3,)),
    *written(0, 0, 1, 2, 3),
    "OperatorStartsContractReconfiguration(o0, n3)",
    "LeaderHandlesPrepareReconfigRequest",
    "OperatorHandlesPrepareReconfigResponse",
)
"""Four nodes have all there is, nothing more is written, and one node is about to be removed."""
