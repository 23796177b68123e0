"""When ./dev installs, when it does not, and what it does about half-finished work."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from tests.tools.conftest import PYTHON

if TYPE_CHECKING:
    from tests.tools.conftest import Checkout


def venvs_and_installs(checkout: Checkout) -> tuple[int, int]:
    """How often uv was asked for a new environment, and for the packages of the lock."""
    calls = checkout.calls()
    installs = sum("requirements/dev.txt" in call for call in calls)
    return sum(call.startswith("uv venv") for call in calls), installs


def enter(checkout: Checkout, **environment: str) -> subprocess.CompletedProcess[str]:
    """A call that needs the environment and nothing else."""
    return checkout.dev("shell", "sh", "-c", "echo inside", cwd=None, **environment)


def test_the_first_call_installs_and_says_how_much(checkout: Checkout) -> None:
    first = enter(checkout)
    assert first.stdout == "inside\n"
    assert "up to 650 MB to download" in first.stderr
    made, *installs, project = checkout.calls()
    assert made.startswith("uv venv")
    assert [call.split("/")[-1] for call in installs] == ["dev.txt", "bootstrap.txt", "spark.txt"]
    assert all("--require-hashes" in call for call in installs)
    assert project.endswith(f"--no-deps --no-build-isolation -e {checkout.root}")


def test_what_the_installer_prints_is_not_taken_for_the_answer(checkout: Checkout) -> None:
    checkout.command("uv", (checkout.bin / "uv").read_text() + "echo installing\n")
    first = enter(checkout)
    assert first.stdout == "inside\n"
    assert "installing" in first.stderr


def test_the_second_call_starts_no_python_and_no_installer(checkout: Checkout) -> None:
    enter(checkout)
    checkout.calls()
    stand_in = '#!/bin/sh\necho "python $*" >>"$JOURNAL"\nexit 1\n'
    checkout.command("python3", stand_in)
    (checkout.venv / "bin/python").unlink()
    (checkout.venv / "bin/python").symlink_to(checkout.bin / "python3")
    second = enter(checkout)
    assert (second.stdout, second.stderr) == ("inside\n", "")
    assert checkout.calls() == []


@pytest.mark.parametrize("lock", ["dev", "spark"])
def test_a_new_lock_is_installed_into_what_is_there(checkout: Checkout, lock: str) -> None:
    enter(checkout)
    checkout.files({f"requirements/{lock}.txt": "ruff==1.0\n"})
    (checkout.venv / "kept").touch()
    checkout.calls()
    enter(checkout)
    assert venvs_and_installs(checkout) == (0, 1)
    assert (checkout.venv / "kept").exists()
    enter(checkout)
    assert venvs_and_installs(checkout) == (0, 0)


def test_only_the_project_part_of_pyproject_counts(checkout: Checkout) -> None:
    enter(checkout)
    checkout.calls()
    project = (checkout.root / "pyproject.toml").read_text()
    checkout.files({"pyproject.toml": project.replace("line-length = 100", "line-length = 90")})
    enter(checkout)
    assert venvs_and_installs(checkout) == (0, 0)
    checkout.files({"pyproject.toml": project.replace("0.1.0", "0.2.0")})
    enter(checkout)
    assert venvs_and_installs(checkout) == (0, 1)


def test_an_interrupted_install_is_thrown_away(checkout: Checkout) -> None:
    killed = enter(checkout, FAILING="killed")
    assert killed.returncode == -9
    (checkout.venv / "half").touch()
    checkout.calls()
    assert enter(checkout).stdout == "inside\n"
    assert venvs_and_installs(checkout) == (1, 1)
    assert not (checkout.venv / "half").exists()


def test_an_install_that_failed_is_continued(checkout: Checkout) -> None:
    enter(checkout)
    checkout.files({"requirements/dev.txt": "ruff==1.0\n"})
    checkout.calls()
    failed = enter(checkout, FAILING="uv")
    assert failed.returncode == 1
    assert failed.stdout == ""
    assert "could not be installed" in failed.stderr
    assert venvs_and_installs(checkout) == (0, 1)
    assert enter(checkout).stdout == "inside\n"
    assert venvs_and_installs(checkout) == (0, 1)


def test_a_failed_install_is_not_forgotten_when_the_lock_goes_back(checkout: Checkout) -> None:
    enter(checkout)
    checkout.files({"requirements/dev.txt": "ruff==1.0\n"})
    enter(checkout, FAILING="uv")
    checkout.files({"requirements/dev.txt": ""})
    checkout.calls()
    enter(checkout)
    assert venvs_and_installs(checkout) == (0, 1)


def test_a_moved_checkout_gets_a_new_environment(checkout: Checkout) -> None:
    enter(checkout)
    moved = checkout.root.with_name("moved")
    shutil.move(checkout.root, moved)
    checkout.root = moved
    checkout.calls()
    enter(checkout)
    assert venvs_and_installs(checkout) == (1, 1)


def test_an_environment_whose_python_is_gone_is_replaced(checkout: Checkout) -> None:
    enter(checkout)
    checkout.calls()
    (checkout.venv / "bin/python").unlink()
    (checkout.venv / "bin/python").symlink_to("gone")
    enter(checkout)
    assert venvs_and_installs(checkout) == (1, 1)


def test_an_environment_made_by_other_means_is_kept_and_filled(checkout: Checkout) -> None:
    enter(checkout)
    (checkout.venv / "motet.stamp").unlink()
    (checkout.venv / "motet.lock").unlink()
    (checkout.venv / "kept").touch()
    checkout.calls()
    enter(checkout)
    assert venvs_and_installs(checkout) == (0, 1)
    assert (checkout.venv / "kept").exists()


def test_a_directory_that_is_no_environment_is_left_alone(checkout: Checkout) -> None:
    precious = checkout.home / "precious"
    precious.mkdir()
    (precious / "letter").write_text("dear")
    refused = enter(checkout, MOTET_VENV=str(precious))
    assert refused.returncode == 1
    assert "is not a virtual environment" in refused.stderr
    assert [path.name for path in precious.iterdir()] == ["letter"]
    assert checkout.calls() == []


def test_the_environment_can_live_elsewhere(checkout: Checkout) -> None:
    told = checkout.dev(
        "shell", "sh", "-c", 'echo "$VIRTUAL_ENV"', cwd=checkout.home, MOTET_VENV="my env"
    )
    assert told.stdout.strip() == str(checkout.home.resolve() / "my env")
    assert not checkout.venv.exists()


def test_a_python_that_only_pretends_is_passed_over(checkout: Checkout) -> None:
    for name in ("python3.14", "python3.13", "python3.12", "python3.11"):
        checkout.command(name, "#!/bin/sh\necho 'not selected' >&2\nexit 127\n")
    assert enter(checkout).stdout == "inside\n"


@pytest.mark.parametrize(
    ("quicker", "slower", "taken"),
    [
        ("4000 11", "5700 12", "quicker"),
        ("4000 11", "4900 12", "slower"),
        ("4000 12", "4100 11", "quicker"),
    ],
)
def test_the_newest_python_is_taken_unless_its_build_is_slow(
    checkout: Checkout, quicker: str, slower: str, taken: str
) -> None:
    """A build without optimisation costs more than a release brings."""
    (checkout.bin / "python3").unlink()
    for name, answer in (("quicker", quicker), ("slower", slower)):
        real = checkout.command(name, f'#!/bin/sh\nexec "{PYTHON}" "$@"\n')
        told = f'#!/bin/sh\necho "{real}"\necho {answer}\n'
        checkout.command("python3" if name == "quicker" else "python", told)
    chosen = enter(checkout)
    assert f"with {checkout.bin / taken}:" in chosen.stderr


def test_a_uv_that_only_pretends_is_passed_over(checkout: Checkout) -> None:
    enter(checkout)
    python = checkout.venv / "bin/python"
    python.unlink()
    python.write_text(
        '#!/bin/sh\ncase "$*" in *sys*) echo passes ;; *) echo "python $*" >>"$JOURNAL" ;; esac\n'
    )
    python.chmod(0o755)
    (checkout.venv / "motet.stamp").unlink()
    checkout.command("uv", "#!/bin/sh\nexit 127\n")
    checkout.calls()
    assert enter(checkout).returncode == 0
    (install,) = [call for call in checkout.calls() if "requirements/dev.txt" in call]
    assert install.startswith("python -m pip install")


def test_a_broken_environment_is_not_filled(checkout: Checkout) -> None:
    """Without its pyvenv.cfg the environment's Python is the machine's own."""
    enter(checkout)
    (checkout.venv / "motet.stamp").unlink()
    (checkout.venv / "pyvenv.cfg").unlink()
    checkout.calls()
    enter(checkout)
    assert venvs_and_installs(checkout) == (1, 1)


def test_no_python_at_all_is_explained(bare: Checkout) -> None:
    bare.command("python3", "#!/bin/sh\nexit 1\n")
    told = enter(bare)
    assert told.returncode == 1
    assert "found no Python 3.11 to 3.14" in told.stderr
    assert "apt install python3" in told.stderr


def test_the_python_asked_for_is_used_or_refused(checkout: Checkout) -> None:
    enter(checkout)
    checkout.calls()
    refused = enter(checkout, MOTET_PYTHON="/no/python")
    assert refused.returncode == 1
    assert "MOTET_PYTHON=/no/python is not a Python 3.11 to 3.14" in refused.stderr
    assert checkout.calls() == []
    checkout.python("another")
    enter(checkout, MOTET_PYTHON="another")
    assert venvs_and_installs(checkout) == (0, 1), "another name for the same Python: kept"
    enter(checkout, MOTET_PYTHON="another")
    enter(checkout)
    assert venvs_and_installs(checkout) == (0, 0)


def test_calls_at_the_same_time_install_once(checkout: Checkout) -> None:
    enter(checkout)
    checkout.files({"requirements/dev.txt": "ruff==1.0\n"})
    checkout.calls()
    with (checkout.venv / "motet.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        both = [checkout.start("shell", "sh", "-c", "echo inside") for _ in range(2)]
        for process in both:
            assert process.stderr is not None
            assert "another ./dev is installing" in process.stderr.readline()
        assert checkout.calls() == []
    answers = [process.communicate(timeout=60) for process in both]
    assert [out for out, _ in answers] == ["inside\n", "inside\n"]
    assert venvs_and_installs(checkout) == (0, 1)


def test_lock_needs_uv(bare: Checkout) -> None:
    told = bare.dev("lock")
    assert told.returncode == 1
    assert "lock needs uv" in told.stderr
