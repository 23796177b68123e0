"""Bugs of the replicated shard log, of its operators and of what clients see of it."""

from __future__ import annotations

from motet.verify.plants.plant import SEEDS_FEW, SEEDS_SOME, Plant, Search

SHARD_PLANTS: tuple[Plant, ...] = (
    Plant(
        "direct-commit",
        rule="entries of an earlier epoch are committed only through one of the present epoch",
        rule_id="shardlog.leader B2",
        how="replaces",
        target="motet.core.shardlog.quorum.committed",
        planted_by="motet.verify.storms.streams_plants:CommitsOldEntries",
        searches=(
            Search("streams", SEEDS_SOME, ("NoLossOfConfirmedWrite", "NoLogDivergence")),
            Search("shard-log", SEEDS_FEW, ("R1",)),
        ),
    ),
    Plant(
        "no-truncation",
        rule="a follower's log is cut to the common prefix",
        rule_id="shardlog.alignment A1",
        how="replaces",
        target="motet.core.shardlog.quorum.truncation_point",
        planted_by="motet.verify.storms.streams_plants:DoesNotTruncate",
        searches=(
            Search("streams", SEEDS_FEW, ("I3", "Convergence", "NoLogDivergence", "OneState")),
            Search("shard-log", SEEDS_FEW, ("R1", "I3", "Convergence")),
        ),
    ),
    Plant(
        "commit-falls",
        rule="the commit index never falls",
        rule_id="shardlog.leader B1",
        how="bypasses",
        target="motet.core.shardlog.state.State.commit_index",
        planted_by="motet.verify.storms.streams_plants:LetsCommitFall",
        searches=(
            Search("streams", SEEDS_FEW, ("I2", "CommitNeverFalls"), is_quick=True),
            Search("shard-changes", SEEDS_FEW, ("I2", "R1"), is_quick=True),
        ),
    ),
    Plant(
        "ack-before-durable",
        rule="an acknowledgement says what is durable",
        rule_id="shardlog.follower C2",
        how="bypasses",
        target="motet.core.machine.Written",
        planted_by="motet.verify.storms.streams_plants:Hurries",
        searches=(
            Search(
                "streams",
                SEEDS_FEW,
                ("AcknowledgedStays", "NoLossOfConfirmedWrite", "NoLogDivergence"),
            ),
            Search("shard-log", SEEDS_FEW, ("R1",), is_quick=True),
        ),
    ),
    Plant(
        "read-by-deposed-leader",
        rule="a leader answers a read when a majority has confirmed that it still leads",
        rule_id="streams.reads R1",
        how="bypasses",
        target="motet.core.shardlog.state.State.confirmed_round",
        planted_by="motet.verify.storms.streams_plants:ReadsAlone",
        searches=(Search("streams", SEEDS_FEW, ("LinearizableReads",)),),
    ),
    Plant(
        "tokens-not-replicated",
        rule="a token is applied once, whoever leads",
        rule_id="streams.shard T2",
        how="bypasses",
        target="motet.core.streams.shard.ShardState.producers",
        planted_by="motet.verify.storms.streams_plants:ForgetsTokens",
        searches=(Search("streams", SEEDS_FEW, ("OneState", "TokensOnce"), is_quick=True),),
    ),
    Plant(
        "minority-elects",
        rule="an election needs a majority of the fencing ensemble",
        rule_id="operator.ensembles N1",
        how="replaces",
        target="motet.core.operator.ensembles.is_decided",
        planted_by="motet.verify.storms.streams_plants:ElectsByMinority",
        searches=(
            Search("streams", SEEDS_FEW, ("NoLossOfConfirmedWrite", "NoLogDivergence")),
            Search("shard-log", SEEDS_FEW, ("R1",), is_quick=True),
            Search("shard-changes", SEEDS_FEW, ("R1",), is_quick=True),
        ),
    ),
    Plant(
        "lowest-head-leads",
        rule="the leader has the highest head of those that answered",
        rule_id="operator.ensembles N3",
        how="replaces",
        target="motet.core.operator.ensembles.candidates",
        planted_by="motet.verify.storms.streams_plants:ElectsAnybody",
        searches=(
            Search(
                "streams", SEEDS_FEW, ("NoLossOfConfirmedWrite", "NoLogDivergence"), is_quick=True
            ),
            Search("shard-log", SEEDS_FEW, ("R1",)),
            Search("shard-changes", SEEDS_FEW, ("R1",)),
        ),
    ),
    Plant(
        "new-node-not-fenced",
        rule="the new node of a stalled change is fenced too",
        rule_id="operator.ensembles N1",
        how="replaces",
        target="motet.core.operator.ensembles.fencing_ensemble",
        planted_by="motet.verify.storms.streams_plants:DoesNotFenceNewNode",
        searches=(
            Search("streams", SEEDS_SOME, ("NoLossOfConfirmedWrite", "NoLogDivergence")),
            Search("shard-changes", SEEDS_FEW, ("R1",)),
        ),
    ),
    Plant(
        "created-without-fence",
        rule="a stream is created if nothing has been deleted since its client asked",
        rule_id="operator.streams G1",
        how="replaces",
        target="motet.core.operator.streams._checked_fence",
        planted_by="motet.verify.storms.streams_plants:CreatesLate",
        searches=(Search("streams", SEEDS_FEW, ("Deleted",)),),
    ),
    Plant(
        "deleted-by-name",
        rule="a stream is deleted if it is the one that is meant",
        rule_id="operator.deletion D2",
        how="replaces",
        target="motet.core.operator.deletion._meant",
        planted_by="motet.verify.storms.streams_plants:DeletesByName",
        searches=(Search("streams", SEEDS_SOME, ("Deleted",)),),
    ),
    Plant(
        "old-replication-factor",
        rule="a leader is told to expect as many replicas as the final ensemble has",
        rule_id="operator.elections L3",
        how="replaces",
        target="motet.core.operator.ensembles.final_factor",
        planted_by="motet.verify.storms.streams_plants:KeepsFactor",
        searches=(
            Search("streams", SEEDS_FEW, ("ValidMessages", "LegalLeaderAndEnsemble")),
            Search("shard-changes", SEEDS_FEW, ("R1", "ValidMessages", "LegalLeaderAndEnsemble")),
        ),
    ),
    Plant(
        "wiped-node-counts",
        rule="who has lost its disk does not count as one that answered",
        rule_id="operator.ensembles N2",
        how="bypasses",
        target="motet.core.shardlog.messages.FenceResponse.is_member",
        planted_by="motet.verify.storms.streams_plants:CountsTheWiped",
        searches=(Search("streams", SEEDS_FEW, ("NoLogDivergence", "NoLossOfConfirmedWrite")),),
    ),
    Plant(
        "no-compare-and-set",
        rule="metadata is written only over the version that was read",
        rule_id="operator.writing W1",
        how="bypasses",
        target="motet.core.metadata.messages.Set.version",
        planted_by="motet.verify.storms.streams_store:Store",
        searches=(
            Search("streams", SEEDS_FEW, ("EpochNeverFalls",), is_quick=True),
            Search("shard-changes", SEEDS_FEW, ("EpochNeverFalls", "R1")),
        ),
    ),
)
