"""What `import motet` offers, and that it is quick to import."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest

import motet


@pytest.mark.parametrize("name", motet.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(motet, name) is not None


def test_dir_lists_exactly_the_public_names() -> None:
    assert dir(motet) == sorted(motet.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        motet.no_such_name  # noqa: B018


def test_the_version_is_that_of_the_package() -> None:
    assert motet.__version__ == version("motet")


@pytest.mark.parametrize("heavy", ["asyncio", "msgspec", "typer", "starlette", "pyarrow", "rich"])
def test_importing_motet_imports_nothing_heavy(heavy: str) -> None:
    """The figure (under 150 ms) is in bench/startup.py; this is what keeps it."""
    code = f"import sys, motet; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_cores_refuse_to_run_without_assertions() -> None:
    done = subprocess.run(
        [sys.executable, "-O", "-c", "import motet.core"], capture_output=True, check=False
    )
    assert done.returncode != 0
    assert b"-O" in done.stderr
