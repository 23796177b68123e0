"""The figures of transactions; simulations use smaller ones."""

from __future__ import annotations

import msgspec

from motet.limits import bundle_bytes_max, milestone_step_bytes, outcomes_remembered


class TransactionConfig(msgspec.Struct, frozen=True):
    """How leaders behave towards transactions."""

    #: how often everything that is late is looked at
    sweep_ms: int = 100
    #: a prepare that has not been decided for so long asks its home shard, which gives it up
    doubt_ms: int = 3_000
    #: what was not acknowledged for so long is told again
    tell_ms: int = 500
    #: how long the answer to a commit waits for participants to log it
    adjust_ms: int = 1_000
    #: how long somebody waits for a lock, or for a clock to be closed
    wait_ms: int = 5_000
    #: a shard whose last entry is older than this closes when somebody asks
    close_ms: int = 100
    #: of so many transactions a shard remembers what became of them
    outcomes_remembered: int = outcomes_remembered
    #: so much of a log is between two milestones at first: what has to be read to find something
    milestone_bytes: int = milestone_step_bytes
    #: the latest changes of keys are carried on in entries of so many bytes, give or take the last one
    carry_bytes: int = bundle_bytes_max
    #: what the nodes of the cluster seal votes with, up to 64 bytes
    vote_key: bytes = b""
