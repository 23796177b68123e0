"""Zero-copy replication: marks that keep shared objects alive, and the lock that keeps copies single."""

from motet.verify.models.zero_copy.exclusive import ZeroCopyExclusive
from motet.verify.models.zero_copy.shared import ZeroCopy

__all__ = ["ZeroCopy", "ZeroCopyExclusive"]
