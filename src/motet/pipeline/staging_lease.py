"""The lease of a write: what it has staged is held for as long as somebody works on it.

A part that is staged in a job is held for a minute, and longer if the job is open by then. So a write that is
short needs no job in the keeper: it is opened when the write has lasted a while, and renewed from then on. A
job that ended meanwhile, because nobody could renew it, is found when its parts are published.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from motet.errors import MotetError
from motet.errors.tables import StagingEnded
from motet.real.process import RealEntropy

if TYPE_CHECKING:
    from motet.client.sync import Database

renew_seconds = 15.0
"""How often a job is renewed: a lease lasts a minute, and a node that dies may cost twenty seconds."""


def new_job() -> str:
    """A name that no other write has."""
    return f"spark-{RealEntropy().nonce():016x}"


class StagingLease:
    """Keeps a job of some tables open, as a ``with`` block around the work.

    Of a write that has begun so long ago (``began``, in seconds since 1970) the job is opened at once: those
    who worked on it before may have had no need to.
    """

    def __init__(
        self, db: Database, job: str, tables: Sequence[str], began: float | None = None
    ) -> None:
        self._db = db
        self._job = job
        self._tables = tables
        self._is_late = began is not None and time.time() - began >= renew_seconds
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="staging lease", daemon=True)
        #: the job is in the keeper: publishing ends it
        self.is_open = False

    def __enter__(self) -> Self:
        if self._is_late:
            self._say()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()
        if self.is_open and error is None:
            self._say()  # whoever publishes has a whole minute

    def _keep(self) -> None:
        while not self._over.wait(renew_seconds):
            try:
                self._say()
            except StagingEnded:
                return
            except MotetError:
                continue  # it is said again soon

    def _say(self) -> None:
        if self.is_open:
            self._db.renew_job(self._job, self._tables)
        else:
            self._db.open_job(self._job, self._tables)
            self.is_open = True
