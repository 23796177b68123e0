"""The shards of streams on a data node: appends, transactions, the feed. Begin at ``node.py``."""
