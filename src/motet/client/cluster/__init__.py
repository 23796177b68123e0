"""A cluster as its clients see it: who leads which shard, and the ways there. Begin at ``router.py``."""
