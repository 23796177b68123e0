"""The processes of a run: watched, killed with all they have started, and gone at the end."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from motet.demos.shop.watch import Child, Children
from motet.errors import MotetError

#: a module that says it is there, and then does what its argument says
MODULE = """
import subprocess, sys
what = sys.argv[1]
if what == "fail":
    print("about to fail", flush=True)
    sys.exit("it failed")
if what == "family":
    inner = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    print(inner.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "puppet.py").write_text(MODULE)
    return tmp_path


def wait_until_ended(child: Child) -> None:
    deadline = time.monotonic() + 60
    while child.code is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def first_line(child: Child) -> str:
    deadline = time.monotonic() + 60
    while not child.output.read_text().endswith("\n"):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return child.output.read_text().strip()


def is_running(pid: int) -> bool:
    state = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return bool(state.stdout.strip()) and not state.stdout.startswith("Z")


def test_a_child_that_is_told_to_finish_may_end(folder: Path) -> None:
    with Children(folder) as children:
        child = children.start("some writer", "puppet", "wait")
        children.check()
        children.dismiss(child)
        child.finish()
        wait_until_ended(child)
        children.check()
        assert child.code == 0
        children.ended(child)


def test_a_child_that_ends_by_itself_is_an_error_with_what_it_said(folder: Path) -> None:
    with Children(folder) as children:
        child = children.start("some writer", "puppet", "fail")
        wait_until_ended(child)
        with pytest.raises(MotetError) as raised:
            children.check()
    assert "the some writer ended with 1" in raised.value.what
    assert "about to fail" in raised.value.what
    assert "it failed" in raised.value.what


def test_a_dismissed_child_must_still_end_well(folder: Path) -> None:
    with Children(folder) as children:
        child = children.start("check", "puppet", "fail")
        children.dismiss(child)
        wait_until_ended(child)
        with pytest.raises(MotetError):
            children.check()
        children.dismiss(child, codes=(0, 1))
        children.check()


def test_killing_takes_along_what_a_child_has_started(folder: Path) -> None:
    with Children(folder) as children:
        child = children.start("driver", "puppet", "family")
        inner = int(first_line(child))
        children.kill(child)
        assert child.code == -9
        deadline = time.monotonic() + 60
        while is_running(inner):
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_nothing_is_left_at_the_end(folder: Path) -> None:
    with Children(folder) as children:
        child = children.start("driver", "puppet", "wait")
        assert child.code is None
    assert child.code == -9


def test_temporary_files_go_into_the_folder_of_the_run(folder: Path) -> None:
    (folder / "where.py").write_text("import tempfile; print(tempfile.gettempdir())")
    with Children(folder) as children:
        child = children.start("where", "where")
        wait_until_ended(child)
        place = first_line(child)
    assert Path(place).is_relative_to(folder)
    assert Path(place).is_dir()
