"""The replicated log of one shard: nodes that do as an operator tells them. Begin at ``replica.py``."""
