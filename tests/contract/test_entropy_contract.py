"""What every source of randomness promises (:mod:`motet.ports`)."""

from __future__ import annotations

from motet.ports import Entropy


def test_nonces_are_fresh_and_have_63_bits(entropy: Entropy) -> None:
    nonces = [entropy.nonce() for _ in range(1000)]
    assert all(0 < nonce < 2**63 for nonce in nonces)
    assert len(set(nonces)) == len(nonces)
    for bit in range(63):
        ones = sum(nonce >> bit & 1 for nonce in nonces)
        assert 250 < ones < 750, f"bit {bit} is no coin"  # more than fifteen standard deviations
