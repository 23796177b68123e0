"""The state on the pages of a checkpoint.

    0 … node_pages - 1                      nodes, by a checksum of their path
    node_pages … + session_pages - 1        sessions, by their number
    the last one                            the counters

Equal states have equal pages: what is on a page is in order, and what can be worked out is not on any.
Many small pages rather than few large ones: a checkpoint writes every page that changed, whole.

What is read back is believed only if it is a whole state: see ``_problem``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from motet.core.keeper.config import KeeperConfig
from motet.core.keeper.node import NOBODY, Node, data_bytes
from motet.core.keeper.paths import ROOT, are_names
from motet.core.keeper.sessions import Session, SessionClock, Sessions
from motet.core.keeper.tree import Tree, children_by_parent
from motet.errors import BadRecord
from motet.format.checksum import crc32c
from motet.ids import SessionId, Zxid

T = TypeVar("T")
Key = TypeVar("Key", str, SessionId)


class Counters(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What there is one of."""

    zxid: Zxid
    clock: SessionClock


class State(msgspec.Struct):
    """What all pages together say."""

    nodes: dict[str, Node] = {}
    #: page number -> paths on it
    pages: dict[int, dict[str, None]] = {}
    #: path -> names of its children
    children: dict[str, dict[str, None]] = {}
    sessions: dict[SessionId, Session] = {}
    counters: Counters | None = None
    #: some node may be larger than it may be
    has_large_page: bool = False


_encode = msgspec.msgpack.Encoder().encode
_nodes_decoder = msgspec.msgpack.Decoder(list[tuple[str, Node]])
_sessions_decoder = msgspec.msgpack.Decoder(list[Session])
_counters_decoder = msgspec.msgpack.Decoder(Counters)


def counters_page(config: KeeperConfig) -> int:
    return config.node_pages + config.session_pages


# Out


def encode_counters(zxid: Zxid, clock: SessionClock) -> bytes:
    return _encode(Counters(zxid, clock))


def changed_pages(config: KeeperConfig, tree: Tree, sessions: Sessions) -> dict[int, bytes | None]:
    """Those of nodes and sessions that may have changed since the last time; None for one that is gone."""
    changed = {number: encode_nodes(tree, number) for number in tree.take_changed()}
    for number in sessions.take_changed():
        changed[config.node_pages + number] = encode_sessions(sessions, number)
    return changed


def encode_nodes(tree: Tree, number: int) -> bytes | None:
    found = tree.page(number)
    return _encode(found) if found else None


def encode_sessions(sessions: Sessions, number: int) -> bytes | None:
    found = sessions.page(number)
    return _encode(found) if found else None


def all_pages(config: KeeperConfig, tree: Tree, sessions: Sessions) -> Iterable[tuple[int, bytes]]:
    """All that exist, in order, except for the counters."""
    for number in tree.pages:
        yield number, _encode(tree.page(number))
    for number in sessions.pages:
        yield config.node_pages + number, _encode(sessions.page(number))


# In


def decode_pages(config: KeeperConfig, pages: Iterable[tuple[int, bytes]]) -> State:
    """The state; ``BadRecord`` if these are not all the pages of one."""
    state = State()
    for number, data in pages:
        _take_page(config, state, number, data)
    state.children = children_by_parent(state.nodes)
    problem = _problem(config, state)
    if problem is not None:
        raise BadRecord(problem)
    return state


def _take_page(config: KeeperConfig, state: State, number: int, data: bytes) -> None:
    if 0 <= number < config.node_pages:
        nodes = _decoded(_nodes_decoder, number, data)
        state.pages[number] = paths = dict.fromkeys([path for path, _ in nodes])
        in_order = sorted(paths)
        if not nodes or len(nodes) != len(paths) or in_order != list(paths):
            raise BadRecord(f"page {number} is empty, or not in order")
        if {each % config.node_pages for each in map(crc32c, map(str.encode, paths))} != {number}:
            raise BadRecord(f"page {number} has nodes of other pages")
        state.nodes.update(nodes)
        state.has_large_page = state.has_large_page or len(data) > config.node_bytes_max
    elif number < counters_page(config):
        sessions = _decoded(_sessions_decoder, number, data)
        _require_ordered(number, [session.id for session in sessions])
        place = number - config.node_pages
        if any(session.id % config.session_pages != place for session in sessions):
            raise BadRecord(f"page {number} has sessions of other pages")
        state.sessions.update({session.id: session for session in sessions})
    elif number == counters_page(config):
        state.counters = _decoded(_counters_decoder, number, data)
    else:
        raise BadRecord(f"there is no page {number}")


def _decoded(decoder: msgspec.msgpack.Decoder[T], number: int, data: bytes) -> T:
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadRecord(f"page {number} is not what it should be") from error


def _require_ordered(number: int, keys: list[Key]) -> None:
    if not keys or keys != sorted(dict.fromkeys(keys)):
        raise BadRecord(f"page {number} is empty, or not in order")


def _problem(config: KeeperConfig, state: State) -> str | None:
    """What keeps this from being a whole state; None if nothing does."""
    if state.counters is None:
        return "the page of the counters is missing"
    if ROOT not in state.nodes:
        return "there is no root"
    session_next = state.counters.clock.session_next
    if any(not 0 < session < session_next for session in state.sessions):
        return "a session has a number that was not given out yet"
    return _problem_of_nodes(config, state) or _problem_of_paths(state)


def _problem_of_nodes(config: KeeperConfig, state: State) -> str | None:
    nodes = state.nodes
    if nodes[ROOT].ephemeral_owner != NOBODY:
        return "the root is ephemeral"
    for path, node in nodes.items():
        if node.ephemeral_owner != NOBODY and node.ephemeral_owner not in state.sessions:
            return f"{path}: its session is gone"
    if state.has_large_page and any(
        data_bytes(node.data) > config.node_bytes_max for node in nodes.values()
    ):
        return "a node is larger than it may be"
    return None


def _problem_of_paths(state: State) -> str | None:
    """A path is one if that of its parent is, and the name below it."""
    nodes, children = state.nodes, state.children
    for parent, names in children.items():
        above = nodes.get(parent)
        if above is None or above.ephemeral_owner != NOBODY:
            return f"{parent}: has children, and is no node that can have any"
        if not are_names(names):
            return f"{parent}: has a child with a name that is none"
    is_each_named = sum(map(len, children.values())) == len(nodes) - 1
    if not is_each_named or any(f"/{name}" not in nodes for name in children.get(ROOT, ())):
        return "a path does not begin at the root"
    return None
