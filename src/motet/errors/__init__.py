"""Every error that leaves Motet: one tree, each with a code, what happened, and what to do.

::

    MotetError                     above all of them
    ├── BadInput                   the caller gave something we cannot take; nothing was changed
    │   ├── BadClock               a clock text or number outside 42 and 22 bits
    │   ├── BadConfig              a setting that does not exist or does not fit
    │   ├── BadCursor              a cursor that is garbled, or of another database or other streams
    │   ├── BadBookmark            a bookmark that is garbled, or of another database
    │   ├── NoSuchStream           there is no stream of that name
    │   ├── NoSuchShard            the stream has no such shard, or the node does not hold it
    │   ├── StreamExists           there is one already, and it is a different one
    │   ├── NoSuchTable            there is no table of that name
    │   ├── TableExists            there is one already, and it is a different one
    │   ├── BadSchema              a schema or a row that does not fit; it names the column
    │   ├── BadPipeline            a pipeline file that cannot be run
    │   ├── BadCheckpoint          a checkpoint of another database, or ahead of the tables
    │   ├── MissingLibrary         an optional library, or Java, is not installed
    │   ├── TooLarge               a row, a key or a transaction beyond its bound
    │   ├── BadScenario            a golden script that does not parse
    │   ├── KernelDisagrees        a fast form of a model that does not say what its text says
    │   ├── BadHistory             a history that was recorded wrongly, or cannot be judged
    │   ├── CursorExpired          the feed after a cursor is no longer kept (``errors.shards``)
    │   ├── CursorInTheWay         a named cursor has not read what is to be pruned (``errors.shards``)
    │   ├── OffsetExpired          what is asked for is no longer kept (``errors.shards``)
    │   ├── TokenReused            a token that was used for other rows (``errors.tables``)
    │   ├── TableMoved             the name stands for another table than it did (``errors.tables``)
    │   ├── SnapshotExpired        a version that is not kept any more (``errors.tables``)
    │   └── StagingEnded           the staging job is over, or was not renewed (``errors.tables``)
    ├── BadBytes                   bytes that are not what they should be
    │   ├── BadFrame               a frame that is torn, foreign, too large or damaged
    │   ├── BadRecord              a journal record or the file of a part that is damaged
    │   └── BadSuperblock          no superblock of a replica can be believed
    ├── DiskError                  the disk said no
    │   ├── DiskFull               no room left; nothing was written
    │   └── DiskReadFailed         the bytes cannot be read back
    ├── ObjectError                the object store said no
    │   ├── ObjectExists           a create-only put found the key taken
    │   └── ObjectMissing          there is no such object
    ├── ClockError                 the cluster clock refused
    │   ├── ClockExhausted         the end of the clock's range; it never wraps
    │   └── ClockDrift             a clock offered from outside is too far ahead
    ├── Conflict                   what a transaction had read has changed since; it was not applied
    ├── WriterFenced               an ordered writer was overtaken by another of its name
    ├── PipelineFailed             a pipeline that ran has stopped; what it published stays whole
    ├── TokenExpired               a retry of something older than what is remembered
    ├── NodeError                  a node cannot start or go on
    │   ├── DatabaseLocked         another process has this database open
    │   ├── Unavailable            too few nodes answer; nothing was changed (``errors.shards``)
    │   ├── TableReadOnly          this replica of the table takes no writes now (``errors.tables``)
    │   ├── TableBusy              too many requests wait for this replica of the table
    │   ├── TooFewReplicas         fewer replicas are active than the quorum asks for
    │   ├── QuorumFailed           the block could not be brought to enough replicas
    │   └── PartMissing            a replica lacks a part of the version that is read
    ├── StepRaised                 a command of a golden script blew up
    ├── OutcomeUnknown             it may or may not have happened; a retry with the same token is safe
    ├── OperatorError              the operator did not do what it was asked to do (``errors.operator``)
    │   ├── NotActive              another operator is the active one, or none is yet
    │   ├── OperatorBusy           too many requests wait for the operator
    │   ├── MapTooOld              a stream was deleted since the map that a request goes by
    │   ├── NoSuchNode             there is no node of that name that could hold data
    │   ├── NoLeader               the shard has no leader now
    │   ├── ElectionUnderWay       the shard is electing a leader
    │   ├── ReconfigurationUnderWay  its ensemble is being changed already
    │   ├── NodeLeads              the leader itself can be neither swapped nor taken out
    │   ├── LastReplica            an ensemble has one node at least
    │   ├── NotInEnsemble          the node holds no replica of the shard
    │   ├── AlreadyInEnsemble      the node holds one already
    │   ├── NoNodeToPlaceOn        no node is left that could take the replica
    │   └── ReconfigurationAborted  it was called off; the ensemble is what it was
    ├── QueryStopped               a query went beyond its bound of time or memory (``errors.queries``)
    └── ShardError                 a replica of a shard said no (``errors.shards``)
        ├── NotLeader              it does not lead the shard, or does not serve it yet
        ├── ShardLost              too many of its replicas have lost their data
        ├── EntriesGone            entries that are no longer kept
        ├── TransactionExpired     a transaction so old that it may have been forgotten
        └── KeyForgotten           the latest change of a key is not remembered

A broken rule of our own is an ``assert``. The text form is ``CODE what happened; what to do``.
"""

