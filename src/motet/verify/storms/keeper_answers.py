"""What clients of a keeper are told, message by message, against what the log says.

Z5   answers come in the order of requests, one each, and a client's zxids never fall
Z6   a write that is answered is in the log at its zxid, for this client and with this result, and after
     all that anybody had been told of when it was asked
Z7   a read is what the tree was at its zxid, which is no older than all that anybody had been told of when it
     was asked; where reads are local only a sync is that new
Z8   a watch fires once, for the first change after the read that has set it and for nothing else, and
     before any answer that knows of the change
Z9   a session that a client is told of is there, and one that it is told is over has ended

All this together says that clients see one tree that changes at one point of time after another.
"""

from __future__ import annotations

from motet.core.keeper.messages import Answer, Connected, Happened
from motet.format.zookeeper.messages import (
    AnyResult,
    Children,
    Children2,
    CloseSession,
    Data,
    ErrorCode,
    EventType,
    Exists,
    Failed,
    GetAcl,
    GetChildren,
    GetChildren2,
    GetData,
    MultiRead,
    MultiResult,
    Ping,
    ReadRequest,
    SetWatches,
    StatResult,
    Sync,
    Synced,
    WriteRequest,
)
from motet.format.zookeeper.records import AnyRequest
from motet.sim.world import World
from motet.verify.storms.keeper_ledger import Asked, Conversation, Ledger
from motet.verify.storms.keeper_model import CHILD, DATA, HEARD_BY, Model, Version

Telling = tuple[int, AnyResult]
"""An error, and what goes with it."""


class Listener:
    """The one who hears what everybody is told."""

    def __init__(self, world: World, ledger: Ledger, *, reads_are_local: bool) -> None:
        self._world = world
        self._ledger = ledger
        self._reads_are_local = reads_are_local
        #: the newest zxid that anybody was told of
        self.told_zxid = 0
        #: zxids of writes that were answered
        self._answered: dict[int, None] = {}
        #: session -> the newest zxid it was told of, but in answers to pings
        self._told: dict[int, int] = {}

    def _violated(self, rule: str, talk: Conversation, what: str) -> None:
        self._world.violated(rule, f"{talk.client} over {talk.address}: {what}")

    def was_there(self, path: str, zxid: int) -> bool:
        return self._ledger.model.node(path, zxid) is not None

    # Sessions

    def connected(self, talk: Conversation, wanted: int, message: Connected) -> None:
        """Z9."""
        model = self._ledger.model
        if not message.timeout_ms:
            if wanted in model.sessions:
                self._violated("Z9", talk, f"was told that session {wanted} is over")
            return
        ended_zxid = model.ended.get(message.session)
        if wanted not in (0, message.session) or message.session > model.sessions_begun:
            self._violated("Z9", talk, f"has session {message.session} and wanted {wanted}")
        elif ended_zxid is not None and ended_zxid <= talk.known_zxid:
            self._violated("Z9", talk, f"has session {message.session}, which was known to be over")

    # Answers

    def answered(self, talk: Conversation, answer: Answer) -> Asked | None:
        """The request that it is the answer to; None if something is wrong."""
        if not talk.asked or talk.asked[0].xid != answer.xid:
            self._violated("Z5", talk, f"got an answer to {answer.xid}, which was not the next")
            return None
        asked = talk.asked.pop(0)
        if answer.zxid > self._ledger.model.zxid:
            self._violated("Z5", talk, f"was told of zxid {answer.zxid}, which nobody has applied")
        self._check_order(talk, asked, answer)
        self._check_events(talk, answer.zxid)
        self._check_answer(talk, asked, answer)
        self.told_zxid = max(self.told_zxid, answer.zxid)
        return asked

    def _check_order(self, talk: Conversation, asked: Asked, answer: Answer) -> None:
        if isinstance(asked.request, Ping):
            return  # it overtakes: it waits for nothing that was asked after it
        if answer.zxid < self._told.get(talk.session, 0):
            self._violated("Z5", talk, f"falls back to zxid {answer.zxid}")
        self._told[talk.session] = answer.zxid

    def _check_answer(self, talk: Conversation, asked: Asked, answer: Answer) -> None:
        request = asked.request
        if answer.error in (ErrorCode.SESSION_EXPIRED, ErrorCode.SESSION_MOVED):
            self._check_refusal(talk, answer)
        elif isinstance(request, WriteRequest):
            self._check_write(talk, asked, request, answer)
        elif isinstance(request, CloseSession):
            if self._ledger.model.ended.get(talk.session) != answer.zxid:
                self._violated("Z9", talk, f"was told that session {talk.session} is closed")
        elif isinstance(request, ReadRequest):
            self._check_read(talk, asked, request, answer)
        elif isinstance(request, SetWatches):
            self._check_watches_set(talk, request, answer)
        elif isinstance(request, Sync):
            self._check_recent(talk, asked, answer)
            self._expect(talk, asked, answer, (0, Synced(request.path)))

    def _check_refusal(self, talk: Conversation, answer: Answer) -> None:
        """Z9."""
        if answer.error != self._ledger.model.refusal(talk.session, talk.generation):
            has_ended = talk.session in self._ledger.model.ended  # it was moved before
            if not has_ended or answer.error != ErrorCode.SESSION_MOVED:
                self._violated("Z9", talk, f"was refused with {answer.error}")

    def _expect(self, talk: Conversation, asked: Asked, answer: Answer, telling: Telling) -> None:
        if (answer.error, answer.result) != telling:
            rule = "Z6" if isinstance(asked.request, WriteRequest) else "Z7"
            what = f"{asked.request} at zxid {answer.zxid} is {telling}"
            self._violated(rule, talk, f"{what}, and not {answer.error} {answer.result}")

    # Z6

    def _check_write(
        self, talk: Conversation, asked: Asked, request: WriteRequest, answer: Answer
    ) -> None:
        zxid = answer.zxid
        done = self._ledger.model.done.get(zxid)
        if done is None or (done.session, done.request) != (talk.session, request):
            self._violated("Z6", talk, f"zxid {zxid} is not its {request}")
            return
        if zxid in self._answered or zxid <= asked.known_zxid:
            what = f"zxid {zxid} was there before it was asked for"
            self._violated("Z6", talk, f"{what}: {asked.known_zxid} was known")
        self._answered[zxid] = None
        self._expect(talk, asked, answer, (done.error, done.result))

    # Z7

    def _check_recent(self, talk: Conversation, asked: Asked, answer: Answer) -> None:
        if answer.zxid < asked.known_zxid:
            what = f"{asked.request} was answered at zxid {answer.zxid}"
            self._violated("Z7", talk, f"{what}, when {asked.known_zxid} was known")

    def _check_read(
        self, talk: Conversation, asked: Asked, request: ReadRequest, answer: Answer
    ) -> None:
        if not self._reads_are_local:
            self._check_recent(talk, asked, answer)
        telling = reading(self._ledger.model, request, answer.zxid)
        self._expect(talk, asked, answer, telling)
        watch = watch_set(request, answer.error)
        if watch is not None:
            talk.watches.setdefault(watch, answer.zxid)

    # Z8

    def happened(self, talk: Conversation, message: Happened) -> None:
        event, path = EventType(message.event.type), message.event.path
        if talk.asked and isinstance(talk.asked[0].request, SetWatches):
            talk.early_events.append((event, path))
            return
        zxid = None
        for kind in HEARD_BY[event]:
            since_zxid = talk.watches.pop((kind, path), None)
            if since_zxid is None:
                continue
            first = self._ledger.model.first_after(kind, path, since_zxid)
            if first is None or first[1] != event:
                what = f"{event.name} of {path} was heard, set at {since_zxid}"
                self._violated("Z8", talk, f"{what}: {first} happened")
                return
            zxid = first[0]
        if zxid is None or zxid < talk.event_zxid:
            self._violated("Z8", talk, f"{event.name} of {path} at {zxid} for no watch, or late")
            return
        talk.event_zxid = zxid
        self._world.mark("watch_fired")

    def _check_events(self, talk: Conversation, zxid: int) -> None:
        """Whoever knows of a change has heard of it."""
        for (kind, path), since_zxid in talk.watches.items():
            first = self._ledger.model.first_after(kind, path, since_zxid)
            if first is not None and first[0] <= zxid:
                what = f"knows zxid {zxid} and not that {path} changed at {first[0]}"
                self._violated("Z8", talk, f"{what}, watched since {since_zxid}")

    def check_all_heard(self, talk: Conversation, zxid: int) -> None:
        """In the end: its node has applied this much, and nothing is on its way."""
        self._check_events(talk, zxid)

    def _check_watches_set(self, talk: Conversation, request: SetWatches, answer: Answer) -> None:
        """What of the watches of before has fired in between, and which of them are set again."""
        model, zxid, since = self._ledger.model, answer.zxid, request.relative_zxid
        expected: list[tuple[int, str]] = []
        kinds = ((DATA, request.data), (None, request.exists), (CHILD, request.children))
        for kind, paths in kinds:
            for path in paths:
                event = missed(kind, model.node(path, zxid), since)
                if event is None:
                    talk.watches[kind or DATA, path] = zxid
                else:
                    expected.append((event, path))
        if talk.early_events != expected:
            what = f"of {request} at zxid {zxid} has missed {expected}"
            self._violated("Z8", talk, f"{what}, and heard {talk.early_events}")
        elif expected:
            self._world.mark("watch_after_move")
        talk.early_events = []


