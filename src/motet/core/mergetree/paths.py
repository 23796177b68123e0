"""Where the keeper has a table, below its uuid; the only place that says so.

::

    /motet/database                     the number of the database, and the incarnation of the keeper
    /motet/tables/<name>                the table that has the name: its uuid
    /motet/table_nodes/<node>           a data node: how many replicas it has
      <uuid>                            of which shards of a table
    /motet/writers/<id>                 an ordered writer: its last step, and how it fares
      steps-<k>                         a chunk of its former steps
    /motet/table_data/<uuid>            empty: the table is being made; `named`; `collected`: it goes
      definition                        columns, order, partition, engine
      tokens/<token>                    what was inserted under a token
      producers/<name>                  what a producer has inserted last, by its numbers
      staging/<job>                     open, published or collected
        lease                           set while whoever stages parts for the job is there
      shards/<i>
        log/log-<n>                     the entries
        blocks/<partition>_<hash>       with dedup="content" alone: which part has brought these rows
        quorum/status/<part id>         an open quorum: how many are wanted, and who has joined
        quorum/last_part                the highest block whose quorum has ended
        quorum/failed_parts/<n>         blocks whose quorum has failed
        replicas/<r>
          host                          where it is; its version rises with each activation
          is_active                     ephemeral: the folder of the process that serves it
          is_lost                       1: it has to copy another replica's state
          log_pointer                   the next entry to execute
          queue/<n>                     entries below the pointer that are not executed
          parts/<part id>               the parts it has
"""

from __future__ import annotations

import re
from urllib.parse import quote

import msgspec

from motet.errors import BadRecord
from motet.ids import NodeId, PartId, TableId, TableName, WriterName
from motet.limits import name_length_max, table_shards_max

TABLES = "/motet/tables"
TABLE_NODES = "/motet/table_nodes"
TABLE_DATA = "/motet/table_data"
WRITERS = "/motet/writers"
ROOTS = (TABLES, TABLE_NODES, TABLE_DATA, WRITERS)
"""Are there before the first request."""


CLIENT_PRODUCER = "~"
"""Producers that clients make for themselves are called so and the client's number: each has one user."""


def is_token(token: str) -> bool:
    """Whether text may name an insert."""
    return 1 <= len(token) <= name_length_max and token.isprintable()


def token_name(token: str) -> str:
    """The name of a token's node: a word of a path, whatever the token says."""
    quoted = quote(token, safe="")
    return f"%2E{quoted[1:]}" if quoted.startswith(".") else quoted


def name_path(name: TableName) -> str:
    """The node that points to the table of this name."""
    return f"{TABLES}/{name}"


_TABLE_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def named_table(name: TableName, data: bytes) -> TableId:
    """The table that the node of a name points to; ``BadRecord`` for junk."""
    text = data.decode(errors="replace")
    if _TABLE_ID.fullmatch(text):
        return TableId(text)
    raise BadRecord(f"{name_path(name)} in the keeper points to no table: {text[:40]!r}")


def node_path(node: NodeId) -> str:
    """The node that says which replicas a data node has."""
    return f"{TABLE_NODES}/{node}"


def hosted_path(node: NodeId, table: TableId) -> str:
    """Which shards of a table a data node has replicas of."""
    return f"{node_path(node)}/{table}"


encode_shards = msgspec.json.Encoder().encode
_shards_decoder = msgspec.json.Decoder(tuple[int, ...])


def decode_shards(data: bytes) -> tuple[int, ...]:
    """Numbers of shards; ``BadRecord`` for what is none."""
    try:
        shards = _shards_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        shards = (-1,)
    if all(0 <= shard < table_shards_max for shard in shards):
        return shards
    raise BadRecord(f"{data[:40]!r} is no list of shards")


def count_of(data: bytes) -> int:
    """How many replicas a data node has; nonsense counts for nothing, it is used for balance alone."""
    return int(data) if data.isdigit() and len(data) < 10 else 0


def writer_path(writer: WriterName) -> str:
    """The node of an ordered writer."""
    return f"{WRITERS}/{writer}"


def table_root(table: TableId) -> str:
    """Everything of a table but its name."""
    return f"{TABLE_DATA}/{table}"


NAMED = b"named"
COLLECTED = b"collected"
"""What the root of a table says: who gives it its name and who collects it set it by its version."""


def definition_path(table: TableId) -> str:
    """What a table is."""
    return f"{table_root(table)}/definition"


def table_of(path: str) -> TableId:
    """The table that a path below its root is of."""
    return TableId(path.removeprefix(f"{TABLE_DATA}/").partition("/")[0])


