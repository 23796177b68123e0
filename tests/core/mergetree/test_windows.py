"""What is out of its window is forgotten, by the keeper's clock, and nothing that was used again."""

from __future__ import annotations

import msgspec
from tests.core.mergetree.stand import CLIENT, PATHS, Stand, insert

from motet.core.mergetree.config import MergeTreeConfig
from motet.core.mergetree.messages import BlockInserted
from motet.core.metadata.messages import Create, Delete, MetadataRequest, Set, Write

SMALL = MergeTreeConfig(windows_ms=1_000, tokens_window=3, window_age_ms=10_000, batch_max=2)


def stand_with_tokens(count: int) -> Stand:
    stand = Stand(SMALL)
    stand.start()
    for number in range(count):
        stand.receive(CLIENT, insert(f"t{number}", request=number + 1))
        stand.settle()
    return stand


def tokens(stand: Stand) -> list[str]:
    return [name.removeprefix("token-of-") for name in stand.tree.names(PATHS.tokens)]


def look(stand: Stand, ms: int = 1_000) -> None:
    stand.tick(ms)
    stand.settle()


def is_trim(request: MetadataRequest) -> bool:
    return isinstance(request, Write) and request.operations[0].path == PATHS.tokens


def test_tokens_stay_for_so_many_and_for_so_long() -> None:
    """X1."""
    stand = stand_with_tokens(6)
    look(stand)
    look(stand, 20_000)
    assert len(tokens(stand)) == 6, "nobody says that time has passed"
    stand.receive(CLIENT, insert("new", request=100))
    stand.settle()
    look(stand, 20_000)
    assert tokens(stand) == ["new", "t4", "t5"]
    assert isinstance(stand.told[-1], BlockInserted)


def test_a_producer_of_a_client_is_forgotten_and_a_named_one_is_not() -> None:
    stand = Stand(SMALL)
    stand.start()
    names = ("client-1", "named", "client-2")
    for request, name in enumerate(names, 1):
        message = insert(f"part-{name}", request=request)
        stand.receive(CLIENT, msgspec.structs.replace(message, token="", producer=name, number=1))
        stand.settle()
        stand.tick(6_000)
        stand.settle()
    look(stand)
    assert stand.tree.names(PATHS.producers) == ("client-2", "named")


def test_what_was_listed_is_what_is_deleted() -> None:
    """X2: somebody else forgets a token, and it is used anew: it has the same name and version."""
    stand = stand_with_tokens(6)
    stand.now_ms = 20_000
    stand.receive(CLIENT, insert("new", request=100))
    stand.settle()
    stand.tick()
    while not any(map(is_trim, stand.asked)):
        stand.answer()
    token = PATHS.token("token-of-t0")
    stand.write(Set(PATHS.tokens, b"", 0), Delete(token, 0))
    stand.write(Create(token, b"{}"))
    stand.settle()
    assert "t0" in tokens(stand)
    assert len(tokens(stand)) == 7, "whoever was second leaves it to the other"


def test_what_is_used_again_meanwhile_stays() -> None:
    stand = stand_with_tokens(6)
    stand.now_ms = 20_000
    stand.receive(CLIENT, insert("new", request=100))
    stand.settle()
    stand.tick()
    while not any(map(is_trim, stand.asked)):
        stand.answer()
    stand.write(Set(PATHS.token("token-of-t1"), b"{}", 0))
    stand.settle()
    assert tokens(stand) == ["new", "t1", "t4", "t5"]


def test_large_nodes_are_read_in_smaller_batches() -> None:
    stand = Stand(SMALL)
    stand.start()
    for number in range(20):
        stand.write(Create(PATHS.producer(f"client-{number}"), b"x" * 8_000))
    stand.now_ms = 20_000
    stand.write(Create(PATHS.producer("client-new"), b""))
    look(stand)
    assert stand.tree.names(PATHS.producers) == ("client-new",)
