"""What a node does about whole tables: services that share its session with the keeper, and are no replicas.

A service is explicit state and one method per event, as a replica is. Each request of a client is known by a
number of its own; what it waits for is data in ``memory``, so that a node can be cloned and compared.
"""

from __future__ import annotations

from motet.core.mergetree.context import NodeContext
from motet.core.mergetree.messages import NodeRefused, NodeRequest, TableMessage
from motet.core.metadata.messages import (
    Changed,
    MetadataAnswer,
    Read,
    ReadOperation,
    Watch,
    WatchOf,
    Write,
    WriteOperation,
)
from motet.errors import MotetError
from motet.ids import Address, RequestId, WorkId, WriteId


class NodeService:
    """Above all of them. What it does not care for it need not take."""

    #: unique on the node
    name = ""
    #: the requests that it answers
    takes: tuple[type[NodeRequest], ...] = ()
    #: what replicas say that it wants to hear, too
    hears: tuple[type[TableMessage], ...] = ()

    def __init__(self, node: NodeContext) -> None:
        self.node = node
        #: all there is to it, as plain data
        self.memory: object = None

    # What happens

    def on_session(self) -> None:
        """A session with the keeper has begun."""

    def on_session_end(self) -> None:
        """It is over: what was asked under it is not answered any more."""

    def on_request(self, client: Address, message: NodeRequest) -> None:
        """A client asks."""

    def on_message(self, sender: Address, message: TableMessage) -> None:
        """A replica says something that this service hears."""

    def on_answer(self, request: RequestId, answer: MetadataAnswer) -> None:
        """The keeper has answered."""

    def on_work(self, work: WorkId, why: str | None) -> None:
        """Work has ended: well, or not, and why."""

    def on_written(self, write: WriteId, why: str | None) -> None:
        """A file is changed, durably; or it is not, and why."""

    def on_changed(self, changed: Changed) -> None:
        """Something that some service watches has changed."""

    def on_tick(self) -> None:
        """Look at everything that is late."""

    # What it can do

    def read(self, *operations: ReadOperation) -> RequestId:
        node = self.node
        message = Read(node.new_request(self.name), node.memory.session, operations)
        return node.ask(message)

    def write(self, *operations: WriteOperation) -> RequestId:
        node = self.node
        message = Write(node.new_request(self.name), node.memory.session, operations)
        return node.ask(message)

    def watch(self, path: str, of: WatchOf) -> RequestId:
        node = self.node
        return node.ask(Watch(node.new_request(self.name), node.memory.session, path, of))

    def refuse(self, client: Address, message: NodeRequest, error: MotetError) -> None:
        told = NodeRefused(message.request, error.code, error.what, error.advice)
        self.node.send(client, told)
