"""The operator: elects the leaders of shards and changes their ensembles. Begin at ``operator.py``."""
