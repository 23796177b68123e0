"""Bugs of replicated tables."""

from __future__ import annotations

from motet.verify.plants.plant import SEEDS_FEW, Plant, Search

_BY = "motet.verify.storms.tables_plants:"

TABLE_PLANTS: tuple[Plant, ...] = (
    Plant(
        "ack-before-quorum",
        rule="an insert with a quorum is answered when the log says how that ended",
        rule_id="mergetree.inserting I3",
        how="replaces",
        target="motet.core.mergetree.inserting.look",
        planted_by=f"{_BY}AcksBeforeQuorum",
        searches=(Search("tables", SEEDS_FEW, ("AckedOnce",), is_quick=True),),
    ),
    Plant(
        "duplicate-acknowledged-while-open",
        rule="a retry is acknowledged when the block of its token is visible",
        rule_id="mergetree.inserting I4",
        how="replaces",
        target="motet.core.mergetree.inserting.look",
        planted_by=f"{_BY}AcksOpenDuplicates",
        searches=(Search("tables", SEEDS_FEW, ("AckedOnce",)),),
    ),
    Plant(
        "own-entry-executed-again",
        rule="an entry whose part is here is not executed again",
        rule_id="mergetree.executing E1",
        how="replaces",
        target="motet.core.mergetree.executing.queue_parts",
        planted_by=f"{_BY}ExecutesOwnEntries",
        searches=(Search("tables", SEEDS_FEW, ("ExecutedOnce", "Converged")),),
    ),
    Plant(
        "failed-block-is-waited-for",
        rule="a part of a block that has failed is not wanted any more, and holds nothing up",
        rule_id="mergetree.executing E2",
        how="replaces",
        target="motet.core.mergetree.executing.is_unwanted",
        planted_by=f"{_BY}WantsFailed",
        searches=(Search("tables", SEEDS_FEW, ("Converged",)),),
    ),
    Plant(
        "late-multi-of-a-former-life",
        rule="every multi that names own parts checks the version of the own host",
        rule_id="mergetree.activation A2",
        how="replaces",
        target="motet.core.mergetree.context.Core.write",
        planted_by=f"{_BY}SendsUnchecked",
        searches=(Search("tables", SEEDS_FEW, ("Registered", "Quorum", "Converged", "Readable")),),
    ),
    Plant(
        "publication-seen-by-halves",
        rule="a reader is answered when all parts of its version are here",
        rule_id="mergetree.reading W2",
        how="replaces",
        target="motet.core.mergetree.reading.tile",
        planted_by=f"{_BY}ShowsHalves",
        searches=(Search("tables", SEEDS_FEW, ("PublicationWhole",)),),
    ),
    Plant(
        "publish-after-its-holder-died",
        rule="a publication checks the version of the host that each holder told",
        rule_id="mergetree.publishing G3",
        how="replaces",
        target="motet.core.mergetree.publishing.multi_of",
        planted_by=f"{_BY}PublishesUnchecked",
        searches=(Search("tables", SEEDS_FEW, ("Held",)),),
    ),
    Plant(
        "pointer-before-file",
        rule="what was learned from entries is durable here before the pointer passes them",
        rule_id="mergetree.executed L2",
        how="replaces",
        target="motet.core.mergetree.executed.pointer_operations",
        planted_by=f"{_BY}HurriesPointer",
        searches=(Search("tables", SEEDS_FEW, ("L2",)),),
    ),
    Plant(
        "producer-commits-trust-versions",
        rule="a commit checks the part that the commit registers that it builds upon",
        rule_id="mergetree.tokens K4",
        how="replaces",
        target="motet.core.mergetree.tokens.chain",
        planted_by=f"{_BY}TrustsVersions",
        searches=(Search("tables", SEEDS_FEW, ("OnlyInserted", "AckedOnce", "Converged")),),
    ),
    Plant(
        "hash-older-than-a-drop",
        rule="a hash that is older than the last drop of its partition counts as absent",
        rule_id="mergetree.dedup U2",
        how="replaces",
        target="motet.core.mergetree.dedup.is_dropped",
        planted_by=f"{_BY}KnowsDroppedRows",
        searches=(Search("tables", SEEDS_FEW, ("AckedOnce", "Converged")),),
    ),
)
