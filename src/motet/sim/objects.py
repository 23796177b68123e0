"""The simulated object store: a bucket in memory whose answers can be refused or lost."""

from __future__ import annotations

from motet.errors import ObjectError, ObjectExists, ObjectMissing, OutcomeUnknown
from motet.ids import ObjectKey
from motet.ports import ObjectInfo
from motet.sim.dice import Dice
from motet.sim.faults import ObjectFaults


class SimObjects:
    """The objects port in a seeded world; shared by all its nodes, and no crash of theirs touches it.

    Its coroutines never suspend, so a world without an event loop can run them: how long a call takes
    is for the world to decide.
    """

    def __init__(self, dice: Dice, faults: ObjectFaults | None = None) -> None:
        self._dice = dice
        self.faults = faults or ObjectFaults()
        self._objects: dict[ObjectKey, bytes] = {}

    async def put(self, key: ObjectKey, data: bytes, *, create_only: bool = False) -> None:
        answer_lost = self._trouble("put", key)
        if create_only and key in self._objects:
            raise ObjectExists(f"{key} is already there")
        self._objects[key] = bytes(data)
        if answer_lost:
            raise OutcomeUnknown(f"no answer to put {key}")

    async def get(self, key: ObjectKey, offset: int = 0, size_bytes: int | None = None) -> bytes:
        self._read_trouble("get", key)
        data = self._found(key)
        return data[offset:] if size_bytes is None else data[offset : offset + size_bytes]

    async def head(self, key: ObjectKey) -> ObjectInfo:
        self._read_trouble("head", key)
        return ObjectInfo(key, len(self._found(key)))

    async def delete(self, key: ObjectKey) -> None:
        answer_lost = self._trouble("delete", key)
        self._objects.pop(key, None)
        if answer_lost:
            raise OutcomeUnknown(f"no answer to delete {key}")

    async def list(self, prefix: str = "") -> list[ObjectInfo]:
        self._read_trouble("list", ObjectKey(prefix))
        found = sorted(item for item in self._objects.items() if item[0].startswith(prefix))
        return [ObjectInfo(key, len(data)) for key, data in found]

    def _trouble(self, call: str, key: ObjectKey) -> bool:
        """Raise what happens before the call took effect; True if its answer will be lost after it."""
        if self._dice.chance(self.faults.error):
            raise ObjectError(f"{call} {key} was refused")
        if not self._dice.chance(self.faults.unknown):
            return False
        if self._dice.chance(0.5):
            raise OutcomeUnknown(f"no answer to {call} {key}")
        return True

    def _read_trouble(self, call: str, key: ObjectKey) -> None:
        if self._trouble(call, key):
            raise ObjectError(
                f"no answer to {call} {key}"
            )  # a read changes nothing: it just failed

    def _found(self, key: ObjectKey) -> bytes:
        if key not in self._objects:
            raise ObjectMissing(f"there is no {key}")
        return self._objects[key]
