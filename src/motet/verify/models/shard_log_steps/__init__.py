"""The shard log in the steps of a node, which its core is followed in."""

from motet.verify.models.shard_log_steps.changing import ShardLogChanges
from motet.verify.models.shard_log_steps.protocol import ShardLogSteps

__all__ = ["ShardLogChanges", "ShardLogSteps"]
