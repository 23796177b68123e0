"""A Spark session on this machine, set up so that Motet's data source works in it; and what is done with one.

A local session needs no Java on ``PATH`` (see ``motet.pipeline.java``), listens on the loopback interface
alone, and prints nothing but errors. What is missing is named before anything is started. Spark's Java
process ends with the Python process, however that ends: it waits for the end of a pipe that only the Python
process holds, and its workers and executors end with it.

``register`` gives the source an endpoint, and pushes filters where that is safe; without it each use names
its endpoint. Spark 4.3 keeps what a filter has left of a read with the DataFrame, not with the query: after
``df.where("k = 1").count()`` a plain ``df.count()`` would count no more than that. There the option ``where``
does the same safely, because it belongs to what is loaded.

``read_table`` reads at the speed of Spark's own reader: the source hands every row from a Python process to
Java, which costs a scan a quarter of its speed or more. The parts of a table are plain Parquet and never
change: a session on the machine that has them can read the files of a snapshot itself. Everything else goes
through the source: tables that keep the latest row of a key, parts on another machine, a table without rows.

``python -m motet.pipeline.session COMMAND`` runs a command with everything set that Spark looks for in the
environment; without a command it says which Spark and which Java it would be.
"""

from __future__ import annotations

import gc
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import datetime
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from motet.errors import BadInput, MissingLibrary, MotetError
from motet.pipeline.java import find_java, spark_home, spark_java_home
from motet.pipeline.options import ENDPOINT_VARIABLE, find_endpoint, parse_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from motet.client.publication import TableSnapshot
    from motet.core.mergetree.version import Version


LOOPBACK = "127.0.0.1"
LIBRARIES = ("pyspark", "pyarrow", "pandas")
NO_SETTINGS: Mapping[str, str] = MappingProxyType({})
LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
SETTINGS = {
    "spark.driver.bindAddress": LOOPBACK,
    "spark.driver.host": LOOPBACK,
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Off, a source that knows how to filter is refused altogether.
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}
#: Settings that add to what the caller gave instead of giving way to it.
JAVA_OPTIONS = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")
#: Java checks each value that it takes out of a batch, twice. Batches come from our own readers, which have
#: checked them: without that a scan takes a sixth less time.
UNCHECKED_BATCHES = (
    "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
)


def local_session(
    app: str = "motet", *, master: str | None = None, config: Mapping[str, str] = NO_SETTINGS
) -> SparkSession:
    """The session that is running, as it is, or a new one on this machine.

    ``master`` is one thread per core unless given: ``local[2]``, or ``local-cluster[2,1,1024]`` for executors
    that are processes of their own. ``config`` goes before our settings.
    """
    need_libraries()
    if running := _running_session():
        return running
    if master is not None and not master.startswith("local"):
        raise BadInput(
            f"a local session cannot have the master {master!r}",
            hint="take one that begins with local, or make the session with pyspark yourself",
        )
    from pyspark.sql import SparkSession

    os.environ.update(spark_environment())
    builder = SparkSession.builder.appName(app).master(master or f"local[{cores()}]")
    for key, value in _settings(config).items():
        builder = builder.config(key, value)
    return _started(builder)


def spark_environment() -> dict[str, str]:
    """What Spark has to find in its environment, in this process or in one that is to be started."""
    need_libraries()
    home = spark_home()
    return {
        **({} if home is None else {"SPARK_HOME": str(home)}),
        "JAVA_HOME": str(spark_java_home(find_java())),
        # Workers and helpers of Spark must be this Python: another one has other packages.
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": LOOPBACK,
    }


def need_libraries() -> None:
    """``MissingLibrary`` unless the packages that Spark needs can be imported."""
    for library in LIBRARIES:
        try:
            import_module(library)
        except ImportError as error:
            raise MissingLibrary(
                f"Spark needs the package {library}: {error}",
                hint="install it with `pip install 'motet[spark]'`",
            ) from error


def is_running() -> bool:
    """Whether there is a session in this process."""
    return _running_session() is not None


def _running_session() -> SparkSession | None:
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    try:
        return SparkSession.active()
    except PySparkRuntimeError:  # there is none
        return None


def _started(builder: SparkSession.Builder) -> SparkSession:
    from motet.pipeline.failure import SPARK_ERRORS, failure_of

    try:
        if _has_handler_of_interrupts():
            # In the main thread Spark would put its own in the place of that one.
            return _in_another_thread(builder.getOrCreate)
        return builder.getOrCreate()
    except SPARK_ERRORS as error:
        raise failure_of(error, "Spark does not start") from None


def _in_another_thread(start: Callable[[], SparkSession]) -> SparkSession:
    """What a call returns or raises; an interrupt does not wait for it."""
    future: Future[SparkSession] = Future()

    def run() -> None:
        try:
            future.set_result(start())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="Spark starts", daemon=True).start()
    return future.result()


def _has_handler_of_interrupts() -> bool:
    """Whether somebody has set a handler for ^C."""
    return signal.getsignal(signal.SIGINT) not in (
        signal.default_int_handler,
        signal.SIG_DFL,
        signal.SIG_IGN,
        None,
    )


