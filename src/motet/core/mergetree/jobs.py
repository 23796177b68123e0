"""Staging jobs: parts that are staged over a longer time by many hands, and published together (T4).

J1  A job is a node of each table that it stages for. Its value is open, then published or collected, and
    changes by its version alone: of a publication and a collector one wins.
J2  Whoever drives the job renews its lease. A lease that is so old by the keeper's clock lets the job be
    collected, by a multi that checks the lease's version.
J3  Renewing a job that has ended changes nothing, and says so.
"""

from __future__ import annotations

import msgspec

from motet.core.mergetree import checks, publication
from motet.core.mergetree.context import NodeContext
from motet.core.mergetree.inserting import failure
from motet.core.mergetree.messages import JobStanding, NodeRequest, OpenJob, RenewJob
from motet.core.mergetree.paths import ShardPaths
from motet.core.mergetree.service import NodeService
from motet.core.metadata.messages import (
    ANY_VERSION,
    Check,
    Conflict,
    Create,
    Found,
    Get,
    MetadataAnswer,
    ReadDone,
    Set,
    WriteOperation,
    Written,
)
from motet.errors import BadInput, MotetError, NodeError, OutcomeUnknown
from motet.errors.tables import TableBusy
from motet.ids import Address, RequestId

OPEN, PUBLISHED, COLLECTED = b"open", b"published", b"collected"
"""The values of a job."""

ABSENT = "absent"

tables_max = 64
"""Tables that one job stages for."""

requests_max = 1_000
tries_max = 20


class JobRequest(msgspec.Struct):
    """A request that is not answered."""

    client: Address
    message: OpenJob | RenewJob
    #: what the write that is under way makes of the job; None: the job is being read
    value: str | None = None
    tries: int = 0


class JobsMemory(msgspec.Struct):
    """All requests about jobs."""

    requests: dict[RequestId, JobRequest] = msgspec.field(default_factory=dict)


class JobsService(NodeService):
    """Opens jobs, and renews their leases."""

    name = "jobs"
    takes = (OpenJob, RenewJob)

    def __init__(self, node: NodeContext) -> None:
        super().__init__(node)
        self.memory: JobsMemory = JobsMemory()

    def on_request(self, client: Address, message: NodeRequest) -> None:
        assert isinstance(message, self.takes)
        try:
            self._check(message)
        except MotetError as error:
            self.refuse(client, message, error)
            return
        self._read(JobRequest(client, message))

    def _check(self, message: OpenJob | RenewJob) -> None:
        if not message.job:
            raise BadInput("a staging job has a name")
        checks.check_job(message.job)
        if not 1 <= len(set(message.tables)) == len(message.tables) <= tables_max:
            raise BadInput(f"a staging job is for 1 to {tables_max} tables, each named once")
        for table in message.tables:
            publication.check_table_id(table)
        if len(self.memory.requests) >= requests_max:
            raise TableBusy(f"{requests_max} requests about staging jobs wait at this node")
        if not self.node.memory.session:
            raise NodeError("this node has no session with the keeper", hint="ask another node")

    def on_session_end(self) -> None:
        asked, self.memory.requests = self.memory.requests, {}
        for each in asked.values():
            error: MotetError = NodeError("this node has lost its session with the keeper")
            if each.value is not None:
                error = OutcomeUnknown("the job may be open, or renewed", hint="ask again")
            self.refuse(each.client, each.message, error)

    def _read(self, asked: JobRequest) -> None:
        reads: list[Get] = []
        for table in asked.message.tables:
            paths, job = ShardPaths(table, 0), asked.message.job
            reads += [Get(paths.definition), Get(paths.staging)]
            reads += [Get(paths.job(job)), Get(paths.lease(job))]
        asked.value = None
        self.memory.requests[self.read(*reads)] = asked

    def on_answer(self, request: RequestId, answer: MetadataAnswer) -> None:
        asked = self.memory.requests.pop(request)
        try:
            if asked.value is None:
                self._on_read(asked, answer)
            elif isinstance(answer, Written):
                self._answer(asked, asked.value)
            elif isinstance(answer, Conflict) and asked.tries < tries_max:
                asked.tries += 1
                self._read(asked)
            elif isinstance(answer, Conflict):
                raise TableBusy("others change this staging job again and again")
            else:
                raise failure(answer)
        except MotetError as error:
            self.refuse(asked.client, asked.message, error)

    def _on_read(self, asked: JobRequest, answer: MetadataAnswer) -> None:
        """J1, J3."""
        if not isinstance(answer, ReadDone):
            raise failure(answer)
        is_new = isinstance(asked.message, OpenJob)
        operations: list[WriteOperation] = []
        values: dict[str, None] = {}
        each = iter(answer.results)
        for table, definition, staging, job, lease in zip(
            asked.message.tables, each, each, each, each, strict=False
        ):
            paths = ShardPaths(table, 0)
            if not isinstance(job, Found):
                values["open" if is_new else ABSENT] = None
                if is_new:
                    known = publication.facts_of(definition, definition)
                    operations.append(Check(paths.definition, known.definition_version))
                    if not isinstance(staging, Found):
                        operations.append(Create(paths.staging))
                    operations.append(Create(paths.job(asked.message.job), OPEN))
                    operations.append(Create(paths.lease(asked.message.job)))
                continue
            is_known = job.data in (OPEN, PUBLISHED, COLLECTED)
            values[job.data.decode() if is_known else ABSENT] = None
            operations.append(Check(job.path, job.stat.version))
            operations.append(
                Set(lease.path, b"", ANY_VERSION)
                if isinstance(lease, Found)
                else Create(paths.lease(asked.message.job))
            )
        worst = next((v for v in ("collected", ABSENT, "published") if v in values), "open")
        if worst != "open":
            self._answer(asked, worst)
            return
        asked.value = worst
        self.memory.requests[self.write(*operations)] = asked

    def _answer(self, asked: JobRequest, value: str) -> None:
        self.node.send(asked.client, JobStanding(asked.message.request, value))
