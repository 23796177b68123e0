"""The keeper in the plainest words: a dict of paths, copied whole before every multi. No permissions."""

from __future__ import annotations

from typing import Any

from tests.core.keeper.keepers import SMALL

from motet.core.keeper.operations import (
    AnyOperation,
    Attached,
    EndSession,
    EndSessions,
    OpenSession,
    Pulse,
    Reattach,
    Touch,
    Touched,
    Write,
)
from motet.format.zookeeper.messages import (
    Check,
    Create,
    Create2,
    Created,
    Created2,
    Delete,
    ErrorCode,
    Failed,
    Multi,
    MultiResult,
    Nothing,
    Result,
    SetData,
    Stat,
    StatResult,
)

Fields = dict[str, Any]
CREATED, DELETED, CHANGED, CHILD = 1, 2, 3, 4


class Naive:
    """Answers (zxid, result), and remembers what happened."""

    def __init__(self) -> None:
        self.nodes: dict[str, Fields] = {"/": self.new(b"", 0, 0, 0)}
        self.sessions: dict[int, Fields] = {}
        self.session_count = self.zxid = self.now_ms = 0
        self.view = -1
        self.events: list[tuple[int, str]] = []

    @staticmethod
    def new(data: bytes, zxid: int, time_ms: int, owner: int) -> Fields:
        times = {"ctime": time_ms, "mtime": time_ms, "czxid": zxid, "mzxid": zxid, "pzxid": zxid}
        return {"data": data, "version": 0, "ever": 0, "gone": 0, "owner": owner, **times}

    def names(self, path: str) -> list[str]:
        prefix = path.rstrip("/") + "/"
        below = [other[len(prefix) :] for other in self.nodes if other.startswith(prefix)]
        return sorted(name for name in below if name and "/" not in name)

    def stat(self, path: str) -> Stat:
        node, children = self.nodes[path], len(self.names(path))
        return Stat(
            czxid=node["czxid"],
            mzxid=node["mzxid"],
            ctime_ms=node["ctime"],
            mtime_ms=node["mtime"],
            version=node["version"],
            cversion=node["ever"] + node["gone"],
            aversion=0,
            ephemeral_owner=node["owner"],
            data_length=len(node["data"]),
            num_children=children,
            pzxid=node["pzxid"],
        )

    # Operations

    def run(self, operation: AnyOperation, time_ms: int) -> Result:
        if isinstance(operation, OpenSession):
            return self.open(operation.timeout_ms)
        if isinstance(operation, Pulse):
            return self.pulse(operation.elapsed_ms, operation.view)
        if isinstance(operation, EndSessions):
            for number in sorted(self.sessions):
                self.end(number)
            return Nothing()
        if isinstance(operation, Reattach):
            return self.reattach(operation.session, operation.password)
        if isinstance(operation, Touch):
            errors = [(each[0], self.speak(*each)) for each in operation.sessions]
            return Touched(tuple(each for each in errors if each[1]))
        assert isinstance(operation, Write | EndSession)
        error = self.speak(operation.session, operation.generation)
        if error:
            return Failed(error)
        if isinstance(operation, EndSession):
            return self.end(operation.session)
        self.zxid += 1
        if isinstance(operation.request, Multi):
            return self.multi(operation.request, operation.session, time_ms)
        return self.single(operation.request, operation.session, time_ms)

    def open(self, timeout_ms: int) -> Result:
        self.session_count += 1
        self.zxid += 1
        timeout_ms = min(max(timeout_ms, SMALL.timeout_ms_min), SMALL.timeout_ms_max)
        self.sessions[self.session_count] = {"timeout": timeout_ms, "last": self.now_ms, "gen": 1}
        return Attached(self.session_count, 1, timeout_ms)  # type: ignore[arg-type]

    def reattach(self, number: int, password: bytes) -> Result:
        if number not in self.sessions or password == b"wrong":
            return Attached(number, 0, 0)  # type: ignore[arg-type]
        session = self.sessions[number]
        session.update(gen=session["gen"] + 1, last=self.now_ms)
        return Attached(number, session["gen"], session["timeout"])  # type: ignore[arg-type]

    def speak(self, number: int, generation: int) -> int:
        if number not in self.sessions:
            return ErrorCode.SESSION_EXPIRED
        if self.sessions[number]["gen"] != generation:
            return ErrorCode.SESSION_MOVED
        self.sessions[number]["last"] = self.now_ms
        return 0

    def pulse(self, elapsed_ms: int, view: int) -> Result:
        if view > self.view:
            self.view = view
            for session in self.sessions.values():
                session["last"] = self.now_ms
        elif view == self.view:
            self.now_ms += min(max(elapsed_ms, 0), SMALL.pulse_ms_max)
            for number, session in sorted(self.sessions.items()):
                if session["last"] + session["timeout"] < self.now_ms:
                    self.end(number)
        return Nothing()

    def end(self, number: int) -> Result:
        self.zxid += 1
        del self.sessions[number]
        for path in sorted(self.nodes):
            if self.nodes[path]["owner"] == number:
                self.remove(path)
        return Nothing()

    # Writes

    def multi(self, request: Multi, session: int, time_ms: int) -> Result:
        nodes = {path: dict(node) for path, node in self.nodes.items()}
        events, results = len(self.events), []
        for place, single in enumerate(request.operations):
            result = self.single(single, session, time_ms)
            results.append(result)
            if isinstance(result, Failed):
                self.nodes, self.events = nodes, self.events[:events]
                count = len(request.operations)
                codes = [0] * place + [result.error] + [-2] * (count - place - 1)
                return MultiResult(tuple(map(Failed, codes)))
        return MultiResult(tuple(results))  # type: ignore[arg-type]

    def single(self, request: object, session: int, time_ms: int) -> Result:
        if isinstance(request, Create | Create2):
            return self.create(request, session, time_ms)
        if isinstance(request, Delete):
            return self.delete(request)
        assert isinstance(request, SetData | Check)
        if request.path in ("bad", "/a/", "/a//b", "/a/s-/"):
            return Failed(ErrorCode.BAD_ARGUMENTS)
        if request.path not in self.nodes:
            return Failed(ErrorCode.NO_NODE)
        node = self.nodes[request.path]
        if request.version not in (-1, node["version"]):
            return Failed(ErrorCode.BAD_VERSION)
        if isinstance(request, Check):
            return Nothing()
        version = node["version"] + 1
        node.update(data=request.data, version=version, mzxid=self.zxid, mtime=time_ms)
        self.events.append((CHANGED, request.path))
        return StatResult(self.stat(request.path))

    def create(self, request: Create | Create2, session: int, time_ms: int) -> Result:
        path = request.path
        if "/" not in path:
            return Failed(ErrorCode.BAD_ARGUMENTS)
        parent = path[: path.rindex("/")] or "/"
        if parent not in self.nodes:
            return Failed(ErrorCode.NO_NODE)
        if request.flags & 2:
            path += str(self.nodes[parent]["ever"]).zfill(10)
        if "//" in path or (path.endswith("/") and path != "/"):
            return Failed(ErrorCode.BAD_ARGUMENTS)
        if path in self.nodes:
            return Failed(ErrorCode.NODE_EXISTS)
        if self.nodes[parent]["owner"]:
            return Failed(ErrorCode.NO_CHILDREN_FOR_EPHEMERALS)
        owner = session if request.flags & 1 else 0
        self.nodes[path] = self.new(request.data or b"", self.zxid, time_ms, owner)
        self.nodes[parent]["ever"] += 1
        self.nodes[parent]["pzxid"] = self.zxid
        self.events += [(CREATED, path), (CHILD, parent)]
        is_first = isinstance(request, Create)
        return Created(path) if is_first else Created2(path, self.stat(path))

    def delete(self, request: Delete) -> Result:
        path = request.path
        if path in ("/", "bad"):
            return Failed(ErrorCode.BAD_ARGUMENTS)
        if path not in self.nodes:
            return Failed(ErrorCode.NO_NODE)
        if request.version not in (-1, self.nodes[path]["version"]):
            return Failed(ErrorCode.BAD_VERSION)
        if self.names(path):
            return Failed(ErrorCode.NOT_EMPTY)
        self.remove(path)
        return Nothing()

    def remove(self, path: str) -> None:
        parent = path[: path.rindex("/")] or "/"
        del self.nodes[path]
        self.nodes[parent]["gone"] += 1
        self.nodes[parent]["pzxid"] = self.zxid
        self.events += [(DELETED, path), (CHILD, parent)]
