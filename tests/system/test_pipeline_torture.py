"""kill -9 of the driver of a pipeline, again and again, while others write: each change counts once.

Everything is a process of its own: the database, two writers that sell what they have read is there, and
``motet pipeline run``. The driver is killed alone, and its Java has to end by itself. After each kill, and at
the end, the tables are what a plain program makes of the feed up to the clock that they are said to reflect.

All that is random comes from a seed, which is in the name of the test.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

import motet
from motet.client.change import Change
from motet.core.clock.hlc import Clock

Kill = Literal["driver", "driver, checkpoint lost", "host", "driver and host"]

STREAMS = ("orders", "stock")
WRITERS = 2
DRIVER = "shop"
#: a line of a command, or of a writer, that ended by itself: code, what happened, what to do
ERROR = re.compile(r"[A-Z_]+ .+; .+")
ENDED = "ended by "
#: small enough that most lives of a driver see several steps, large enough to catch up soon
CHANGES_PER_STEP = 400
CHANGES_AFTER_MAX = 2000
patience_seconds = 300.0
"""How long something that has to happen may take on a machine that is busy."""

PIPELINE = """\
from pyspark.sql import functions as f
from motet import pipeline

@pipeline.table(engine="replacing", order_by=["sku"], version="clock", tombstone="gone")
def stock_now(changes):
    sku = f.col("key").cast("string").alias("sku")
    gone = (f.col("op") == "delete").alias("gone")
    return changes.stream("stock", schema="left int").select(sku, "row.left", "clock", gone)

@pipeline.table(engine="merge", order_by=["sku"])
def sold(changes):
    orders = changes.stream("orders", schema="sku string, qty int")
    return orders.groupBy("row.sku").agg(f.sum("row.qty").alias("qty"), f.count("*").alias("orders"))

@pipeline.table(engine="merge", order_by=["name"])
def receipts(changes):
    orders = changes.stream("orders", schema="sku string, qty int")
    return orders.select(f.col("key").cast("string").alias("name"), "row.sku", "row.qty", "transaction")
