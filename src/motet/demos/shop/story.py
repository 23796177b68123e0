"""The run itself: opens the shop, lets it sell, kills a writer, a node and Spark's driver, and closes it.

With Spark, streams and tables are in a cluster of three nodes, each of which has a replica of everything. The
node that is killed leads a shard of the stock, and holds replicas of the tables. Without Spark, there are
streams alone, in an embedded database.

Nothing here waits for time to pass: each phase ends when something has been seen to happen.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

import motet
from motet.client.change import Change
from motet.client.sync import Database, Transaction
from motet.demos.shop.chart import Sample
from motet.demos.shop.replicas import Parts, committed_parts, held_tables, stored_parts
from motet.demos.shop.report import Folded, Tables, fold
from motet.demos.shop.watch import Child, Children, Progress, Watch, is_batch_under_way
from motet.demos.shop.writer import (
    LEFT_AT_FIRST,
    ORDERS,
    PIPELINE,
    PRICES_CENTS,
    SALES,
    STOCK,
    STOCK_NOW,
    Done,
    Line,
    journal_path,
    read_journal,
    set_left,
    undecided,
)
from motet.node.config import ROLES
from motet.testing.local_cluster import LocalCluster

WRITERS = 3
VICTIM = 0
"""The writer that is killed."""

done_before_kill = 60
"""Transactions that the victim has done when it is killed, and again when it counts as recovered."""

steps_before_kill = 2
"""Steps that the pipeline has published when its driver is killed, and again when it counts as recovered."""

done_after_leader = 20
"""Transactions that each writer has done when a shard counts as recovered from the loss of its leader."""

NODES = 3
page_limit = 5_000


@dataclass
class Story:
    """What is left of a run when its processes are gone."""

    folded: Folded
    #: the journals of all lives of all writers
    journals: list[list[Line]]
    #: None without Spark
    tables: Tables | None
    samples: list[Sample]
    #: what was killed, and when, in milliseconds since 1970
    kills: dict[str, float]
    selling_seconds: float


@dataclass
class Shop:
    """The database and the processes around it."""

    folder: Path
    #: where the streams and the tables are
    db: Database
    #: None: it is all in one embedded database
    cluster: LocalCluster | None
    children: Children
    watch: Watch
    progress: Progress
    spark_environment: dict[str, str] | None
    writers: list[Child] = field(default_factory=list)
    lives: list[int] = field(default_factory=lambda: [0] * WRITERS)
    driver: Child | None = None
    drivers: int = 0
    kills: dict[str, float] = field(default_factory=dict)

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    def open(self) -> None:
        """Fill the shelves, and let the writers in."""
        for name in (ORDERS, STOCK):
            self._create(name)
        self.db.transact(fill_shelves)
        self.writers = [self._start_writer(number) for number in range(WRITERS)]

    def _create(self, name: str) -> None:
        replicas = None if self.cluster is None else NODES
        self.db.create_stream(name, shards=2, replicas=replicas)

    def done_by(self, number: int) -> int:
        """Transactions that were acknowledged to a writer in its present life."""
        lines = self._journal(number, self.lives[number])
        return sum(isinstance(line, Done) for line in lines)

    def sell_some(self) -> None:
        """Until every writer has done something."""

        def some() -> bool:
            done = [self.done_by(number) for number in range(WRITERS)]
            self.progress.note(f"{sum(done)} transactions")
            return min(done) >= done_before_kill

        self.watch.until("the writers to sell something", some)

    def kill_writer(self) -> None:
        """Kill a writer in the middle of an order, and wait until it sells again."""
        self.watch.until(
            "the writer to be in the middle of an order",
            lambda: bool(undecided(self._journal(VICTIM, self.lives[VICTIM]))),
        )
        self.children.kill(self.writers[VICTIM])
        self.kills["a writer"] = self.watch.now_ms()
        self.lives[VICTIM] += 1
        self.writers[VICTIM] = self._start_writer(VICTIM)
        self.watch.until(
            "the killed writer to sell again", lambda: self.done_by(VICTIM) >= done_before_kill
        )

    def kill_leader(self) -> None:
        """Kill the node that leads a shard, wait until everybody sells again, and have it back."""
        assert self.cluster is not None
        leader = self.db.feed_status(STOCK).shards[0].leader
        assert leader is not None
        node = int(leader.removeprefix("n"))
        self.progress.note(
            f"{leader}, with {' and '.join(held_tables(self.cluster, node, self.db))}"
        )
        before = [self.done_by(number) for number in range(WRITERS)]
        self.cluster.kill(node)
        self.kills["a shard leader with tables"] = self.watch.now_ms()
        self.watch.until(
            "the writers to sell without that node",
            lambda: all(self.done_by(n) >= before[n] + done_after_leader for n in range(WRITERS)),
        )
        self.cluster.restart(node)

    def start_driver(self) -> None:
        """Start the pipeline in a process of its own."""
        self.drivers += 1
        self.driver = self.children.start(
            f"spark driver {self.drivers}",
            "motet",
            *("pipeline", "run", str(pipeline_file()), "--name", PIPELINE),
            *("--endpoint", self.db.endpoint, "--checkpoint", str(self.checkpoint)),
            environment=self.spark_environment,
        )

    def follow_some(self) -> None:
        """Until the driver that runs now has published something."""
        before = self.watch.steps()

        def follows() -> bool:
            self.progress.note(f"{self.watch.steps()} steps published")
            return self.watch.steps() >= before + steps_before_kill

        self.watch.until("the pipeline to publish", follows)

    def kill_driver(self) -> None:
        """Kill the driver in the middle of a batch, and start another one."""
        assert self.driver is not None
        self.watch.until("a batch to begin", lambda: is_batch_under_way(self.checkpoint))
        self.children.kill(self.driver)
        self.kills["the Spark driver"] = self.watch.now_ms()
        self.start_driver()

    def close(self) -> None:
        """Let the writers finish what they are doing."""
        for writer in self.writers:
            self.children.dismiss(writer)
            writer.finish()
        self.watch.until(
            "the writers to finish", lambda: all(writer.code is not None for writer in self.writers)
        )
        for writer in self.writers:
            self.children.ended(writer)

    def drain(self) -> None:
        """Wait until the tables reflect the whole feed, and let the driver end."""
        driver = self.driver
        assert driver is not None
        self.db.visible_clock(ORDERS, STOCK, wait=True)
        self.watch.until("the tables to catch up", lambda: not self.watch.is_behind())
        self.children.dismiss(driver)
        driver.terminate()
        self.watch.until("the driver to end", lambda: driver.code is not None)
        self.children.ended(driver)

    def check(self) -> list[dict[str, Any]]:
        """What `motet pipeline check` says of each table."""
        child = self.children.start(
            "pipeline check",
            "motet",
            *("pipeline", "check", str(pipeline_file()), "--name", PIPELINE),
            *("--endpoint", self.db.endpoint, "--output", "json"),
            environment=self.spark_environment,
        )
        self.children.dismiss(child, codes=(0, 1))  # it ends with 1 when tables differ
        self.watch.until("the check to end", lambda: child.code is not None)
        self.children.ended(child)
        try:
            found: list[dict[str, Any]] = msgspec.json.decode(child.output.read_bytes())
        except msgspec.DecodeError:
            raise child.failure() from None
        return found

    def heal(self) -> None:
        """Wait until all nodes have all parts of the tables, also those that one of them has missed."""

        def whole() -> bool:
            committed, replicas = committed_parts(self.db), self._replicas()
            missing = sum(len(committed) - len(stored) for stored in replicas.values())
            self.progress.note(f"{len(committed)} parts, {max(missing, 0)} to be fetched")
            return all(stored == committed for stored in replicas.values())

        self.watch.until("the replicas of the tables to be equal", whole)

    def _replicas(self) -> dict[str, Parts]:
        assert self.cluster is not None
        return {f"n{i}": stored_parts(self.cluster, i) for i in range(NODES)}

    def tables(self, checks: list[dict[str, Any]]) -> Tables:
        """The tables as they are now."""
        info = self.watch.pipeline()
        return Tables(
            stock_now=self.db.table(STOCK_NOW).select().to_pylist(),
            sales_by_minute=self.db.table(SALES).select().to_pylist(),
            parts=committed_parts(self.db),
            replicas=self._replicas(),
            clock=None if info is None or info.step is None else info.step.through,
            batches=0 if info is None else info.steps,
            checks=checks,
        )

    def journals(self) -> list[list[Line]]:
        """What each writer has noted, in all its lives."""
        return [
            [line for life in range(lives + 1) for line in self._journal(number, life)]
            for number, lives in enumerate(self.lives)
        ]

    def _journal(self, number: int, life: int) -> list[Line]:
        return read_journal(journal_path(self.folder, number, life))

    def _start_writer(self, number: int) -> Child:
        life = self.lives[number]
        return self.children.start(
            f"writer {number} {life}",
            "motet.demos.shop.writer",
            *(self.db.endpoint, str(self.folder), str(number), str(life)),
        )


def run(folder: Path, progress: Progress, spark_environment: dict[str, str] | None) -> Story:
    """The whole story, in a folder of its own; without Spark's environment, without Spark."""
    with_spark = spark_environment is not None
    with ExitStack() as opened:
        db, cluster = _open(folder, opened, with_cluster=with_spark)
        children = opened.enter_context(Children(folder))
        watch = Watch(db, children)
        shop = Shop(folder, db, cluster, children, watch, progress, spark_environment)
        with progress.phase("open", "three writers begin to sell"):
            shop.open()
            began = time.monotonic()
            shop.sell_some()
        if with_spark:
            _lose_driver(shop)
        with progress.phase("kill_writer", "a writer is killed with -9 and comes back"):
            shop.kill_writer()
        if cluster is not None:
            with progress.phase("kill_leader", "a shard leader with tables is killed with -9"):
                shop.kill_leader()
        if with_spark:
            with progress.phase("recover", "Spark goes on from what is published"):
                shop.follow_some()
        with progress.phase("close", "the writers finish"):
            shop.close()
            selling_seconds = time.monotonic() - began
        if with_spark:
            with progress.phase("drain", "the tables catch up"):
                shop.drain()
            with progress.phase("heal", "all replicas of the tables are equal"):
                shop.heal()
        samples = [*shop.watch.samples] if with_spark else []
        tables = _checked_tables(shop) if with_spark else None
        with progress.phase("fold", "the feed is read back and folded by plain Python"):
            folded = fold(whole_feed(db))
        return Story(folded, shop.journals(), tables, samples, shop.kills, selling_seconds)