def _settings(config: Mapping[str, str]) -> dict[str, str]:
    settings = {**SETTINGS, "spark.sql.shuffle.partitions": str(cores()), **config}
    quiet = f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}"
    for key in JAVA_OPTIONS:
        settings[key] = f"{quiet} {UNCHECKED_BATCHES} {config.get(key, '')}".strip()
    return settings


def cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stopping(given: threading.Event | None) -> Iterator[threading.Event]:
    """The event that was given; else one that ^C and SIGTERM set, where signals can be had at all."""
    stop = threading.Event() if given is None else given
    if given is not None or threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


WORKERS_MAIN = "pyspark.daemon"


def settle_in() -> None:
    """Set aside what this process has imported, once, if it is a worker of Spark.

    A worker looks through all its objects for garbage after each use of the source. Nearly all of them are
    modules, which stay, and looking takes longer than planning a read does. What comes later
    is looked through.
    """
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    if main is not None and main.name == WORKERS_MAIN and not gc.get_freeze_count():
        gc.freeze()


PUSHDOWN_SETTING = "spark.sql.python.filterPushdown.enabled"
SPARKS_SIDE = "org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2"
SHARED_PLAN = "setReadInfo"
"""By this method a query puts its plan where the others of its DataFrame find it."""


def register(spark: SparkSession, endpoint: str | None = None) -> None:
    """Make ``format("motet")`` of this session know where the database is, and push filters if it can.

    Without an endpoint, at ``$MOTET_ENDPOINT`` if that is set, else each use has to name it.
    """
    need_libraries()
    found = find_endpoint(endpoint)
    if endpoint is not None and found is None:
        hint = f"db.endpoint, or none for ${ENDPOINT_VARIABLE}"
        raise BadInput("the endpoint is empty", hint=hint)
    from motet.pipeline.source import MotetSource

    class RegisteredSource(MotetSource):
        """The source of one session; it travels to Spark's processes by value."""

        endpoint_default = found
        pushes_filters = keeps_filters_apart(spark)
        side_by_side = tasks_at_once(spark)

    if RegisteredSource.pushes_filters:
        spark.conf.set(PUSHDOWN_SETTING, "true")
    spark.dataSource.register(RegisteredSource)


def keeps_filters_apart(spark: Any) -> bool:
    """Whether the filters of one query stay away from the other queries of its DataFrame."""
    java = getattr(spark, "_jvm", None)
    if java is None:
        return False  # Spark is elsewhere, and cannot be asked
    methods = java.java.lang.Class.forName(SPARKS_SIDE).getMethods()
    return all(method.getName() != SHARED_PLAN for method in methods)


def tasks_at_once(spark: Any) -> int | None:
    """How many tasks of a session can run side by side, if it says so."""
    java = getattr(spark, "_jvm", None)
    return None if java is None else int(spark.sparkContext.defaultParallelism)


PATTERN = frozenset("*?[]{}\\")
"""In a path Spark takes these for a pattern, and there is no way to say that they are none."""


def read_table(
    spark: SparkSession,
    table: str,
    *,
    endpoint: str | None = None,
    columns: Sequence[str] = (),
    at: Version | datetime | str | None = None,
) -> DataFrame:
    """A table at a version or a moment, or now: a snapshot, whatever is done with the DataFrame.

    The rows are those of ``format("motet")``. Where Spark reads the files itself, every column may be null as
    far as it knows.
    """
    need_libraries()
    from motet.pipeline.table_reader import table_snapshot, table_spark_schema

    moment = at.isoformat() if isinstance(at, datetime) else at
    given = {"table": table, "columns": ",".join(columns), "at": str(moment) if moment else ""}
    texts = {name: text for name, text in given.items() if text or name == "table"}
    options = parse_options(texts, endpoint)
    snapshot = table_snapshot(options)
    files = _files_at_hand(snapshot) if _is_local(spark) else []
    if files:
        return spark.read.schema(table_spark_schema(snapshot, options)).parquet(*files)
    reader = spark.read.format("motet").options(**{**texts, "at": str(snapshot.version)})
    return reader.option("endpoint", options.endpoint).load()


def _files_at_hand(snapshot: TableSnapshot) -> list[str]:
    """The files of the snapshot, as Spark names them; none if it cannot read them by itself."""
    from motet.client.table_files import local_path

    definition = snapshot.definition
    if definition.engine != "merge":
        return []
    files = []
    for location in snapshot.files():
        if location.header.schema != definition.schema_version:
            return []  # its columns are not those of the table
        path = local_path(location)
        if path is None or PATTERN & set(str(path)):
            return []
        files.append(f"file:{path}")
    return files


def _is_local(spark: SparkSession) -> bool:
    """Whether the session and all its executors are processes of this machine."""
    if getattr(spark, "_jvm", None) is None:
        return False  # Spark is elsewhere, and cannot be asked
    return (spark.sparkContext.master or "").startswith("local")


def main(command: Sequence[str]) -> int:
    """Runs a command with Spark's environment; without one, says what there is."""
    try:
        environment = spark_environment()
    except MotetError as error:
        print(error, file=sys.stderr)
        return 1
    if command:
        try:
            os.execvpe(command[0], [*command], {**os.environ, **environment})  # noqa: S606
        except OSError as error:
            print(f"{shlex.join(command)}: {error.strerror}", file=sys.stderr)
            return 127
    import pyspark

    print(f"Spark {pyspark.__version__}, {find_java()}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
