"""Blocks of ports."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from motet.errors import NodeError
from motet.testing import port_block
from motet.testing.port_block import HOST, NODE_PORTS, PortBlock


@pytest.fixture
def block() -> Iterator[PortBlock]:
    block = PortBlock.claim()
    yield block
    block.release()


def test_claimed_blocks_differ(block: PortBlock) -> None:
    others = [PortBlock.claim() for _ in range(10)]
    bases = [each.base for each in (block, *others)]
    for other in others:
        other.release()
    assert len(bases) == len({*bases})
    assert all(base % 10 == 0 for base in bases)


@pytest.mark.parametrize("offset", NODE_PORTS)
def test_a_block_with_a_taken_port_is_not_free(block: PortBlock, offset: int) -> None:
    assert block.is_free()
    with socket.create_server((HOST, block.base + offset)):
        assert not block.is_free()


def test_a_block_is_not_given_twice_until_it_is_released(
    block: PortBlock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(port_block, "FIRST_BASE", block.base)
    monkeypatch.setattr(port_block, "LAST_BASE", block.base + 10)
    with pytest.raises(NodeError, match="no block"):
        PortBlock.claim()
    block.release()
    again = PortBlock.claim()
    assert again.base == block.base
    again.release()