class ShardPaths(msgspec.Struct, frozen=True):
    """The paths of one shard of a table."""

    table: TableId
    shard: int

    @property
    def root(self) -> str:
        return f"{table_root(self.table)}/shards/{self.shard}"

    @property
    def definition(self) -> str:
        return definition_path(self.table)

    def token(self, token: str) -> str:
        return f"{table_root(self.table)}/tokens/{token_name(token)}"

    @property
    def tokens(self) -> str:
        return f"{table_root(self.table)}/tokens"

    @property
    def producers(self) -> str:
        return f"{table_root(self.table)}/producers"

    @property
    def staging(self) -> str:
        """Made with the table's first job."""
        return f"{table_root(self.table)}/staging"

    def job(self, job: str) -> str:
        return f"{self.staging}/{token_name(job)}"

    def lease(self, job: str) -> str:
        return f"{self.job(job)}/lease"

    def producer(self, name: str) -> str:
        return f"{self.producers}/{token_name(name)}"

    @property
    def log(self) -> str:
        return f"{self.root}/log"

    def entry(self, number: int) -> str:
        return f"{self.log}/log-{number:010}"

    @property
    def new_entry(self) -> str:
        """Made sequential: the keeper adds the number."""
        return f"{self.log}/log-"

    @property
    def blocks(self) -> str:
        return f"{self.root}/blocks"

    def block_hash(self, partition: str, content: str) -> str:
        return f"{self.blocks}/{token_name(partition)}_{token_name(content)}"

    @property
    def statuses(self) -> str:
        return f"{self.root}/quorum/status"

    def status(self, part: PartId) -> str:
        return f"{self.statuses}/{part}"

    @property
    def last_part(self) -> str:
        return f"{self.root}/quorum/last_part"

    def failed_part(self, number: int) -> str:
        return f"{self.root}/quorum/failed_parts/{number}"

    @property
    def replicas(self) -> str:
        return f"{self.root}/replicas"

    def replica(self, node: NodeId) -> ReplicaPaths:
        return ReplicaPaths(f"{self.replicas}/{node}")


class ReplicaPaths(msgspec.Struct, frozen=True):
    """The paths of one replica of a shard."""

    root: str

    @property
    def host(self) -> str:
        return f"{self.root}/host"

    @property
    def is_active(self) -> str:
        return f"{self.root}/is_active"

    @property
    def is_lost(self) -> str:
        return f"{self.root}/is_lost"

    @property
    def log_pointer(self) -> str:
        return f"{self.root}/log_pointer"

    @property
    def queue(self) -> str:
        return f"{self.root}/queue"

    def queued(self, number: int) -> str:
        return f"{self.queue}/{number:010}"

    @property
    def parts(self) -> str:
        return f"{self.root}/parts"

    def part(self, part: PartId) -> str:
        return f"{self.parts}/{part}"


def shard_of(path: str) -> tuple[TableId, int] | None:
    """The table and the shard that a path below a shard is of."""
    table, _, rest = path.removeprefix(f"{TABLE_DATA}/").partition("/shards/")
    shard = rest.partition("/")[0]
    return (TableId(table), int(shard)) if shard.isdecimal() else None


def is_number(data: bytes) -> bool:
    """Whether a node holds a number, as ``log_pointer`` and ``last_part`` do."""
    return data.removeprefix(b"-").isdigit() and len(data) < 20


def entry_number(path: str) -> int:
    """The number in the path of an entry, as a create has answered it."""
    return int(path.rpartition("-")[2])


def layout(
    table: TableId, shards: int, replicas: tuple[NodeId, ...], *, has_dedup: bool = False
) -> tuple[tuple[str, bytes], ...]:
    """The nodes of a table but its definition and its name, parents first; all shards have these replicas."""
    (root, _), *rest = layout_of(table, (replicas,) * shards, has_dedup=has_dedup)
    return ((root, NAMED), *rest)


def layout_of(
    table: TableId, ensembles: tuple[tuple[NodeId, ...], ...], *, has_dedup: bool = False
) -> tuple[tuple[str, bytes], ...]:
    """The nodes of a table that has no name yet (T28); ``has_dedup``: it is one with ``dedup="content"``."""
    root = table_root(table)
    nodes: list[tuple[str, bytes]] = [(root, b""), (f"{root}/shards", b"")]
    nodes += [(f"{root}/tokens", b""), (f"{root}/producers", b"")]
    for shard, replicas in enumerate(ensembles):
        paths = ShardPaths(table, shard)
        quorum = f"{paths.root}/quorum"
        nodes += [(paths.root, b""), (paths.log, b""), (paths.replicas, b""), (quorum, b"")]
        nodes += [
            (f"{quorum}/status", b""),
            (f"{quorum}/failed_parts", b""),
            (paths.last_part, b"-1"),
        ]
        if has_dedup:
            nodes.append((paths.blocks, b""))
        for node in replicas:
            own = paths.replica(node)
            nodes += [
                (own.root, b""),
                (own.host, b""),
                (own.is_lost, b"0"),
                (own.log_pointer, b"0"),
            ]
            nodes += [(own.queue, b""), (own.parts, b"")]
    return tuple(nodes)
