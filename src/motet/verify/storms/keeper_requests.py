"""What a client of a simulated keeper asks for: few paths, so that clients get in each other's way."""

from __future__ import annotations

from motet.core.keeper.messages import Answer
from motet.format.zookeeper.messages import (
    ANY_VERSION,
    Acl,
    Check,
    Children,
    Children2,
    CloseSession,
    Create,
    Create2,
    Created,
    Created2,
    CreateFlags,
    Data,
    Delete,
    Exists,
    GetChildren,
    GetChildren2,
    GetData,
    Multi,
    MultiRead,
    Result,
    SetData,
    StatResult,
    Sync,
)
from motet.format.zookeeper.records import AnyRequest
from motet.sim.dice import Dice

PARENTS = ("/a", "/b")
LEAVES = ("/a/x", "/a/y", "/b/x", "/b/y")
SEQUENCES = ("/a/s-", "/b/s-")
OPEN = (Acl(31, "world", "anyone"),)
found_max = 12
"""Sequential nodes a client remembers: those that it may delete."""

close_share = 0.006
sync_share = 0.04
large_share = 0.03

Step = Create | Create2 | Delete | SetData | Check


class PendingRequests:
    """Of one client."""

    def __init__(self, dice: Dice, name: str, large_bytes: tuple[int, int]) -> None:
        self._dice = dice
        self._name = name
        self._large_bytes = large_bytes
        self._read_share = dice.pick([0.3, 0.5, 0.8])
        self._watch_share = dice.pick([0.0, 0.3, 0.7])
        self._values = 0
        #: as it was last seen
        self._versions: dict[str, int] = {}
        self._found: list[str] = []

    def next(self, *, may_close: bool) -> AnyRequest:
        dice = self._dice
        if may_close and dice.chance(close_share):
            return CloseSession()
        if dice.chance(sync_share):
            return Sync(dice.pick(PARENTS))
        if dice.chance(self._read_share):
            return self._read()
        if dice.chance(0.25):
            return Multi(tuple(self._step(may_check=True) for _ in range(dice.between(1, 4))))
        step = self._step(may_check=False)
        if isinstance(step, SetData) and dice.chance(large_share):
            size_bytes = dice.between(*self._large_bytes)
            data = self._value().ljust(size_bytes, b".")
            return SetData(step.path, data, step.version)
        return step

    def _read(self) -> AnyRequest:
        dice = self._dice
        watch = dice.chance(self._watch_share)
        kind = dice.between(0, 5)
        if kind == 0:
            return Exists(self._path(), watch)
        if kind == 1:
            return GetChildren(dice.pick([*PARENTS, "/"]), watch)
        if kind == 2:
            return GetChildren2(dice.pick(PARENTS), watch)
        if kind == 3:
            reads = [self._read_in_multi() for _ in range(dice.between(1, 4))]
            return MultiRead(tuple(reads))
        return GetData(self._path(), watch)

    def _read_in_multi(self) -> GetData | GetChildren:
        if self._dice.chance(0.3):
            return GetChildren(self._dice.pick(PARENTS), watch=False)
        return GetData(self._path(), watch=False)

    def _path(self) -> str:
        return self._dice.pick([*PARENTS, *LEAVES, *LEAVES, *self._found[:2]])

    def _step(self, *, may_check: bool) -> Step:
        dice = self._dice
        kind = dice.between(0, 9)
        if kind < 3:
            return self._create()
        if kind < 5:
            return self._delete()
        path = self._path()
        if may_check and kind < 7:
            return Check(path, self._version(path))
        return SetData(path, self._value(), self._version(path))

    def _create(self) -> Create | Create2:
        dice = self._dice
        flags = dice.pick([0, 0, 0, 1, 1, 2, 3])
        path = dice.pick(SEQUENCES if flags & CreateFlags.SEQUENTIAL else [*PARENTS, *LEAVES])
        flags = 0 if path in PARENTS else flags
        if dice.chance(0.3):
            return Create2(path, self._value(), OPEN, flags)
        return Create(path, self._value(), OPEN, flags)

    def _delete(self) -> Delete:
        dice = self._dice
        if self._found and dice.chance(0.6):
            return Delete(self._found.pop(dice.between(0, len(self._found) - 1)), ANY_VERSION)
        path = dice.pick([*LEAVES, *LEAVES, *PARENTS])
        return Delete(path, self._version(path))

    def _version(self, path: str) -> int:
        known = self._versions.get(path, 0)
        return self._dice.pick([known, known, ANY_VERSION])

    def _value(self) -> bytes:
        """Never the same twice."""
        self._values += 1
        padding = "." * self._dice.pick([0, 0, 0, 30, 200])
        return f"{self._name}-{self._values}{padding}".encode()

    # What comes back

    def learn(self, request: AnyRequest, answer: Answer) -> None:
        """From the answer to a request."""
        result: Result = answer.result
        if isinstance(result, StatResult | Data) and isinstance(
            request, Exists | GetData | SetData
        ):
            self._versions[request.path] = result.stat.version
        elif isinstance(result, Created | Created2):
            self._find(result.path)
        elif isinstance(result, Children | Children2):
            assert isinstance(request, GetChildren | GetChildren2)
            for name in result.children:
                self._find(f"{request.path}/{name}")

    def _find(self, path: str) -> None:
        if path.startswith(SEQUENCES) and path not in self._found:
            self._found = [*self._found, path][-found_max:]