def _open(
    folder: Path, opened: ExitStack, *, with_cluster: bool
) -> tuple[Database, LocalCluster | None]:
    """The database, and the cluster that it lives in if there is one."""
    if not with_cluster:
        return opened.enter_context(motet.open(folder / "data")), None
    cluster = opened.enter_context(LocalCluster(NODES, folder / "cluster", roles=ROLES))
    return opened.enter_context(motet.connect(cluster.endpoints)), cluster


def _lose_driver(shop: Shop) -> None:
    with shop.progress.phase("spark_start", "Spark starts and follows"):
        shop.start_driver()
        shop.follow_some()
    with shop.progress.phase("kill_driver", "the Spark driver is killed with -9"):
        shop.kill_driver()


def _checked_tables(shop: Shop) -> Tables:
    with shop.progress.phase("check", "the tables are recomputed by `motet pipeline check`"):
        return shop.tables(shop.check())


def fill_shelves(txn: Transaction) -> None:
    """What the shop opens with."""
    for sku in PRICES_CENTS:
        set_left(txn, sku, LEFT_AT_FIRST)


def whole_feed(db: Database) -> Iterator[Change]:
    """All changes of both streams, from the first."""
    cursor, more = None, True
    while more:
        page = db.changes(ORDERS, STOCK, after=cursor, limit=page_limit)
        yield from page
        cursor, more = page.cursor, page.more


def pipeline_file() -> Path:
    """The file that a user would write."""
    spec = importlib.util.find_spec("motet.demos.shop.pipeline")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin)
