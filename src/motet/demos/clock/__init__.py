"""Transactions over three nodes, one of which is killed: the clocks that its shard hands out go on rising."""