"""

HOST = """
    import sys, motet
    with motet.open(sys.argv[1]) as db:
        for name in ("orders", "stock"):
            db.create_stream(name, shards=2)
        print(db.endpoint, flush=True)
        sys.stdin.read()
    """

#: sells until its input ends or its database is gone; each acknowledged transaction is a line. It waits for
#: a pipeline that is far behind: how much there is to catch up does not depend on the machine.
WRITER = """
    import random, sys, threading, motet
    from motet.errors import MotetError

    endpoint, name, behind_max = sys.argv[1], sys.argv[2], int(sys.argv[3])
    dice = random.Random(name)
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()

    def sell(txn, order):
        sku = f"s-{dice.randrange(12)}"
        found = txn.get("stock", sku)
        left = found.row["left"] if found is not None and found.op != "delete" else 0
        if not left:
            txn.change("stock", key=sku, op="insert", row={"left": dice.randrange(1, 20)})
            return txn
        qty = min(left, dice.randrange(1, 5))
        row = {"sku": sku, "qty": qty, "had": left}
        txn.change("orders", key=order, op="insert", row=row)
        if qty == left:
            txn.change("stock", key=sku, op="delete", before={"left": left})
        else:
            txn.change("stock", key=sku, op="update", row={"left": left - qty})
        return txn

    def is_far_behind(db):
        pipeline = db.writer("shop")
        done = None if pipeline is None or pipeline.step is None else pipeline.step.through
        return db.split_feed("orders", "stock", after=done).changes > behind_max

    def write(db):
        i = 0
        while not over.wait(0.008):
            if i % 20 == 0 and is_far_behind(db):
                continue
            i += 1
            print(db.transact(lambda txn: sell(txn, f"{name}-{i}"), attempts=1000).id, flush=True)

    try:
        with motet.connect(endpoint) as db:
            write(db)
    except MotetError as error:
        print("ended by", error, flush=True)
    """


class Tables(NamedTuple):
    """What the tables of the pipeline say, or should say."""

    stock: dict[str, int]
    #: pieces and orders of each kind
    sold: dict[str, tuple[int, int]]
    receipts: Counter[tuple[str, str, int, str]]


class Shop:
    """The processes of one test."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.dice = random.Random(seed)
        self.checkpoint = folder / "checkpoint"
        self.file = folder / f"{DRIVER}.py"
        self.file.write_text(PIPELINE)
        self.host: subprocess.Popen[str]
        self.endpoint = ""
        #: each with the file of what it was told is done
        self.writers: list[tuple[subprocess.Popen[str], Path]] = []
        #: the writers whose database was killed
        self.left_alone: list[tuple[subprocess.Popen[str], Path]] = []
        self.driver: subprocess.Popen[str]
        self.driver_log: Path
        self.started: list[subprocess.Popen[str]] = []

    def start(self, name: str, *command: str) -> tuple[subprocess.Popen[str], Path]:
        """A process in a group of its own, whose output goes to a file."""
        output = self.folder / f"{name}-{len(self.started)}.out"
        temporary = self.folder / "temporary"
        temporary.mkdir(exist_ok=True)
        places = {
            "TMPDIR": str(temporary),
            "SPARK_LOCAL_DIRS": str(temporary),
            # The one variable that goes before what Spark asks for: small, and soon there.
            "_JAVA_OPTIONS": f'-Djava.io.tmpdir="{temporary}" -Xmx512m -XX:+UseSerialGC '
            "-XX:TieredStopAtLevel=1",
        }
        with output.open("w") as out, output.with_suffix(".log").open("w") as log:
            process = subprocess.Popen(
                [sys.executable, *command],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=log,
                env={**os.environ, **places},
                text=True,
                start_new_session=True,
            )
        self.started.append(process)
        return process, output

    def open(self) -> None:
        """Open the database in a process, and let writers write."""
        code = textwrap.dedent(HOST)
        self.host, output = self.start("host", "-c", code, str(self.folder / "data"))
        wait(lambda: output.read_text().endswith("\n"), "the database", self.host)
        self.endpoint = output.read_text().strip()
        for _ in range(WRITERS):
            name = f"writer-{len(self.started)}"
            words = (textwrap.dedent(WRITER), self.endpoint, name, str(CHANGES_AFTER_MAX))
            process, output = self.start(name, "-c", *words)
            self.writers.append((process, output))

    def follow(self, *options: str) -> Path:
        """Start the driver; where it prints a line for each of its steps."""
        words = ("-m", "motet", "pipeline", "run", str(self.file), "--endpoint", self.endpoint)
        more = ("--checkpoint", str(self.checkpoint), "--max-changes", str(CHANGES_PER_STEP))
        self.driver, output = self.start("driver", *words, *more, "--output", "json", *options)
        self.driver_log = output.with_suffix(".log")
        return output

    def moment(self, output: Path) -> None:
        """Wait for a moment that is worth a kill: some steps, or none yet, and then a while."""
        steps = self.dice.randrange(4)
        if steps:
            wait(lambda: len(lines(output)) >= steps, f"{steps} steps", self.driver)
        # Starting takes seconds, a step a few tenths of one.
        time.sleep(self.dice.uniform(0, 5) if steps == 0 else self.dice.uniform(0, 0.6))

    def kill(self, what: Kill) -> None:
        """kill -9, and make good what has to be there for the next driver."""
        if what == "driver, checkpoint lost":
            self.kill_driver()
            wait(partial(is_gone, self.driver), "the end of its Java")
            shutil.rmtree(self.checkpoint, ignore_errors=True)
        elif what == "driver":
            self.kill_driver()
        else:
            self.kill_host(with_driver=what == "driver and host")

    def kill_driver(self) -> None:
        """Its Python alone: Java has to see to itself."""
        self.driver.kill()
        self.driver.wait()

    def kill_host(self, *, with_driver: bool) -> None:
        """The database, under everybody; what is connected to it ends by itself, with a clear word."""
        self.host.kill()
        self.host.wait()
        if with_driver:
            self.kill_driver()
        else:
            assert self.driver.wait(patience_seconds) == 1
            assert any(map(ERROR.fullmatch, lines(self.driver_log)))
        self.left_alone += self.writers
        self.writers = []
        self.open()

    def rest(self) -> None:
        """The writers end, and the pipeline catches up."""
        for process, _ in self.writers:
            assert process.stdin is not None
            process.stdin.close()
        for process, journal in [*self.writers, *self.left_alone]:
            assert process.wait(patience_seconds) == 0
            is_ended = lines(journal)[-1:] != [] and lines(journal)[-1].startswith(ENDED)
            assert is_ended == ((process, journal) in self.left_alone)
        self.follow("--once")
        assert self.driver.wait(patience_seconds) == 0, self.driver_log.read_text()

    def acknowledged(self) -> list[str]:
        """The transactions of which a writer knows that they are done."""
        journals = [journal for _, journal in [*self.writers, *self.left_alone]]
        said = [line for journal in journals for line in lines(journal)]
        return [line for line in said if not line.startswith(ENDED)]


@contextmanager
def shop(folder: Path, seed: int) -> Iterator[Shop]:
    """A shop that is open; none of its processes is left at the end."""
    made = Shop(folder, seed)
    try:
        made.open()
        yield made
    finally:
        for process in made.started:
            process.kill()
            process.communicate()
        wait(lambda: all(map(is_gone, made.started)), "the end of all processes")


