"""Replicated tables: one replica of one shard of a table, as a pure machine."""
