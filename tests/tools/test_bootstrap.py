"""Machines without uv, and with a Python that has no ensurepip, as a fresh Debian is."""

from __future__ import annotations

import hashlib
import http.server
import io
import os
import shutil
import subprocess
import sys
import sysconfig
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.tools.conftest import PYTHON

if TYPE_CHECKING:
    from tests.tools.conftest import Checkout

REPOSITORY = Path(__file__).resolve().parents[2]
#: A build backend of a few lines, so that installing the project needs no package.
BACKEND = """
import pathlib, zipfile
def get_requires_for_build_editable(config_settings=None):
    return []
def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    name = "motet-0.1.0-py3-none-any.whl"
    info = "motet-0.1.0.dist-info/"
    with zipfile.ZipFile(pathlib.Path(wheel_directory, name), "w") as wheel:
        wheel.writestr("motet.pth", str(pathlib.Path("src").resolve()))
        wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: motet\\nVersion: 0.1.0\\n")
        wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
        wheel.writestr(info + "entry_points.txt", "[console_scripts]\\nmotet = motet:main\\n")
        wheel.writestr(info + "RECORD", "")
    return name
"""


class Index(http.server.ThreadingHTTPServer):
    """A package index on the loopback interface."""

    def __init__(self) -> None:
        self.pages: dict[str, tuple[str, bytes]] = {}
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        """The address to configure."""
        return f"http://127.0.0.1:{self.server_port}/simple"

    def serve(self, file_name: str, contents: bytes) -> None:
        """Offers a file on the page of its project."""
        project = file_name.partition("-")[0]
        self.pages[f"/files/{file_name}"] = ("application/octet-stream", contents)
        page = f'<!DOCTYPE html><a href="../../files/{file_name}">{file_name}</a>'
        self.pages[f"/simple/{project}/"] = ("text/html", page.encode())


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers for an Index."""

    server: Index

    def do_GET(self) -> None:
        """Sends a page, or says that there is none."""
        content_type, body = self.server.pages.get(self.path, ("text/plain", b""))
        self.send_response(200 if self.path in self.server.pages else 404)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Keeps quiet."""


@pytest.fixture
def index() -> Iterator[Index]:
    """A running package index, empty."""
    with Index() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def entry(requirement: str, contents: bytes) -> str:
    """A lock's entry for a file."""
    return f"{requirement} \\\n    --hash=sha256:{hashlib.sha256(contents).hexdigest()}\n"


@pytest.fixture
def without_ensurepip(tmp_path: Path) -> Path:
    """A Python whose library has everything but ensurepip, and which therefore makes no venv."""
    executable = Path(os.path.realpath(getattr(sys, "_base_executable", sys.executable)))
    library = Path(sysconfig.get_path("stdlib"))
    prefix = tmp_path / "python"
    copied = prefix / "lib" / library.name
    copied.mkdir(parents=True)
    (prefix / "bin").mkdir()
    for part in library.iterdir():
        if part.name not in ("ensurepip", "site-packages", "dist-packages"):
            (copied / part.name).symlink_to(part)
    python = prefix / "bin" / executable.name
    shutil.copy(executable, python)
    plain = subprocess.run(
        [python, "-m", "venv", tmp_path / "plain"], capture_output=True, text=True, check=False
    )
    assert plain.returncode != 0, "hiding ensurepip must make venv fail, or the test shows nothing"
    return python


def tiny_wheel() -> bytes:
    """A package of one line."""
    wheel = io.BytesIO()
    info = "tiny-1.0.dist-info/"
    with zipfile.ZipFile(wheel, "w") as files:
        files.writestr("tiny.py", "size = 'tiny'\n")
        files.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        files.writestr(info + "WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        files.writestr(info + "RECORD", "")
    return wheel.getvalue()


def test_a_python_without_ensurepip_is_told_which_package_to_install(
    bare: Checkout, without_ensurepip: Path
) -> None:
    ended = bare.dev("shell", "motet", MOTET_PYTHON=str(without_ensurepip))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert f"{without_ensurepip} cannot make virtual environments" in ended.stderr
    assert "sudo apt install python3-venv" in ended.stderr
    assert "MOTET_PYTHON" in ended.stderr


def test_one_with_ensurepip_is_taken_before_one_without(
    bare: Checkout, without_ensurepip: Path
) -> None:
    named = bare.bin / "python3.11"
    named.symlink_to(without_ensurepip)
    alone = bare.dev("shell", "motet")
    assert f"{without_ensurepip} cannot make virtual environments" in alone.stderr
    (bare.bin / "python3").symlink_to(PYTHON)
    both = bare.dev("shell", "python", "-c", "print('made')")
    assert "cannot make" not in both.stderr
    assert f"with {PYTHON}" in both.stderr


def test_dev_works_without_uv(bare: Checkout, index: Index) -> None:
    tiny = tiny_wheel()
    index.serve("tiny-1.0-py3-none-any.whl", tiny)
    built_here = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    bare.files(
        {
            "requirements/dev.txt": entry("tiny==1.0", tiny),
            "pyproject.toml": built_here + (bare.root / "pyproject.toml").read_text(),
            "backend.py": BACKEND,
            "src/motet.py": "import tiny\ndef main(): print('motet is', tiny.size)\n",
        }
    )
    ended = bare.dev(
        "shell",
        "motet",
        MOTET_PYTHON=PYTHON,
        PIP_INDEX_URL=index.url,
        PIP_CONFIG_FILE=os.devnull,
        NO_PROXY="*",
    )
    assert ended.stdout == "motet is tiny\n", ended.stderr
    told = "from importlib.metadata import version; print(version('motet'))"
    again = bare.dev("shell", "python", "-c", told)
    assert (again.stdout, again.stderr) == ("0.1.0\n", "")


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_repository_installs_without_uv(bare: Checkout) -> None:
    """Downloads the locked packages, about 650 MB."""
    for name in ("requirements", "src"):
        shutil.copytree(REPOSITORY / name, bare.root / name, dirs_exist_ok=True)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, bare.root)
    settings = {
        name: text
        for name, text in os.environ.items()
        if name.startswith(("PIP_", "SSL_")) or name.lower().endswith("_proxy")
    }
    told = "import motet, pytest, pyspark; from importlib.metadata import version; print(version('motet'))"
    bare.patience_s = 1500
    ended = bare.dev("shell", "python", "-c", told, cwd=None, MOTET_PYTHON=PYTHON, **settings)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip()
    checked = bare.dev("shell", "python", "-m", "pip", "check")
    assert checked.returncode == 0, checked.stdout