def wait(
    condition: Callable[[], bool], what: str, process: subprocess.Popen[str] | None = None
) -> None:
    """Until it is so; not if the process that should see to it has ended, and not for ever."""
    deadline = time.monotonic() + patience_seconds
    while not condition():
        assert process is None or process.poll() is None, f"it ended before there was {what}"
        assert time.monotonic() < deadline, f"waited too long for {what}"
        time.sleep(0.02)


def lines(output: Path) -> list[str]:
    """Its whole lines: the last may be half written by a process that was killed."""
    return output.read_text().split("\n")[:-1]


def is_gone(leader: subprocess.Popen[str]) -> bool:
    """Whether nothing runs in the group of a process; who is dead and not yet collected does not."""
    table = subprocess.run(
        ["ps", "-A", "-o", "pgid=,stat="], capture_output=True, text=True, check=True
    )
    rows = [line.split() for line in table.stdout.splitlines()]
    return not any(int(row[0]) == leader.pid and not row[1].startswith("Z") for row in rows)


def changes_of(db: motet.Database, up_to: Clock) -> Iterator[Change]:
    """The feed, page by page."""
    page = db.changes(*STREAMS, up_to=up_to)
    yield from page.changes
    while page.more:
        page = db.changes(*STREAMS, after=page.cursor, up_to=up_to)
        yield from page.changes


def folded(changes: Iterator[Change]) -> Tables:
    """The tables as a plain program makes them; each order has seen the stock as it was before it."""
    stock: dict[str, int] = {}
    sold: dict[str, tuple[int, int]] = {}
    receipts: Counter[tuple[str, str, int, str]] = Counter()
    names: set[bytes] = set()
    for change in changes:
        row: Any = change.row
        if change.stream == "orders":
            assert change.key not in names, "an order is there once"
            names.add(change.key)
            assert stock[row["sku"]] == row["had"], "it was read and written in one transaction"
            pieces, orders = sold.get(row["sku"], (0, 0))
            sold[row["sku"]] = pieces + row["qty"], orders + 1
            receipts[change.key.decode(), row["sku"], row["qty"], change.transaction] += 1
        elif change.op == "delete":
            del stock[change.key.decode()]
        else:
            stock[change.key.decode()] = row["left"]
    return Tables(stock, sold, receipts)


def published(db: motet.Database) -> tuple[Clock | None, Tables]:
    """The clock that the tables are said to reflect, and what they say at that moment."""
    while True:
        before = db.writer(DRIVER)
        if before is None or before.step is None:
            return None, Tables({}, {}, Counter())
        stock = db.table("stock_now").select(["sku", "left"]).to_pylist()
        sold: dict[str, tuple[int, int]] = {}
        for row in db.table("sold").select().to_pylist():
            pieces, orders = sold.get(row["sku"], (0, 0))
            sold[row["sku"]] = pieces + row["qty"], orders + row["orders"]
        receipts = Counter(tuple(row.values()) for row in db.table("receipts").select().to_pylist())
        if db.writer(DRIVER) == before:  # nothing was published in between
            left = {row["sku"]: row["left"] for row in stock}
            assert before.steps == before.step.epoch + 1
            return before.step.through, Tables(left, sold, receipts)


def check(db: motet.Database) -> Clock | None:
    """The tables are the feed up to the clock that they reflect, whoever was killed when."""
    through, tables = published(db)
    if through is not None:
        assert tables == folded(changes_of(db, through))
    return through


def torture(folder: Path, seed: int, kills: list[Kill]) -> None:
    with shop(folder, seed) as processes:
        for what in kills:
            processes.moment(processes.follow())
            before = processes.driver
            processes.kill(what)
            with motet.connect(processes.endpoint) as db:
                check(db)
            wait(partial(is_gone, before), "the end of its Java")
        processes.rest()
        with motet.connect(processes.endpoint) as db:
            end = db.visible_clock(*STREAMS, wait=True)
            assert check(db) == max(change.raw.clock for change in changes_of(db, end))
            found = Counter(change.transaction for change in changes_of(db, end))
            whole = {change.transaction: change.count for change in changes_of(db, end)}
        assert found == whole, "transactions are whole"
        lost = set(processes.acknowledged()) - set(whole)
        assert not lost, "what was acknowledged is there"


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_driver_and_its_database_killed_under_load_publish_each_change_once(
    tmp_path: Path,
) -> None:
    torture(tmp_path, 13, ["driver", "driver and host"])


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", [1])
def test_ten_kills_of_the_driver(tmp_path: Path, seed: int) -> None:
    torture(tmp_path, seed, ["driver"] * 10)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", [2, 3])
def test_ten_kills_of_all_kinds(tmp_path: Path, seed: int) -> None:
    kinds: list[Kill] = ["driver", "driver, checkpoint lost", "host", "driver and host"]
    kills = kinds + random.Random(seed).choices(kinds, k=10 - len(kinds))
    random.Random(seed).shuffle(kills)
    torture(tmp_path, seed, kills)
