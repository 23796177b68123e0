"""A tree of nodes in the plainest words: what each function does to it, and what it answers."""

from __future__ import annotations

from typing import TypeAlias

from motet.errors import BadHistory
from motet.verify.history.operation import Value, show

Node: TypeAlias = tuple[Value, int, Value, int]
"""(data, version, session of an ephemeral node, how many children it ever had)"""

Nodes: TypeAlias = tuple[tuple[str, Node], ...]

ANY_VERSION = -1
_ROOT: Node = ("", 0, None, 0)


class Refused(Exception):
    """An operation that is refused: the code, and in a multi the place."""

    def __init__(self, *answer: Value) -> None:
        super().__init__(*answer)
        self.answer: tuple[Value, ...] = answer


class Tree:
    """A draft: made of a state, changed, and frozen again."""

    def __init__(self, nodes: Nodes = (("/", _ROOT),)) -> None:
        self._nodes = dict(nodes)

    def frozen(self) -> Nodes:
        return tuple(sorted(self._nodes.items()))

    def do(self, function: str, key: Value, value: Value) -> tuple[Value, ...]:
        """One operation; what it answers after ``OK``. Raises ``Refused`` and changes nothing."""
        if function == "multi":
            return self._multi(value)
        if function == "end_session":
            return self._end_session(value)
        path = path_of(key)
        values = value if isinstance(value, tuple) else (value,)
        match function:
            case "create":
                return self.create(path, values)
            case "set":
                return self._set(path, *pair_of(values, function))
            case "delete":
                return self._delete(path, version_of(values))
            case "check":
                self._at(path, version_of(values))
                return ()
            case "get":
                node = self._at(path)
                return node[0], node[1]
            case "exists":
                return (self._at(path)[1],)
            case "children":
                self._at(path)
                return (tuple(sorted(_name(each) for each in self._below(path))),)
        raise BadHistory(f"a multi cannot {function!r}", hint="create, set, delete or check")

    def create(self, path: str, values: tuple[Value, ...]) -> tuple[Value, ...]:
        data, options = (values or (None,))[0], values[1:]
        is_sequential = "sequential" in options
        owner = owner_of(options)
        parent = _parent(path)
        if parent not in self._nodes:
            raise Refused("NO_NODE")
        above = self._nodes[parent]
        created = f"{path}{above[3]:010d}" if is_sequential else path
        if created in self._nodes:
            raise Refused("NODE_EXISTS")
        if above[2] is not None:
            raise Refused("NO_CHILDREN_FOR_EPHEMERALS")
        self._nodes[parent] = (*above[:3], above[3] + 1)
        self._nodes[created] = (data, 0, owner, 0)
        return (created,)

    def _set(self, path: str, data: Value, version: int) -> tuple[Value, ...]:
        node = self._at(path, version)
        self._nodes[path] = (data, node[1] + 1, *node[2:])
        return (node[1] + 1,)

    def _delete(self, path: str, version: int) -> tuple[Value, ...]:
        self._at(path, version)
        if self._below(path):
            raise Refused("NOT_EMPTY")
        del self._nodes[path]
        return ()

    def _end_session(self, session: Value) -> tuple[Value, ...]:
        self._nodes = {path: node for path, node in self._nodes.items() if node[2] != session}
        return ()

    def _multi(self, value: Value) -> tuple[Value, ...]:
        before = dict(self._nodes)
        answers: list[Value] = []
        for place, item in enumerate(value if isinstance(value, tuple) else (None,)):
            match item:
                case (str(function), key, inner) if function in _IN_MULTI:
                    try:
                        answers.append(("OK", *self.do(function, key, inner)))
                    except Refused as refused:
                        self._nodes = before
                        raise Refused(refused.answer[0], place) from None
                case _:
                    raise BadHistory(
                        f"a multi has {show(item)} at place {place}",
                        hint="each is (create, set, delete or check, path, value)",
                    )
        return (tuple(answers),)

    def _at(self, path: str, version: int = ANY_VERSION) -> Node:
        node = self._nodes.get(path)
        if node is None:
            raise Refused("NO_NODE")
        if version not in (ANY_VERSION, node[1]):
            raise Refused("BAD_VERSION")
        return node

    def _below(self, path: str) -> list[str]:
        return [each for each in self._nodes if each != "/" and _parent(each) == path]


_IN_MULTI = ("create", "set", "delete", "check")


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def path_of(key: Value) -> str:
    """A key, if it is a path."""
    if not isinstance(key, str) or not key.startswith("/") or (key != "/" and key[-1] == "/"):
        raise BadHistory(f"{show(key)} is no path", hint="the key is a path, as in /jobs/7")
    return key


def owner_of(options: tuple[Value, ...]) -> Value:
    rest = [option for option in options if option not in ("sequential", "ephemeral")]
    if len(rest) != ("ephemeral" in options):
        raise BadHistory(
            f"create was given {show(options)}",
            hint='after the data come "sequential", and "ephemeral" with the name of a session',
        )
    return rest[0] if rest else None


def pair_of(values: tuple[Value, ...], function: str) -> tuple[Value, int]:
    match values:
        case (data, int(version)):
            return data, version
    raise BadHistory(f"{function} was given {show(values)}", hint="it takes data and a version")


def version_of(values: tuple[Value, ...]) -> int:
    match values:
        case (int(version),):
            return version
        case (None,) | ():
            return ANY_VERSION
    raise BadHistory(f"{show(values)} is no version", hint="a version is a number, -1 for any")
