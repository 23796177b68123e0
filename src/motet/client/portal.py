"""A way into an event loop from outside: one thread that runs it, and calls that wait for coroutines there.

The thread never keeps a process alive, and a portal that is closed leaves none behind. Calls may come from
many threads at once. A call that was under way when the portal closed is ended, never left waiting.

Below is what all classes without an event loop have in common; the rest of them is generated from the async
ones by tools/sync_face.py.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Generic, ParamSpec, Protocol, Self, TypeVar

from motet.errors import MotetError, NodeError
from motet.real.process import loop_factory

P = ParamSpec("P")
T = TypeVar("T")


class Closable(Protocol):
    """What is closed with its portal."""

    async def close(self) -> None:
        """End it; a second time is fine."""


A = TypeVar("A")
C = TypeVar("C", bound=Closable)


class Portal:
    """An event loop in a thread of its own, from construction to ``close``."""

    def __init__(self, name: str) -> None:
        #: what errors call it
        self.name = name
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._is_closed = False
        started = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(started,), name=f"motet {name}", daemon=True
        )
        self._thread.start()
        started.wait()

    def call(
        self, function: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a coroutine function in the loop and wait for what comes of it."""
        self._check_process()
        with self._lock:
            # Under the lock: what is handed over before the end is announced is ended with it.
            if self._is_closed:
                raise self._closed()
            future = asyncio.run_coroutine_threadsafe(function(*args, **kwargs), self._loop)
        try:
            return future.result()
        except CancelledError:
            raise self._closed() from None
        except BaseException:
            future.cancel()  # an interrupt from the keyboard, for instance; done already otherwise
            raise

    def close(self, last: Callable[[], Coroutine[Any, Any, None]] | None = None) -> None:
        """Run a last coroutine function, end everything else, and the thread. A second time is fine."""
        if os.getpid() != self._process:
            return  # a forked child has neither the thread nor anything to close
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        if threading.current_thread() is self._thread:
            # A garbage collection may run anywhere, here too; then nobody can wait.
            self._ending = self._loop.create_task(self._end(last))
            return
        try:
            asyncio.run_coroutine_threadsafe(self._end(last), self._loop).result()
        finally:
            self._thread.join()

    async def _end(self, last: Callable[[], Coroutine[Any, Any, None]] | None) -> None:
        try:
            if last is not None:
                await last()
        finally:
            self._over.set()

    def _run(self, started: threading.Event) -> None:
        # Not asyncio.Runner: it ends the threads of the loop by another thread, and at the end of the
        # interpreter, where a database that is left open is closed, there is none from Python 3.12 on.
        loop = (loop_factory() or asyncio.new_event_loop)()
        threads = ThreadPoolExecutor(thread_name_prefix=f"motet {self.name}")
        loop.set_default_executor(threads)
        try:
            loop.run_until_complete(self._live(started))
            loop.run_until_complete(_cancel_others())
            loop.run_until_complete(loop.shutdown_asyncgens())
            threads.shutdown()
        finally:
            loop.close()

    async def _live(self, started: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        started.set()
        await self._over.wait()

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise NodeError(
                f"{self.name} was opened by the process this one was forked from",
                hint="open it, or connect to its endpoint, in this process",
            )

    def _closed(self) -> NodeError:
        return NodeError(f"{self.name} is closed", hint="open it, or connect to it, once more")


async def _cancel_others() -> None:
    """End all tasks of this loop but the one that calls; what they end with is nobody's any more."""
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


class Face(Generic[A]):
    """An async object without its event loop: whatever waits there waits in the portal."""

    def __init__(self, portal: Portal, inner: A, owner: object = None) -> None:
        self._portal = portal
        self._inner = inner
        #: a database that nobody holds any more is closed
        self._owner = owner

    def _each(self, next_items: Callable[[], Coroutine[Any, Any, list[T]]]) -> Iterator[T]:
        """One by one what comes in lists, until an empty one comes or the portal is closed."""
        while True:
            try:
                items = self._portal.call(next_items)
            except MotetError:
                if self._portal.is_closed:
                    return
                raise
            if not items:
                return
            yield from items

    def __repr__(self) -> str:
        return repr(self._inner)


class OwningFace(Face[C]):
    """One that has a portal for itself and whatever it hands out."""

    def __init__(self, portal: Portal, inner: C) -> None:
        super().__init__(portal, inner)
        # Also called when we are forgotten, and at the end of the process.
        self._end = weakref.finalize(self, portal.close, inner.close)

    @classmethod
    def made(
        cls,
        name: str,
        make: Callable[P, Coroutine[Any, Any, C]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Self:
        """Make the async object in a portal of its own, which errors call by this name."""
        portal = Portal(name)
        try:
            return cls(portal, portal.call(make, *args, **kwargs))
        except BaseException:
            portal.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()
