"""How many files and sockets this process may have open."""

from __future__ import annotations

import contextlib
import resource

wanted = 65_536
"""More than that nobody needs here, and some systems say that there is no end."""


def allow_many_files() -> int:
    """Have the system allow as many as it would; how many that are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    if soft < most or soft == resource.RLIM_INFINITY:
        with contextlib.suppress(OSError, ValueError):  # then what there was has to do
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            return most
    return min(soft, wanted)
