"""All that is said about tables over the network: what comes to a node, and what clients are answered."""

from __future__ import annotations

from typing import get_args

from motet.core.machine import Message
from motet.core.mergetree.messages import (
    BlockInserted,
    ChangeSettings,
    CreateTable,
    DescribeTables,
    DropPartitions,
    DropsAre,
    DropTable,
    FindStep,
    FindVersion,
    HoldPart,
    InsertBlock,
    JobStanding,
    ListParts,
    ListTables,
    LogHas,
    NodeAnswer,
    NodeRefused,
    NoteWriter,
    OpenJob,
    PartArrived,
    PartBroken,
    PartHeld,
    PartitionsDropped,
    PartPushed,
    PartsListed,
    PartsPublished,
    PartStaged,
    PublishParts,
    ReadDrops,
    ReadSteps,
    ReadWriters,
    RenameTable,
    RenewJob,
    StagePart,
    StepFound,
    StepsAre,
    TableAnswer,
    TableChanged,
    TableReady,
    TableRefused,
    TablesDescribed,
    TablesListed,
    VersionFound,
    WriterNoted,
    WritersAre,
)
from motet.core.mergetree.standing_messages import (
    DescribeReplicas,
    ReadShardLog,
    ReplicasDescribed,
    ShardLogIs,
)

ReplicaMessages = (
    InsertBlock
    | DropPartitions
    | ListParts
    | StagePart
    | FindVersion
    | LogHas
    | PartPushed
    | HoldPart
    | PartHeld
    | ReadDrops
    | DropsAre
)
"""What comes to a replica over the network."""

NodeRequests = (
    CreateTable
    | DropTable
    | RenameTable
    | ChangeSettings
    | ListTables
    | DescribeTables
    | PublishParts
    | ReadWriters
    | NoteWriter
    | ReadSteps
    | FindStep
    | OpenJob
    | RenewJob
    | DescribeReplicas
    | ReadShardLog
)

TableCall = ReplicaMessages | NodeRequests
"""Everything that comes to a node about tables over the network."""

ClientCalls = (InsertBlock, DropPartitions, ListParts, StagePart, FindVersion)
"""What a client may ask a replica."""

TablesAnswer = (
    BlockInserted
    | PartitionsDropped
    | PartsListed
    | PartStaged
    | VersionFound
    | TableRefused
    | TableReady
    | TableChanged
    | TablesListed
    | TablesDescribed
    | PartsPublished
    | WritersAre
    | WriterNoted
    | StepsAre
    | StepFound
    | JobStanding
    | ReplicasDescribed
    | ShardLogIs
    | NodeRefused
)
"""All answers to clients."""

REFERENCE: tuple[tuple[type[Message], str, str], ...] = (
    *((kind, "client", "replica") for kind in ClientCalls),
    *(
        (kind, "replica", "client")
        for kind in get_args(TablesAnswer)
        if issubclass(kind, TableAnswer)
    ),
    *((kind, "replica", "replica") for kind in (LogHas, PartPushed, HoldPart, PartHeld)),
    (ReadDrops, "node", "replica"),
    (DropsAre, "replica", "node"),
    *((kind, "node", "replica") for kind in (PartArrived, PartBroken)),
    *((kind, "client", "node") for kind in get_args(NodeRequests)),
    *((kind, "node", "client") for kind in get_args(TablesAnswer) if issubclass(kind, NodeAnswer)),
)
"""Who says what to whom."""
