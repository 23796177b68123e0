"""The view change of Viewstamped Replication, with nacks."""

from motet.verify.models.view_change.protocol import ViewChange

__all__ = ["ViewChange"]
