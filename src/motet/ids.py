"""Names and numbers that cross function boundaries, each a type of its own.

A bare ``int`` says nothing about what it counts; a ``WriteId`` cannot be handed in where a ``ReadId``
is meant without the type checker noticing. None of these cost anything at run time.
"""

from typing import NewType

NodeId = NewType("NodeId", str)
"""A node of the cluster, for instance ``n1``; stable over restarts."""

Address = NewType("Address", str)
"""Whom a message comes from or goes to: a node's id, or ``client-7`` for a connected client."""

FileName = NewType("FileName", str)
"""A file of one machine, relative to the machine's own folder; no separators."""

WriteId = NewType("WriteId", int)
"""One change to the disk asked for by one machine; never used twice in one incarnation."""

ReadId = NewType("ReadId", int)
"""One read from the disk asked for by one machine; never used twice in one incarnation."""

WorkId = NewType("WorkId", int)
"""One piece of work asked for by one machine; never used twice in one incarnation."""

TimerName = NewType("TimerName", str)
"""A timer of one machine; setting it again moves it."""

ObjectKey = NewType("ObjectKey", str)
"""The name of one object in an object store, parts separated by ``/``."""

RequestId = NewType("RequestId", int)
"""One request of one sender; the pair is what an answer is matched by."""

StreamName = NewType("StreamName", str)
"""A change stream of the database."""

ShardId = NewType("ShardId", int)
"""A shard of a stream, from 0."""

StreamId = NewType("StreamId", str)
"""A stream for ever, 16 hex digits; another stream of the same name has another id."""

ShardName = NewType("ShardName", str)
"""A shard for ever, what users see: its stream's id and its number, ``4f2a91c03b7de210.3``."""

LogName = NewType("LogName", ShardName)
"""A log for ever: what is replicated, by one ensemble with one leader. Today each log holds one shard and has
its name; the log of a shard is ``LogName(shard)``."""

Epoch = NewType("Epoch", int)
"""A period of a shard with at most one leader; only ever rises. 0 is before the first."""

Offset = NewType("Offset", int)
"""An entry's place in its shard, from 0; -1 is before the first."""

TransactionId = NewType("TransactionId", str)
"""A transaction, unique in its database."""

TableName = NewType("TableName", str)
"""A table of the database."""

TableId = NewType("TableId", str)
"""A table for ever, 16 hex digits; another table of the same name has another id."""

PartId = NewType("PartId", str)
"""A part's files, 16 hex digits, minted when they are written and never used again."""

WriterName = NewType("WriterName", str)
"""An ordered writer, for instance a pipeline."""

ClusterId = NewType("ClusterId", int)
"""A cluster for ever, drawn when its files are formatted."""

ReplicaIndex = NewType("ReplicaIndex", int)
"""A replica's place in its cluster, from 0; the primary of a view is view modulo the replica count."""

View = NewType("View", int)
"""A period with one primary; only ever rises."""

Op = NewType("Op", int)
"""An operation's place in the one order of all operations; 0 is the root, which every log begins with."""

ClientId = NewType("ClientId", int)
"""A client of a cluster, 63 random bits of its own choice; 0 is the cluster itself."""

Zxid = NewType("Zxid", int)
"""A write's place in the one order of all writes, from 1; the writes of one multi share theirs."""

SessionId = NewType("SessionId", int)
"""A client's session, from 1, never used again; as the owner of a node 0 is nobody."""
