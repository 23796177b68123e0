"""For a process whose working folder has a file ``full-disk``: no file can grow.

Python imports this by itself when its folder is on the path: the disk of a node can be full. A limit on the
sizes of files would be in the way of those, too, that have their size from the start.
"""

import errno
import os
from pathlib import Path

_FULL = Path("full-disk")
_pwrite = os.pwrite


def _pwrite_into_what_is_there(fd: int, data: bytes, offset: int, /) -> int:
    if offset + len(data) > os.fstat(fd).st_size and _FULL.exists():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return _pwrite(fd, data, offset)


setattr(os, "pwrite", _pwrite_into_what_is_there)  # noqa: B010 - the types say that it is fixed
