"""Requests of clients about whole tables, each carried out by asking the keeper one thing after the other.

PR1  One write makes a request true: the *commit*. What is asked before it changes nothing that others see.
PR2  A commit whose outcome is unknown is found out under the same session: a further write settles it, since
     writes of a session take effect in their order, and what it would have made is read (R4).
PR3  Whatever ends a session ends its requests: with a commit that is not settled the outcome is unknown, else
     nothing was done.
PR4  A request that others get in the way of begins anew, so many times and no more.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Generic, TypeVar

import msgspec

from motet.core.mergetree.context import NodeContext
from motet.core.mergetree.messages import NodeAnswer, NodeRequest
from motet.core.mergetree.paths import TABLES
from motet.core.mergetree.service import NodeService
from motet.core.metadata.messages import (
    ANY_VERSION,
    Check,
    Failed,
    MetadataAnswer,
    ReadOperation,
    SessionOver,
    Unknown,
    WriteOperation,
    Written,
)
from motet.errors import MotetError, NodeError, OutcomeUnknown, error_of
from motet.errors.tables import TableBusy
from motet.ids import Address, RequestId

attempts_max = 100
"""How often a request begins anew before it is given up (PR4)."""


class Stage(StrEnum):
    """What the request that is with the keeper is for."""

    #: something that changes nothing for others
    PREPARING = "preparing"
    COMMITTING = "committing"
    #: the keeper did not say what became of the commit
    SETTLING = "settling"
    #: it is settled, and being read
    LOOKING = "looking"


M = TypeVar("M", bound=NodeRequest)


class Procedure(msgspec.Struct, Generic[M]):
    """A client's request that is being carried out."""

    client: Address
    message: M
    stage: Stage = Stage.PREPARING
    attempts: int = 0

    @property
    def is_unsettled(self) -> bool:
        return self.stage is not Stage.PREPARING


P = TypeVar("P", bound=Procedure[Any])


class Procedures(msgspec.Struct, Generic[P]):
    """By the numbers of what they have asked the keeper."""

    asked: dict[RequestId, P] = msgspec.field(default_factory=dict)


class ProcedureService(NodeService, Generic[P]):
    """A service whose requests are procedures."""

    def __init__(self, node: NodeContext) -> None:
        super().__init__(node)
        self.memory: Procedures[P] = Procedures()

    # What a service of this kind says

    def begin(self, client: Address, message: NodeRequest) -> None:
        """Check a request and ask the first thing; what is raised is what the client is told."""
        raise NotImplementedError

    def go_on(self, procedure: P, answer: MetadataAnswer) -> None:
        """The keeper has answered. In the stage LOOKING this is the answer to ``look``: a commit that was not
        done is left to be sent again, with the stage PREPARING."""
        raise NotImplementedError

    def look(self, procedure: P) -> None:
        """Read what became of a commit (PR2)."""
        raise NotImplementedError

    # What happens

    def on_request(self, client: Address, message: NodeRequest) -> None:
        try:
            self._check_room()
            self.begin(client, message)
        except MotetError as error:
            self.refuse(client, message, error)

    def on_answer(self, request: RequestId, answer: MetadataAnswer) -> None:
        procedure = self.memory.asked.pop(request, None)
        if procedure is None:
            return
        try:
            self._take(procedure, answer)
        except MotetError as error:
            self._end(procedure, error)

    def _take(self, procedure: P, answer: MetadataAnswer) -> None:
        stage = procedure.stage
        if stage is Stage.COMMITTING and isinstance(answer, Unknown):
            procedure.stage = Stage.SETTLING
            self._settle(procedure)
        elif stage is Stage.SETTLING and isinstance(answer, Written):
            procedure.stage = Stage.LOOKING
            self.look(procedure)
        elif stage is Stage.SETTLING and not isinstance(answer, SessionOver):
            self.count_attempt(procedure)
            self._settle(procedure)
        elif stage is Stage.SETTLING:
            raise failure(answer)
        else:
            if stage is Stage.COMMITTING:
                procedure.stage = Stage.PREPARING
            self.go_on(procedure, answer)

    def _settle(self, procedure: P) -> None:
        self.put(procedure, Check(TABLES, ANY_VERSION))

    def on_session_end(self) -> None:
        """PR3."""
        lost, self.memory.asked = self.memory.asked, {}
        for procedure in lost.values():
            self._end(procedure, NodeError("the session with the keeper ended: nothing was done"))

    def _end(self, procedure: P, error: MotetError) -> None:
        if procedure.is_unsettled:
            error = OutcomeUnknown("the keeper did not say whether it was done")
        self.refuse(procedure.client, procedure.message, error)

    def _check_room(self) -> None:
        if not self.node.memory.incarnation:
            what = "this node has no session with the keeper"
            raise NodeError(what, hint="try again in a moment, or through another node")
        if len(self.memory.asked) >= self.node.config.requests_max:
            raise TableBusy(f"{len(self.memory.asked)} requests of this kind wait for this node")

    # What it can do

    def ask(self, procedure: P, *operations: ReadOperation) -> None:
        self.memory.asked[self.read(*operations)] = procedure

    def put(self, procedure: P, *operations: WriteOperation) -> None:
        self.memory.asked[self.write(*operations)] = procedure

    def commit(self, procedure: P, *operations: WriteOperation) -> None:
        """PR1."""
        procedure.stage = Stage.COMMITTING
        self.put(procedure, *operations)

    def count_attempt(self, procedure: P) -> None:
        """PR4."""
        procedure.attempts += 1
        if procedure.attempts >= attempts_max:
            raise TableBusy("others changed these tables again and again while this was to be done")

    def reply(self, procedure: P, answer: NodeAnswer) -> None:
        self.node.send(procedure.client, answer)


def failure(answer: MetadataAnswer) -> MotetError:
    """Why the keeper has not done what it was asked."""
    if isinstance(answer, Failed):
        return error_of(answer.code, answer.what, answer.advice)
    return NodeError("the keeper did not answer", hint="try again in a moment")
