"""What the streams of a node say to whoever speaks to the keeper for them. It never leaves the process."""

from __future__ import annotations

import msgspec

from motet.core.machine import Message
from motet.ids import Address

KEEPER = Address("keeper")
"""Where that somebody is, for the machine."""


class Keep(Message, frozen=True, tag="catalog.Keep"):
    """Have a node with this data, unless there is one already: that is left alone."""

    number: int
    path: str
    data: bytes


class Kept(Message, frozen=True, tag="catalog.Kept"):
    """The node is there, and this is its data."""

    number: int
    path: str
    data: bytes


class ListKept(Message, frozen=True, tag="catalog.ListKept"):
    """All nodes below this one."""

    number: int
    path: str


class KeptNode(msgspec.Struct, frozen=True, array_like=True):
    """One of them."""

    path: str
    data: bytes


class KeptAre(Message, frozen=True, tag="catalog.KeptAre"):
    """All nodes below that one, in the order in which they were made."""

    number: int
    path: str
    nodes: tuple[KeptNode, ...]


class KeepFailed(Message, frozen=True, tag="catalog.KeepFailed"):
    """The keeper was not reached, or said no; whether a node was made is not known."""

    number: int
    code: str
    what: str
    advice: str


ToKeeper = Keep | ListKept
FromKeeper = Kept | KeptAre | KeepFailed