from typing import ClassVar


class MotetError(Exception):
    """Above all errors of Motet."""

    code: ClassVar[str] = "MOTET"
    hint: ClassVar[str] = "see the documentation of this code"

    def __init__(self, what: str, *, hint: str | None = None) -> None:
        super().__init__(what)
        self.what, self.advice = what, self.hint if hint is None else hint

    def __str__(self) -> str:
        return f"{self.code} {self.what}; {self.advice}"

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions cross process boundaries by pickle, which would call us with one argument.
        return _rebuild, (type(self), self.what, self.advice)


def _rebuild(kind: type[MotetError], what: str, advice: str) -> MotetError:
    return kind(what, hint=advice)


class BadInput(MotetError):
    """The caller gave something we cannot take; nothing was changed."""

    code = "BAD_INPUT"
    hint = "correct the call and try again"


class BadClock(BadInput):
    """A clock text or number outside 42 bits of milliseconds and 22 bits of counter."""

    code = "BAD_CLOCK"
    hint = "write it as (logical,counter) with 0 <= logical < 2^42 and 0 <= counter < 2^22"


class BadConfig(BadInput):
    """A setting that does not exist or whose value does not fit."""

    code = "BAD_CONFIG"
    hint = "`motet config show --origin` lists every setting, its value and where it came from"


class BadCursor(BadInput):
    """A cursor that is garbled, or belongs to another database or other streams."""

    code = "BAD_CURSOR"
    hint = "use the cursor of a page of these streams of this database, or start without one"


class BadBookmark(BadInput):
    """A bookmark that is garbled, or belongs to another database."""

    code = "BAD_BOOKMARK"
    hint = "use what db.bookmark() said of this database, or connect without one"


class NoSuchStream(BadInput):
    """There is no stream of that name."""

    code = "NO_SUCH_STREAM"
    hint = "create it with create_stream, or correct its name"


class NoSuchShard(BadInput):
    """The stream has no such shard, or the node that was asked does not hold it."""

    code = "NO_SUCH_SHARD"
    hint = "`motet shard describe STREAM` lists the shards and who holds them"


class StreamExists(BadInput):
    """There is a stream of that name already, and it is a different one."""

    code = "STREAM_EXISTS"
    hint = "use another name, or the same schema and number of shards"


class NoSuchTable(BadInput):
    """There is no table of that name."""

    code = "NO_SUCH_TABLE"
    hint = "create it with create_table, or correct its name"


class TableExists(BadInput):
    """There is a table of that name already, and it is a different one."""

    code = "TABLE_EXISTS"
    hint = "use another name, or the same schema, order and engine"


class BadSchema(BadInput):
    """A schema, a row or a block that does not fit; the text names the column."""

    code = "BAD_SCHEMA"
    hint = "compare it with the schema of the stream or table"


class BadPipeline(BadInput):
    """A pipeline file that cannot be run."""

    code = "BAD_PIPELINE"
    hint = "correct the file; nothing has been read or published"


class BadCheckpoint(BadInput):
    """A checkpoint that belongs to another database, or knows more than the tables do."""

    code = "BAD_CHECKPOINT"
    hint = (
        "use the checkpoint of this database, or a new folder: what was published stays published"
    )


class MissingLibrary(BadInput):
    """Something optional is needed here and is not installed."""

    code = "MISSING_LIBRARY"
    hint = "install it, for instance with `pip install motet[all]`"


class TooLarge(BadInput):
    """A row, a key or a transaction beyond its bound."""

    code = "TOO_LARGE"
    hint = "make it smaller, or split it"


class BadScenario(BadInput):
    """A golden script that does not parse."""

    code = "BAD_SCENARIO"
    hint = "a block is one or more commands, a line `----`, the expected output, and a blank line"


