"""A data node: the shards it holds, what clients want of them, and its clock. Begin at ``node.py``."""
