"""The settings of table replicas."""

from __future__ import annotations

import msgspec


class MergeTreeConfig(msgspec.Struct, frozen=True):
    """How replicas behave."""

    #: how often everything that is late is looked at
    tick_ms: int = 1_000
    #: how often the log is read though nobody has told of an entry
    pull_ms: int = 10_000
    #: how long an insert waits for its quorum, and a reader for parts
    wait_ms: int = 10_000
    #: what was executed is written after so long, or when there are so many entries of it
    write_ms: int = 50
    unwritten_max: int = 64
    #: entries in one read of the log
    entries_max: int = 64
    #: parts, or entries of the queue, in one multi, and in one read
    batch_max: int = 32
    #: data in one multi: embedded keepers take less than a cluster's
    batch_bytes: int = 8 * 1024
    #: parts that are fetched at a time
    fetches_max: int = 4
    #: stored parts whose manifests are read with one tick, when only their names are known
    looked_max: int = 200
    #: parts that are aside and known
    aside_max: int = 10_000
    #: bytes within messages that a node is writing to its disk, of all its replicas together
    block_bytes_max: int = 64 * 1024 * 1024
    #: other replicas that small bytes are pushed to
    pushes_max: int = 4
    #: pushed bytes that no entry names go after so long
    pushed_ms: int = 60_000
    #: parts that are held for publications
    held_max: int = 100_000
    #: how often those that are old are looked at; how old a part has to be that is in no job, and one that is
    staged_look_ms: int = 10_000
    staged_keep_ms: int = 3_600_000
    job_part_keep_ms: int = 60_000
    #: how often staging jobs are looked at, and how old a lease has to be whose job is collected
    jobs_look_ms: int = 20_000
    lease_ms: int = 60_000
    #: how often it is looked at what is out of its window; how much of each stays, and for how long
    windows_ms: int = 120_000
    tokens_window: int = 10_000
    window_age_ms: int = 3_600_000
    dedup_window: int = 1_000
    #: inserts, drops and readers that may wait, of each so many
    requests_max: int = 1_000
    #: parts in one page of a list: 2 KiB each at most, so that a page is a message
    page_max: int = 2_000
    #: the pointer is written so long after it could be, unless it rides on something else
    pointer_ms: int = 1_000
    #: queries that began before the drop of a table may read its parts for so long
    dropped_ms: int = 60_000
