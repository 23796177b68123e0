"""The variants of the shard log by name, with the size at which each shows what it has to show."""

from __future__ import annotations

from motet.verify.model import Variant
from motet.verify.models.shard_log import scripts, variants
from motet.verify.models.shard_log.reconfiguring import ShardLog
from motet.verify.models.shard_log.variants import Hoping, Led, Repaired

FOUR = {"nodes": 4, "epochs": 3, "values": 1}


LOST, DIVERGED = "NoLossOfConfirmedWrite", "NoLogDivergence"

_PUBLISHED: list[tuple[str, str, type[ShardLog], str, dict[str, int]]] = [
    (
        "one-answer-election",
        "an operator chooses a leader after one answer",
        variants.OneAnswer,
        LOST,
        {},
    ),
    (
        "lowest-head-leader",
        "the node with the lowest head becomes leader",
        variants.LowestHead,
        LOST,
        {},
    ),
    (
        "fence-old-ensemble",
        "a node that a stalled swap may have added is not fenced",
        variants.FenceOldEnsemble,
        LOST,
        FOUR,
    ),
    (
        "factor-before-election",
        "as published, a leader is told the replication factor before the election",
        variants.FactorBeforeElection,
        "LeaderKnowsRepFactor",
        FOUR | {"values": 0},
    ),
    (
        "unchecked-completion",
        "as published, an operator completes a swap without a version check",
        variants.UncheckedCompletion,
        "MetadataEpochNeverFalls",
        FOUR | {"values": 0, "operators": 2},
    ),
    (
        "commit-index-falls",
        "as published, the commit index is counted anew after a swap",
        variants.CommitIndexFalls,
        "CommitIndexNeverFalls",
        FOUR,
    ),
    (
        "idle-contract",
        "as published, a contraction of an idle shard never ends",
        variants.IdleContract,
        "ReconfigurationCompletes",
        {"nodes": 4, "rep_factor": 4, "epochs": 2, "values": 1},
    ),
    (
        "first-confirmation",
        "as published, the first confirmation after an expansion is dropped",
        variants.FirstConfirmation,
        "ValuesAreCommitted",
        {"nodes": 4, "epochs": 2, "values": 1},
    ),
    (
        "truncate-to-own-head",
        "a late follower is cut back to the leader's head, wherever that is by now",
        variants.TruncateToOwnHead,
        DIVERGED,
        {"values": 2, "epochs": 2},
    ),
    (
        "no-truncation",
        "followers are attached without being cut back",
        variants.NoTruncation,
        DIVERGED,
        {"values": 2, "epochs": 2},
    ),
    (
        "replaced-epoch",
        "as published, a follower keeps an entry of an epoch that the leader's log has not",
        variants.ReplacedEpoch,
        DIVERGED,
        {"values": 4, "epochs": 4},
    ),
    (
        "commit-old-epochs",
        "entries of earlier epochs are committed directly",
        variants.CommitOldEpochs,
        LOST,
        {"values": 2, "epochs": 4},
    ),
    (
        "contract-rolls-forward",
        "an election carries out a contraction that had not been committed",
        variants.ContractRollsForward,
        LOST,
        {"nodes": 5, "rep_factor": 5, "epochs": 3, "values": 1},
    ),
]


def published_variants() -> dict[str, Variant]:
    """What must fail: the published defects, and what the text warns of."""
    return {
        name: Variant(what, model, breaks, size) for name, what, model, breaks, size in _PUBLISHED
    }


def _from(script_: scripts.Script) -> type[ShardLog]:
    class FromThere(Repaired, Led):
        script = script_

    return FromThere


class RepairedContract(Repaired, Hoping):
    """The repaired model where the published one waits for ever."""

    script = scripts.CONTRACT_IDLE


class RepairedConfirmation(Repaired, Hoping):
    """The repaired model where the published one drops a confirmation."""

    script = scripts.EXPANDED


def repaired_variants() -> dict[str, Variant]:
    """The repaired model from the places where the published one fails: here it holds."""
    return {
        "stalled-swap": Variant(
            "a swap that only the leader has heard of, resolved by an election",
            _from(scripts.SWAP_AT_LEADER),
            None,
            FOUR | {"values": 0},
        ),
        "stalled-expand": Variant(
            "an expansion in its commit phase, resolved by an election",
            _from(scripts.EXPAND_FENCED),
            None,
            FOUR | {"values": 0},
        ),
        "two-operators": Variant(
            "two operators, one of them with a swap to complete",
            _from(scripts.TWO_OPERATORS),
            None,
            FOUR | {"values": 0, "operators": 2},
        ),
        "dirty-follower": Variant(
            "a late follower with a dirty entry",
            _from(scripts.DIRTY_FOLLOWER),
            None,
            {"values": 2, "epochs": 2},
        ),
        "replaced-epoch": Variant(
            "a follower that is cut back to an epoch it has no entry of",
            _from(scripts.REPLACED_EPOCH),
            None,
            {"values": 4, "epochs": 4},
        ),
        "idle-contract": Variant(
            "a contraction of an idle shard",
            RepairedContract,
            None,
            {"nodes": 4, "rep_factor": 4, "epochs": 2, "values": 1},
        ),
        "first-confirmation": Variant(
            "the first confirmation after an expansion",
            RepairedConfirmation,
            None,
            {"nodes": 4, "epochs": 2, "values": 1},
        ),
    }
