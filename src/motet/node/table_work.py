"""The workshop of a node's table replicas: what they ask to be done with the bytes of their parts.

Rules:

K1  Tasks about one part are done in the order in which they were asked for, one at a time. Others go side by
    side, in so many threads: few for what is quick, and a few more for what waits for another node.
K2  Whatever ends well is synced (:mod:`motet.node.part_folders`). What fails has changed nothing, and says
    why: a full disk, bytes that are not what was promised, a node that does not answer.
K3  A task ends once, in the loop. When the node stops, transfers are broken off and nobody is told.
K4  A part that is fetched is never in memory as a whole. It is asked for from where it broke off, and becomes
    a part only if its hash is the one that the log names.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING

from motet.core.machine import Message, Work
from motet.core.mergetree.entries import PartHeader
from motet.core.mergetree.messages import PartBytes
from motet.core.mergetree.work import (
    Arrive,
    Clear,
    Detach,
    Fetch,
    Forget,
    Hold,
    Keep,
    LookAtDisk,
    Release,
    Task,
    said_by,
)
from motet.errors import MotetError, NodeError, ObjectMissing
from motet.ids import NodeId, PartId
from motet.node.hosting import WorkEnded
from motet.node.logs import logger
from motet.node.part_draft import PartDraft
from motet.node.part_folders import PartFolders
from motet.real.part_files import PartKey, PartState

if TYPE_CHECKING:
    from motet.client.part_client import PartClient

file_threads = 8
transfer_threads = 8

EndpointOf = Callable[[NodeId], str | None]
"""The native endpoint of a node; None for one that is not known."""

Asked = tuple[Work, WorkEnded]


class TableWork:
    """A ``Workshop``, from construction to ``stop``."""

    def __init__(self, folders: PartFolders, endpoint_of: EndpointOf) -> None:
        self._folders = folders
        self._endpoint_of = endpoint_of
        #: of each part that something is done with: what was asked for after that (K1)
        self._waiting: dict[PartId, deque[Asked]] = {}
        self._files = ThreadPoolExecutor(file_threads, "motet-parts")
        self._transfers = ThreadPoolExecutor(transfer_threads, "motet-transfers")
        self._is_stopped = False

    def begin(self, work: Work, tell: WorkEnded) -> None:
        assert isinstance(work.task, Task), "a table node asks for nothing else"
        part = _part_of(work.task)
        if part is None:
            self._start(work, tell, None)
        elif part in self._waiting:
            self._waiting[part].append((work, tell))
        else:
            self._waiting[part] = deque()
            self._start(work, tell, part)

    def stop(self) -> None:
        """Break off transfers; what threads are at comes to its end by itself (K3)."""
        self._is_stopped = True
        if "_client" in vars(self):
            self._client.close()
        self._files.shutdown(wait=False, cancel_futures=True)
        self._transfers.shutdown(wait=False, cancel_futures=True)

    @property
    def busy(self) -> int:
        """Parts that something is done with."""
        return len(self._waiting)

    @cached_property
    def _client(self) -> PartClient:
        from motet.client.part_client import PartClient  # a node that is alone never needs it

        return PartClient()

    # In the loop ------------------------------------------------------------------------------------

    def _start(self, work: Work, tell: WorkEnded, part: PartId | None) -> None:
        if self._is_stopped:
            return
        assert isinstance(work.task, Task)
        threads = self._transfers if _needs_other(work.task) else self._files
        loop = asyncio.get_running_loop()
        ended = loop.run_in_executor(threads, self._carry_out, work.task)
        ended.add_done_callback(lambda each: self._end(each, tell, part))

    def _end(
        self,
        ended: asyncio.Future[tuple[Message | None, str | None]],
        tell: WorkEnded,
        part: PartId | None,
    ) -> None:
        if self._is_stopped or ended.cancelled():
            return
        tell(*ended.result())
        if part is None:
            return
        if self._waiting[part]:
            self._start(*self._waiting[part].popleft(), part)
        else:
            del self._waiting[part]

    # In threads -------------------------------------------------------------------------------------

    def _carry_out(self, task: Task) -> tuple[Message | None, str | None]:
        """What came of it, or why nothing did."""
        try:
            return self._do(task), None
        except MotetError as error:
            return None, said_by(error)
        except Exception as error:
            logger.error(
                "work_failed", exc_info=error, extra={"fields": {"task": repr(task)[:500]}}
            )
            return None, f"{type(error).__name__}: {error}"

    def _do(self, task: Task) -> Message | None:
        folders, place = self._folders, (task.table, task.shard)
        match task:
            case LookAtDisk():
                return folders.look(*place)
            case Arrive(part=part, block=block):
                self._arrive(PartKey.checked(*place, part.id), part, block)
            case Keep(part=part, block=block):
                self._keep(PartKey.checked(*place, part.id), part, block)
            case Hold(part=part, block=block, source=source):
                self._hold(PartKey.checked(*place, part.id), part, block, source)
            case Fetch(part=part, source=source):
                self._fetch(PartKey.checked(*place, part.id), part, source, PartState.STORED)
            case Release(part=part_id):
                for state in (PartState.STAGED, PartState.ARRIVED):
                    folders.remove(PartKey.checked(*place, part_id), state)
            case Forget(part=part_id):
                folders.remove(PartKey.checked(*place, part_id), PartState.STORED)
            case Detach(part=part_id, why=why):
                folders.detach(PartKey.checked(*place, part_id), why)
            case Clear():
                folders.clear(*place)
            case _:
                raise NodeError(f"nobody here knows how to do {type(task).__name__}")
        return None

    def _arrive(self, key: PartKey, part: PartHeader, block: PartBytes) -> None:
        states = (PartState.STORED, PartState.STAGED, PartState.ARRIVED)
        if not self._folders.has(key, part, *states):
            self._folders.write(key, part, block, PartState.ARRIVED)

    def _keep(self, key: PartKey, part: PartHeader, block: PartBytes | None) -> None:
        if self._folders.has(key, part, PartState.STORED):
            return
        if block is None:
            self._folders.store(key, part)
        else:
            self._folders.write(key, part, block, PartState.STORED)

    def _hold(
        self, key: PartKey, part: PartHeader, block: PartBytes | None, source: NodeId | None
    ) -> None:
        if self._folders.has(key, part, PartState.STAGED):
            return
        if block is not None:
            self._folders.write(key, part, block, PartState.STAGED)
            return
        try:
            self._folders.stage(key, part)
        except ObjectMissing:
            if source is None:
                raise
            self._fetch(key, part, source, PartState.STAGED)

    def _fetch(self, key: PartKey, part: PartHeader, source: NodeId, state: PartState) -> None:
        """K4."""
        if self._folders.has(key, part, state):
            return
        endpoint = self._endpoint_of(source)
        if endpoint is None:
            raise NodeError(f"it is not known where {source} is")
        manifest = self._client.manifest(endpoint, key)

        def fill(draft: PartDraft) -> None:
            self._client.fetch(endpoint, key, draft.write, size_bytes=part.size_bytes)

        self._folders.receive(key, part, manifest, fill, state)


def _needs_other(task: Task) -> bool:
    """Whether another node may have to be waited for."""
    return isinstance(task, Fetch) or (isinstance(task, Hold) and task.source is not None)


def _part_of(task: Task) -> PartId | None:
    match task:
        case Arrive(part=part) | Keep(part=part) | Hold(part=part) | Fetch(part=part):
            return part.id
        case Release(part=part_id) | Forget(part=part_id) | Detach(part=part_id):
            return part_id
    return None