def missed(kind: str | None, node: Version | None, since_zxid: int) -> EventType | None:
    """What a watch of before has missed by now; the kind None waits for a node to come."""
    if kind is None:
        return None if node is None else EventType.CREATED
    if node is None:
        return EventType.DELETED
    if kind == DATA:
        return EventType.CHANGED if node.mzxid > since_zxid else None
    return EventType.CHILD if node.pzxid > since_zxid else None


def watch_set(request: AnyRequest, error: int) -> tuple[str, str] | None:
    """The watch that a read has left behind."""
    if isinstance(request, Exists) and request.watch and error in (0, ErrorCode.NO_NODE):
        return DATA, request.path
    if isinstance(request, GetData) and request.watch and not error:
        return DATA, request.path
    if isinstance(request, GetChildren | GetChildren2) and request.watch and not error:
        return CHILD, request.path
    return None


def reading(model: Model, request: ReadRequest, zxid: int) -> Telling:
    """What a read is answered at this zxid."""
    if isinstance(request, MultiRead):
        results = [reading(model, each, zxid)[1] for each in request.operations]
        return 0, MultiResult(tuple(results))  # type: ignore[arg-type]  # of data and children
    assert not isinstance(request, GetAcl), "nobody asks for that here"
    node = model.node(request.path, zxid)
    if node is None:
        return ErrorCode.NO_NODE, Failed(ErrorCode.NO_NODE)
    if isinstance(request, GetData):
        return 0, Data(node.data, node.stat)
    if isinstance(request, Exists):
        return 0, StatResult(node.stat)
    if isinstance(request, GetChildren):
        return 0, Children(node.children)
    return 0, Children2(node.children, node.stat)
