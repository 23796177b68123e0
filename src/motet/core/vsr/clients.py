"""Clients: who they are to this replica, requests on their way, replies, evictions.

A client talks to any replica. A backup passes its requests on to the primary; the reply then goes to the
client directly, and through that backup as well, in case the primary and the client cannot reach each
other.
"""

from __future__ import annotations

import msgspec

from motet.core.vsr.context import Core
from motet.core.vsr.messages import Eviction, PingClient, PongClient, Reply, Request
from motet.core.vsr.sessions import EVICTION_REASONS, Decision
from motet.core.vsr.state import Status
from motet.ids import Address, ClientId, ReplicaIndex

addresses_per_session = 4
"""A client that is gone leaves its address behind: so many are kept for each possible session."""


def remember_address(core: Core, client: ClientId, address: Address) -> None:
    """This is how the client is reached from here; the oldest are forgotten."""
    addresses = core.state.addresses
    addresses.pop(client, None)  # the newest is the last
    addresses[client] = address
    if len(addresses) > addresses_per_session * core.config.clients_max:
        del addresses[next(iter(addresses))]


def on_ping_client(core: Core, message: PingClient, sender: Address) -> None:
    remember_address(core, message.client, sender)
    if core.state.status is Status.NORMAL:
        own, view = core.own, core.state.view
        core.send_address(sender, PongClient(core.config.cluster, own, view))


def forward_request(core: Core, message: Request) -> None:
    """The primary will see to it."""
    core.send(core.primary, message)


def send_reply(core: Core, reply: Reply, through: ReplicaIndex | None) -> None:
    """To the client, and through the backup that brought its request."""
    # A stored reply knows the view in which it was made: a client told that would look there for a primary.
    if reply.replica != core.own or reply.view != core.state.view:
        reply = msgspec.structs.replace(reply, replica=core.own, view=core.state.view)
    address = core.state.addresses.get(reply.client)
    if address is not None:
        core.send_address(address, reply)
    if through is not None and core.config.replicas[through] != address:
        core.send(through, reply)


def resend_reply(core: Core, client: ClientId, through: ReplicaIndex | None) -> None:
    """The reply that is stored; one that the disk has lost is being repaired, and is asked for again."""
    reply = core.state.replies.get(client)
    if reply is None:
        core.note("reply_missing")
        return
    send_reply(core, reply, through)


def relay_reply(core: Core, message: Reply) -> None:
    """A reply that came this way because its request did. What is answered is committed."""
    if core.is_backup and message.view == core.state.view:
        core.hear_commit(message.op)
    address = core.state.addresses.get(message.client)
    if address is not None:
        core.send_address(address, message)


def evict(core: Core, client: ClientId, reason: Decision) -> None:
    """Tell a client that it has no session; only a primary in its view knows for certain."""
    if not core.is_primary:
        return
    why = EVICTION_REASONS[reason]
    core.note("eviction", why)
    address = core.state.addresses.get(client)
    message = Eviction(core.config.cluster, core.own, core.state.view, client, why)
    if address is not None:
        core.send_address(address, message)
    else:
        core.broadcast(message)  # it came through a backup, which knows where the client is
