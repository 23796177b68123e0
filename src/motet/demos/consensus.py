"""The consensus demo: five replicas under load lose their primary, a backup, a disk and a network.

1. The primary and a backup are killed with ``kill -9``: three of five go on.
2. While the backup is down, prepares in its log and a block of its checkpoint rot. It comes back, notices,
   and gets them from the others.
3. One replica is cut off from all others, and let in again.

Meanwhile clients write down what they are told (``load``). In the end it has to be so.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from motet.demos import Report, Tell, report_lines
from motet.demos.consensus_load import Load
from motet.testing.cluster_status import wait_for
from motet.testing.local_cluster import LocalCluster
from motet.testing.replica_damage import rot_block, rot_prepares

REPLICAS = 5
CUT_OFF = 2
"""Who is cut off. It often is the primary by then, since it follows the one that is killed."""

SMALL = {
    "MOTET_KEEPER__LOG_SLOTS": "512",
    "MOTET_KEEPER__CHECKPOINT_OPS": "200",
    "MOTET_KEEPER__REQUEST_BYTES_MAX": "8192",
}
"""A checkpoint every now and then."""

PREPARES_ROTTEN = 5
cut_off_s = 2.5
promise_s = 5.0
"""Within this time of healing, all replicas are in one view with one log again."""
patience_s = 60.0


@dataclass
class Story:
    """What was done to them, and how they took it."""

    kills: int = 0
    prepares_rotten: int = 0
    blocks_rotten: int = 0
    cut_off_was_primary: bool = False
    back_ms: list[int] = field(default_factory=list)


def show(tell: Tell) -> Report:
    """Run it, and report."""
    began = time.monotonic()
    tell("starting five replicas …")
    with LocalCluster(REPLICAS, roles=["keeper"], environment=SMALL, proxied=[CUT_OFF]) as cluster:
        report = asyncio.run(_run(cluster, tell))
    report["seconds"] = round(time.monotonic() - began, 2)
    tell("")
    for line in report_lines(report):
        tell(line)
    return report


async def _run(cluster: LocalCluster, tell: Tell) -> Report:
    story = Story()
    load = Load([cluster.zookeeper(i) for i in range(REPLICAS)], pause_s=0.02)
    try:
        await load.start()
        await _kill_and_rot(cluster, load, story, tell)
        await _cut_off(cluster, load, story, tell)
        await load.finish()
        lost = len(await load.lost(load.clients[0]))
    finally:
        await load.close()
    return await asyncio.to_thread(_report, cluster, load, story, lost)


async def _kill_and_rot(cluster: LocalCluster, load: Load, story: Story, tell: Tell) -> None:
    primary = await asyncio.to_thread(cluster.keeper_primary)
    backup = next(i for i in range(REPLICAS - 1, -1, -1) if i not in (primary, CUT_OFF))
    # Its checkpoint is to have a block that can rot, and its log a prepare above that.
    await asyncio.to_thread(wait_for, lambda: _can_rot(cluster, backup), "a checkpoint", patience_s)
    tell(f"kill -9 of n{primary}, the primary, and of n{backup}")
    await asyncio.to_thread(cluster.kill, primary)
    await asyncio.to_thread(cluster.kill, backup)
    story.kills = 2
    data = cluster.keeper_folder(backup)
    story.prepares_rotten = len(await asyncio.to_thread(rot_prepares, data, PREPARES_ROTTEN))
    story.blocks_rotten = int(await asyncio.to_thread(rot_block, data) is not None)
    tell(f"in the files of n{backup}, {story.prepares_rotten} prepares and a block rot")
    await load.until_acknowledged(50)
    tell("three of five go on; the two are started again")
    began = time.monotonic()
    await asyncio.to_thread(cluster.restart, backup, wait=False)
    await asyncio.to_thread(cluster.restart, primary, wait=False)
    await _until_back(cluster, story, tell, began)


async def _cut_off(cluster: LocalCluster, load: Load, story: Story, tell: Tell) -> None:
    status = await asyncio.to_thread(cluster.keeper_status, CUT_OFF)
    story.cut_off_was_primary = status is not None and bool(status["is_primary"])
    role = "the primary" if story.cut_off_was_primary else "a backup"
    tell(f"n{CUT_OFF}, {role}, is cut off from all others")
    await asyncio.to_thread(cluster.links.isolate, CUT_OFF)
    began = time.monotonic()
    await load.until_acknowledged(50)
    await asyncio.sleep(max(0.0, cut_off_s - (time.monotonic() - began)))
    began = time.monotonic()
    await asyncio.to_thread(cluster.links.heal, CUT_OFF)
    tell("and let in again")
    await _until_back(cluster, story, tell, began)
    await load.until_acknowledged(50)


def _can_rot(cluster: LocalCluster, i: int) -> bool:
    status = cluster.keeper_status(i)
    return status is not None and 0 < status["checkpoint_op"] < status["commit_min"] - 30


async def _until_back(cluster: LocalCluster, story: Story, tell: Tell, began: float) -> None:
    """All are in one view, have lost nothing any more, and are not behind."""
    await asyncio.to_thread(wait_for, cluster.is_keeper_whole, "all five", patience_s)
    took_s = time.monotonic() - began
    story.back_ms.append(round(took_s * 1000))
    tell(f"all five are in one view with one log, {took_s:.1f} s later")


def _report(cluster: LocalCluster, load: Load, story: Story, lost: int) -> Report:
    ledger, verdict = load.ledger, load.ledger.verdict()
    views = [
        status["view"] for i in range(REPLICAS) if (status := cluster.keeper_status(i)) is not None
    ]
    report: Report = {
        "acknowledged": ledger.acknowledged,
        "lost": lost,
        "doubled": len(ledger.doubled),
        "linearizable": verdict.status == "ok",
        "barriers": ledger.barriers,
        "stale_barriers": len(ledger.barriers_stale),
        "unknown_outcomes": sum(ledger.unknown.values()),
        "kills": story.kills,
        "view_changes": max(views, default=0),
        "cut_off_was_primary": story.cut_off_was_primary,
        "longest_outage_ms": ledger.outage_ms_max(),
        "back_after_ms": max(story.back_ms),
        "back_within_5_s": max(story.back_ms) <= promise_s * 1000,
        "rotten_prepares": story.prepares_rotten,
        "repaired_prepares": cluster.noted("vsr_prepare_repaired"),
        "rotten_blocks": story.blocks_rotten,
        "repaired_blocks": cluster.noted("vsr_block_repaired"),
    }
    is_safe = not (lost or ledger.doubled or ledger.barriers_stale) and verdict.status == "ok"
    is_hurt = story.prepares_rotten > 0 and story.blocks_rotten > 0
    report["ok"] = (
        is_safe
        and is_hurt
        and cluster.noted("vsr_prepare_repaired") >= story.prepares_rotten
        and cluster.noted("vsr_block_repaired") >= story.blocks_rotten
    )
    return report