class KernelDisagrees(BadInput):
    """The packed form of a model does not do what its readable actions do; the text names the state."""

    code = "KERNEL_DISAGREES"
    hint = "explore with --engine readable, and correct the kernel"


class BadHistory(BadInput):
    """A history that was recorded wrongly, or handed to a checker that cannot read it."""

    code = "BAD_HISTORY"
    hint = "correct the recording; the system under test has not been judged"


class BadBytes(MotetError):
    """Bytes that are not what they should be."""

    code = "BAD_BYTES"
    hint = "keep the file and run `motet inspect` on it"


class BadFrame(BadBytes):
    """A frame that is torn, foreign, too large or damaged."""

    code = "BAD_FRAME"
    hint = "the connection is closed; check that the peer speaks this protocol and version"


class BadRecord(BadBytes):
    """A journal record or the file of a part that is damaged."""

    code = "BAD_RECORD"


class BadSuperblock(BadBytes):
    """No superblock of a replica can be believed."""

    code = "BAD_SUPERBLOCK"
    hint = "keep the file; never format it anew, for the replica would deny what it has promised"


class DiskError(MotetError):
    """The disk said no."""

    code = "DISK"
    hint = "check the disk; nothing that was not synced has been promised to anyone"


class DiskFull(DiskError):
    """No room left on the disk; nothing was written."""

    code = "DISK_FULL"
    hint = "free some room; reads go on, writes are refused until then"


class DiskReadFailed(DiskError):
    """The bytes cannot be read back."""

    code = "DISK_READ"


class ObjectError(MotetError):
    """The object store said no."""

    code = "OBJECT"
    hint = "check the object store and its credentials"


class ObjectExists(ObjectError):
    """A create-only put found the key taken."""

    code = "OBJECT_EXISTS"
    hint = "keys are never reused: read the object back and compare"


class ObjectMissing(ObjectError):
    """There is no such object."""

    code = "OBJECT_MISSING"
    hint = "it was never written or has been removed"


class ClockError(MotetError):
    """The cluster clock refused."""

    code = "CLOCK"
    hint = "`motet clock` shows the clock and its drift"


class ClockExhausted(ClockError):
    """The end of the clock's range has been reached; it never wraps."""

    code = "CLOCK_EXHAUSTED"
    hint = "the wall clock or a peer is far in the future: find out which before anything else"


class ClockDrift(ClockError):
    """A clock offered from outside is further ahead of the wall clock than allowed."""

    code = "CLOCK_DRIFT"
    hint = "set the time of the machine that offered it"


class Conflict(MotetError):
    """What a transaction had read has changed since; it was not applied."""

    code = "CONFLICT"
    hint = "run it again from its first read; db.transact does that"


class WriterFenced(MotetError):
    """An ordered writer was overtaken: another one of its name has published since."""

    code = "WRITER_FENCED"
    hint = "end the other one; then start this one again: it goes on from what is published"


class PipelineFailed(MotetError):
    """A pipeline that ran has stopped. What it published stays, whole."""

    code = "PIPELINE_FAILED"
    hint = "fix the cause and run it again: it goes on from what is published"


class TokenExpired(MotetError):
    """A retry of something older than what is remembered; whether it was applied is not known here."""

    code = "TOKEN_EXPIRED"
    hint = "read back what is there before you send it again under a new token"


class NodeError(MotetError):
    """A node cannot start or go on."""

    code = "NODE"
    hint = "read the node's log"


class DatabaseLocked(NodeError):
    """Another process has this database open."""

    code = "DATABASE_LOCKED"
    hint = "connect to its endpoint instead, or end that process"


class StepRaised(MotetError):
    """A command of a script raised something its part does not count as an answer; see ``__cause__``."""

    code = "SCENARIO_STEP"
    hint = "this is a bug in the part or in what it drives: the traceback says where"


class OutcomeUnknown(MotetError):
    """It may or may not have happened."""

    code = "OUTCOME_UNKNOWN"
    hint = "retry with the same token, or read back what is there"


def error_of(code: str, what: str, advice: str) -> MotetError:
    """The error that a node reported by its code; a plain ``MotetError`` for a code we do not know."""
    kinds = [MotetError]
    for kind in kinds:
        if kind.code == code:
            return kind(what, hint=advice)
        kinds.extend(kind.__subclasses__())
    return MotetError(f"{code}: {what}", hint=advice)


# Here, since it needs what is above. ``error_of`` finds its errors below ``MotetError``.
from motet.errors import operator as operator  # noqa: E402
from motet.errors import queries as queries  # noqa: E402
from motet.errors import tables as tables  # noqa: E402
