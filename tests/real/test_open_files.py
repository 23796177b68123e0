"""A process asks for as many open files as it may have."""

from __future__ import annotations

import resource
import subprocess
import sys

from motet.real.process import ConnectionLimits, share_out, wanted

LOW = 128
PROGRAM = f"""
import resource
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, ({LOW}, hard))
from motet.real.process import allow_many_files
print(allow_many_files(), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


def test_the_limit_is_raised_as_far_as_the_system_allows() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    said, soft = map(int, done.stdout.split())
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    assert said == soft == most


def test_many_descriptors_lower_nothing() -> None:
    assert share_out(wanted) == ConnectionLimits()
    assert share_out(1 << 20) == ConnectionLimits()


def test_few_descriptors_are_shared_out_and_some_kept_back() -> None:
    for open_files in (64, 256, 1_024, 4_096, 16_384):
        limits = share_out(open_files)
        taken = limits.native + limits.zookeeper + limits.http + limits.peers
        assert limits.is_lowered
        assert taken <= open_files - open_files // 4
        assert min(limits.native, limits.zookeeper, limits.http, limits.peers) >= 1
