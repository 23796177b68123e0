"""The shard log: election, replication and reconfiguration, as published with the protocol's text."""

from motet.verify.models.shard_log.reconfiguring import ShardLog
from motet.verify.models.shard_log.variants import Repaired as ShardLogRepaired

__all__ = ["ShardLog", "ShardLogRepaired"]
