"""One request of one caller, from the moment it is asked to the moment nobody waits for it any more.

It is turned into bytes when it is asked, so that what cannot be is refused to its caller alone, and those
bytes are sent again if it has to be asked again.

K1  A read may be asked again after its connection was lost: it changes nothing. So may a sync, and who we
    are.
K2  A write that was sent and not answered is ``OutcomeUnknown``, whatever the reason. It is never sent
    again: some writes done twice are not the same as done once.
K3  What was never sent was not done, and its caller is told so.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from motet.client.keeper.watches import Watcher
from motet.errors import MotetError, NodeError, OutcomeUnknown
from motet.format.zookeeper.messages import (
    AnyResult,
    Auth,
    Exists,
    GetAcl,
    GetChildren,
    GetChildren2,
    GetData,
    MultiRead,
    Request,
    SetWatches,
    Sync,
)
from motet.ids import Zxid

READS = (Exists, GetData, GetAcl, GetChildren, GetChildren2, MultiRead)
REPEATABLE = (*READS, Sync, Auth, SetWatches)


@dataclass(slots=True, eq=False)
class Call:
    """A request and who waits for its answer."""

    xid: int
    request: Request
    #: the request as it goes over the wire
    frame: bytes
    #: None for what the session asks on its own behalf
    future: asyncio.Future[AnyResult] | None = None
    watcher: Watcher | None = None
    #: a sync is to go out before it, in the same write
    needs_sync: bool = False
    is_sent: bool = False
    #: the moment of its answer
    zxid: Zxid | None = None

    @property
    def is_waited_for(self) -> bool:
        return self.future is not None and not self.future.done()

    @property
    def is_write(self) -> bool:
        return not isinstance(self.request, REPEATABLE)

    def settle(self, result: AnyResult) -> None:
        if self.future is not None and not self.future.done():
            self.future.set_result(result)

    def fail(self, error: MotetError) -> None:
        if self.future is not None and not self.future.done():
            self.future.set_exception(error)

    def lose(self, why: str, hint: str = "try again") -> None:
        """No answer will come."""
        if self.is_sent and self.is_write:
            self.fail(OutcomeUnknown(f"no answer came: {why}"))  # K2
        elif self.is_sent:
            self.fail(NodeError(f"no answer came: {why}", hint=hint))
        else:
            self.fail(NodeError(f"nothing was asked: {why}", hint=hint))  # K3
