"""The commands of ./dev: what they run, from where, and what they say."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.tools.conftest import Checkout

REPOSITORY = Path(__file__).resolve().parents[2]
COMMANDS = ("demo", "test", "check", "bench", "shell", "spark", "java", "lock", "help")


def test_help_names_every_command(bare: Checkout) -> None:
    for arguments in ([], ["help"], ["--help"], ["-h"]):
        told = bare.dev(*arguments)
        assert told.returncode == 0
        listed = [line.split()[0] for line in told.stdout.splitlines() if line.startswith("  ")]
        assert tuple(listed[: len(COMMANDS)]) == COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example_and_installs_nothing_for_it(
    bare: Checkout, command: str
) -> None:
    told = bare.dev(command, "--help")
    assert (told.returncode, told.stderr) == (0, "")
    assert "Usage: ./dev" in told.stdout
    assert "Example: ./dev" in told.stdout
    assert bare.dev("help", command).stdout == told.stdout
    assert not bare.venv.exists()


@pytest.mark.parametrize("arguments", [["dance"], ["help", "dance"], ["run_test"], ["d e m o"]])
def test_an_unknown_command_is_refused(bare: Checkout, arguments: list[str]) -> None:
    refused = bare.dev(*arguments)
    assert refused.returncode == 2
    assert f"there is no command '{arguments[-1]}'" in refused.stderr
    assert " ".join(COMMANDS) in refused.stderr


def test_it_works_from_another_directory_and_through_links(
    checkout: Checkout, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "else where"
    elsewhere.mkdir()
    (elsewhere / "first").symlink_to(checkout.root / "dev")
    (elsewhere / "second").symlink_to("first")
    told = subprocess.run(
        ["./second", "shell", "sh", "-c", 'pwd; echo "$VIRTUAL_ENV"'],
        cwd=elsewhere,
        env={**checkout.environment, "CDPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.splitlines() == [str(elsewhere.resolve()), str(checkout.venv.resolve())]


def test_shell_starts_the_shell_of_the_user_inside(checkout: Checkout) -> None:
    script = '#!/bin/sh\necho "$VIRTUAL_ENV in $PWD"; command -v python; echo "[$*]"\n'
    mine = checkout.command("zsh", script)
    told = checkout.dev("shell", cwd=checkout.home, SHELL=str(mine))
    venv = checkout.venv.resolve()
    inside = [f"{venv} in {checkout.home.resolve()}", str(venv / "bin/python"), "[]"]
    assert told.stdout.splitlines() == inside


def test_a_bashrc_does_not_take_the_environment_away(checkout: Checkout) -> None:
    (checkout.home / ".bashrc").write_text('PATH="/elsewhere:$PATH"\n')
    script = '#!/bin/sh\n. "$2"\ncommand -v python\necho "$PATH"\n'
    folder = checkout.home / "shells"
    folder.mkdir()
    (folder / "bash").write_text(script)
    (folder / "bash").chmod(0o755)
    told = checkout.dev("shell", SHELL=str(folder / "bash"))
    found, path = told.stdout.splitlines()
    assert found == str(checkout.venv.resolve() / "bin/python")
    assert "/elsewhere" in path.split(":")


def test_test_passes_its_arguments_to_pytest(checkout: Checkout) -> None:
    assert checkout.dev("test", "--all", "-k", "a or b").returncode == 0
    (call,) = [line for line in checkout.calls() if line.startswith("pytest")]
    assert call.startswith("pytest -p pytest_parts -n auto")
    assert call.endswith("--all -k a or b")
    assert checkout.dev("test", FAILING="pytest").returncode == 1


def test_demo_passes_its_arguments_to_motet(checkout: Checkout) -> None:
    assert checkout.dev("demo", "clock", "--json", "x").returncode == 0
    assert "motet demo clock --json x" in checkout.calls()


def test_spark_and_java_are_asked_of_the_package(checkout: Checkout) -> None:
    checkout.dev("shell", "true")
    (checkout.venv / "bin/python").unlink()
    stand_in = checkout.command("stand-in", '#!/bin/sh\necho "$PWD: python $*"\nexit 3\n')
    (checkout.venv / "bin/python").symlink_to(stand_in)
    here = checkout.home.resolve()
    spark = checkout.dev("spark", "sh", "-c", "a b", cwd=here)
    assert spark.stdout == f"{here}: python -P -m motet.pipeline.session sh -c a b\n"
    java = checkout.dev("java", cwd=here)
    assert java.stdout == f"{here}: python -P -m motet.pipeline.java\n"
    assert (spark.returncode, java.returncode) == (3, 3)
    assert checkout.dev("java", "21").returncode == 2


def test_check_runs_every_step_and_names_those_that_fail(checkout: Checkout) -> None:
    passed = checkout.dev("check")
    steps = [line for line in checkout.calls() if not line.startswith("uv")]
    assert passed.returncode == 0
    assert [line.split()[0] for line in steps] == ["ruff", "ruff", "mypy", "lint-imports", "pytest"]
    failed = checkout.dev("check", FAILING="ruff lint-imports")
    assert failed.returncode == 1
    assert "check failed: lint format imports\n" in failed.stderr
    assert checkout.calls() == steps
    assert checkout.dev("check", "--fast").returncode == 2


def test_check_can_fix_first(checkout: Checkout) -> None:
    checkout.dev("check")
    checkout.calls()
    assert checkout.dev("check", "--fix").returncode == 0
    assert checkout.calls()[:2] == ["ruff check --quiet --fix .", "ruff format --quiet ."]


def test_bench_runs_one_or_all(checkout: Checkout) -> None:
    script = "import sys, pathlib; print(pathlib.Path(__file__).stem, *sys.argv[1:])"
    checkout.files(
        {f"bench/{name}.py": script for name in ("clock", "journal", "compare", "_shared")}
    )
    assert checkout.dev("bench", "--list").stdout.split() == ["clock", "journal"]
    assert checkout.dev("bench", "clock", "--quick").stdout == "clock --quick\n"
    assert checkout.dev("bench", "--json").stdout == "clock --json\njournal --json\n"
    assert checkout.dev("bench", "compare", "a", "b").stdout == "compare a b\n"
    unknown = checkout.dev("bench", "nothing")
    assert unknown.returncode == 1
    assert "there is no bench/nothing.py" in unknown.stderr


def test_a_bench_that_fails_is_named_and_the_others_run(checkout: Checkout) -> None:
    checkout.files({"bench/a.py": "raise SystemExit(3)", "bench/b.py": "print('ran')"})
    ended = checkout.dev("bench")
    assert ended.returncode == 1
    assert ended.stdout == "ran\n"
    assert "bench failed: a\n" in ended.stderr


@pytest.mark.parametrize("failing", ["", "check", "test", "check test"])
def test_ci_runs_check_and_test_and_names_what_failed(tmp_path: Path, failing: str) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(REPOSITORY / ".ci/run", tmp_path / ".ci/run")
    (tmp_path / "dev").write_text(
        '#!/bin/sh\necho "ran $1 CI=$CI"\ncase " $FAILING " in *" $1 "*) exit 1 ;; esac\n'
    )
    (tmp_path / "dev").chmod(0o755)
    ended = subprocess.run(
        [tmp_path / ".ci/run"],
        cwd="/",
        env={"PATH": os.environ["PATH"], "FAILING": failing},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "ran check CI=true" in ended.stdout
    assert "ran test CI=true" in ended.stdout
    assert ended.returncode == (1 if failing else 0)
    assert (f"failed: {failing}\n" in ended.stderr) == bool(failing)
