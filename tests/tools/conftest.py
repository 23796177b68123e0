"""A checkout to run ./dev in: its real script and tools, around a project of a few lines.

Nothing of the machine leaks in: PATH has the everyday commands and what a test puts there, and the
environment is made from nothing. `MOTET_TEST_BASH` names another bash to run the script with.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
BASH = os.environ.get("MOTET_TEST_BASH") or shutil.which("bash") or "bash"
PYTHON = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
COMMANDS = ["basename", "cat", "chmod", "cksum", "dirname", "env", "find", "ln", "ls", "mkdir"]
COMMANDS += ["mv", "readlink", "rm", "sh"]

# Plays uv: writes down what it was asked, and makes just enough of an environment for ./dev to
# believe in it. Tools in it write down their calls too, and fail if FAILING names them.
UV = f"""#!/bin/sh
[ "$1" != --version ] || exit 0
echo "uv $*" >>"$JOURNAL"
for last do :; done
case $1 in
  venv)
    mkdir -p "$last/bin"
    ln -sf "{PYTHON}" "$last/bin/python"
    for tool in ruff mypy lint-imports pytest motet; do
      echo '#!/bin/sh
echo "$(basename "$0") $*" >>"$JOURNAL"
case " $FAILING " in *" $(basename "$0") "*) exit 1 ;; esac' >"$last/bin/$tool"
      chmod +x "$last/bin/$tool"
    done
    echo "home = {Path(PYTHON).parent}" >"$last/pyvenv.cfg"
    ;;
  pip)
    case " $FAILING " in
      *" killed "*) kill -9 $PPID ;;
      *" uv "*) exit 1 ;;
    esac
    ;;
esac
"""

PYPROJECT = """
[project]
name = "motet"
version = "0.1.0"
dependencies = []

[tool.any]
line-length = 100
"""


class Checkout:
    """A directory with ./dev in it, and the surroundings it is run in."""

    def __init__(self, place: Path) -> None:
        self.root = place / "check out"
        self.bin = place / "bin"
        self.home = place / "home"
        self.journal = place / "journal"
        self.patience_s = 240
        for directory in (self.root / "requirements", self.bin, self.home):
            directory.mkdir(parents=True)
        shutil.copy(REPOSITORY / "dev", self.root)
        shutil.copytree(REPOSITORY / "tools", self.root / "tools")
        for lock in ("dev", "spark", "bootstrap"):
            (self.root / f"requirements/{lock}.txt").write_text("")
        (self.root / "pyproject.toml").write_text(PYPROJECT)
        (self.bin / "bash").symlink_to(BASH)
        for command in COMMANDS:
            (self.bin / command).symlink_to(shutil.which(command) or pytest.fail(command))
        self.environment = {
            "PATH": str(self.bin),
            "HOME": str(self.home),
            "JOURNAL": str(self.journal),
            "FAILING": "",
        }

    @property
    def venv(self) -> Path:
        """Where the virtual environment goes."""
        return self.root / ".venv"

    def command(self, name: str, script: str) -> Path:
        """Puts a command on PATH."""
        path = self.bin / name
        path.write_text(script)
        path.chmod(0o755)
        return path

    def python(self, name: str = "python3") -> None:
        """Puts the Python that runs the tests on PATH, under this name."""
        self.command(name, f'#!/bin/sh\nexec "{PYTHON}" "$@"\n')

    def start(
        self, *arguments: str, cwd: Path | None = None, **environment: str
    ) -> subprocess.Popen[str]:
        """Starts ./dev."""
        return subprocess.Popen(
            [str(self.bin / "bash"), str(self.root / "dev"), *arguments],
            cwd=cwd or self.root,
            env={**self.environment, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def dev(
        self, *arguments: str, cwd: Path | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Runs ./dev to its end."""
        process = self.start(*arguments, cwd=cwd, **environment)
        out, err = process.communicate(timeout=self.patience_s)
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def calls(self) -> list[str]:
        """What the stand-ins were asked since the last look."""
        lines = self.journal.read_text().splitlines() if self.journal.exists() else []
        self.journal.unlink(missing_ok=True)
        return lines

    def files(self, contents: Mapping[str, str]) -> None:
        """Writes files into the checkout."""
        for name, text in contents.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text)


@pytest.fixture
def bare(tmp_path: Path) -> Checkout:
    """A checkout on a machine with neither Python nor uv nor Java."""
    return Checkout(tmp_path)


@pytest.fixture
def checkout(bare: Checkout) -> Checkout:
    """A checkout on a machine with Python and a stand-in for uv."""
    bare.python()
    bare.command("uv", UV)
    return bare
