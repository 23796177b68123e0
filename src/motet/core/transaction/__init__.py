"""Transactions over the shards of a cluster, their locks, and the feed. Begin at ``state.py``."""
