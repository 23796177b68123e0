"""Machines without ensurepip, uv, curl and root, as a fresh Debian is."""

from __future__ import annotations

import base64
import hashlib
import http.server
import io
import json
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

if TYPE_CHECKING:
    from tests.tools.conftest import Checkout

REPOSITORY = Path(__file__).resolve().parents[2]
PIP = "pip-9.9-py3-none-any.whl"
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
    """A package index on the loopback interface; keeps what it was asked and by whom."""

    def __init__(self) -> None:
        self.pages: dict[str, tuple[str, bytes]] = {}
        self.asked: list[tuple[str, str | None]] = []
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        """The address to configure."""
        return f"http://127.0.0.1:{self.server_port}/simple"

    def serve(self, file_name: str, contents: bytes, as_json: bool = False) -> None:
        """Offers a file on the page of its project."""
        project = file_name.partition("-")[0]
        self.pages[f"/files/{file_name}"] = ("application/octet-stream", contents)
        if as_json:
            page = json.dumps({"files": [{"url": f"../../files/{file_name}"}]})
            self.pages[f"/simple/{project}/"] = (
                "application/vnd.pypi.simple.v1+json",
                page.encode(),
            )
        else:
            page = f'<!DOCTYPE html><a href="../../files/{file_name}#sha256=0">{file_name}</a>'
            self.pages[f"/simple/{project}/"] = ("text/html", page.encode())


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers for an Index."""

    server: Index

    def do_GET(self) -> None:
        """Sends a page, or says that there is none."""
        self.server.asked.append((self.path, self.headers.get("Authorization")))
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


def fetch(place: Path, lock: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs fetch_pip.py with nothing but this environment."""
    (place / "lock.txt").write_text(lock)
    (place / "got").mkdir(exist_ok=True)
    return subprocess.run(
        [
            sys.executable,
            "-I",
            REPOSITORY / "tools/fetch_pip.py",
            place / "lock.txt",
            place / "got",
        ],
        env={"HOME": str(place), "NO_PROXY": "*", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("as_json", [False, True], ids=["html", "json"])
def test_pip_is_fetched_from_the_index_in_the_environment(
    tmp_path: Path, index: Index, as_json: bool
) -> None:
    index.serve(PIP, b"wheel", as_json=as_json)
    got = fetch(tmp_path, entry("pip==9.9", b"wheel"), PIP_INDEX_URL=index.url)
    assert (got.returncode, got.stderr) == (0, "")
    assert Path(got.stdout.strip()) == tmp_path / "got" / PIP
    assert (tmp_path / "got" / PIP).read_bytes() == b"wheel"


def test_pip_is_fetched_from_the_index_of_pips_configuration(tmp_path: Path, index: Index) -> None:
    index.serve(PIP, b"wheel")
    settings = tmp_path / ".config/pip/pip.conf"
    settings.parent.mkdir(parents=True)
    settings.write_text(f"[global]\nindex-url = {index.url}/\n")
    lock = entry("pip==9.9", b"wheel")
    assert fetch(tmp_path, lock).returncode == 0
    other = tmp_path / "other.conf"
    other.write_text("[global]\nindex-url = http://127.0.0.1:1/\n")
    assert fetch(tmp_path, lock, PIP_CONFIG_FILE=str(other)).returncode == 1
    both = fetch(tmp_path, lock, PIP_CONFIG_FILE=str(other), PIP_INDEX_URL=index.url)
    assert both.returncode == 0


def test_a_wheel_with_another_hash_is_refused(tmp_path: Path, index: Index) -> None:
    index.serve(PIP, b"tampered")
    got = fetch(tmp_path, entry("pip==9.9", b"wheel"), PIP_INDEX_URL=index.url)
    assert got.returncode == 1
    assert f"{PIP} is not the file that lock.txt names" in got.stderr
    assert list((tmp_path / "got").iterdir()) == []


def test_what_is_missing_is_named(tmp_path: Path, index: Index) -> None:
    lock = entry("pip==9.9", b"wheel")
    assert "404" in fetch(tmp_path, lock, PIP_INDEX_URL=index.url).stderr
    index.serve("pip-9.8-py3-none-any.whl", b"wheel")
    assert f"does not have {PIP}" in fetch(tmp_path, lock, PIP_INDEX_URL=index.url).stderr
    assert "does not name pip" in fetch(tmp_path, "pip==9.9\n", PIP_INDEX_URL=index.url).stderr
    assert "http" in fetch(tmp_path, lock, PIP_INDEX_URL="file:///etc").stderr


def test_credentials_go_to_the_index_and_are_not_shown(tmp_path: Path, index: Index) -> None:
    url = index.url.replace("//", "//me:se%40cret@")
    lock = entry("pip==9.9", b"wheel")
    missing = fetch(tmp_path, lock, PIP_INDEX_URL=url)
    assert "cret" not in missing.stderr
    index.serve(PIP, b"wheel")
    elsewhere = f"http://localhost:{index.server_port}/files/{PIP}"
    index.pages["/simple/pip/"] = ("text/html", f'<a href="{elsewhere}">pip</a>'.encode())
    index.asked.clear()
    assert fetch(tmp_path, lock, PIP_INDEX_URL=url).returncode == 0
    secret = "Basic " + base64.b64encode(b"me:se@cret").decode()
    assert index.asked == [("/simple/pip/", secret), (f"/files/{PIP}", None)]


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


def bundled_pip() -> bytes:
    """The wheel of pip that comes with Python; if it is hidden here too, the locked one."""
    bundle = Path(sysconfig.get_path("stdlib"), "ensurepip/_bundled")
    if wheels := sorted(bundle.glob("pip-*.whl")):
        return wheels[0].read_bytes()
    script, lock = REPOSITORY / "tools/fetch_pip.py", REPOSITORY / "requirements/bootstrap.txt"
    command = [sys.executable, "-I", str(script), str(lock), str(Path.cwd())]
    fetched = Path(
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    )
    contents = fetched.read_bytes()
    fetched.unlink()
    return contents


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


def pip_version(wheel: bytes) -> str:
    """The version inside a wheel of pip."""
    names = zipfile.ZipFile(io.BytesIO(wheel)).namelist()
    (version,) = {
        name.split("-")[1].removesuffix(".dist") for name in names if "dist-info/" in name
    }
    return version


def test_dev_works_without_ensurepip_and_uv(
    bare: Checkout, index: Index, without_ensurepip: Path
) -> None:
    pip, tiny = bundled_pip(), tiny_wheel()
    version = pip_version(pip)
    index.serve(f"pip-{version}-py3-none-any.whl", pip)
    index.serve("tiny-1.0-py3-none-any.whl", tiny)
    built_here = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    bare.files(
        {
            "requirements/bootstrap.txt": entry(f"pip=={version}", pip),
            "requirements/dev.txt": entry("tiny==1.0", tiny),
            "pyproject.toml": built_here + (bare.root / "pyproject.toml").read_text(),
            "backend.py": BACKEND,
            "src/motet.py": "import tiny\ndef main(): print('motet is', tiny.size)\n",
        }
    )
    ended = bare.dev(
        "shell",
        "motet",
        MOTET_PYTHON=str(without_ensurepip),
        PIP_INDEX_URL=index.url,
        PIP_CONFIG_FILE=os.devnull,
        NO_PROXY="*",
    )
    assert ended.stdout == "motet is tiny\n", ended.stderr
    assert "no ensurepip: fetching pip" in ended.stderr
    assert list(bare.venv.glob("*.whl")) == []
    told = "from importlib.metadata import version; print(version('motet'), version('pip'))"
    again = bare.dev("shell", "python", "-c", told)
    assert (again.stdout, again.stderr) == (f"0.1.0 {version}\n", "")


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_repository_installs_without_ensurepip_and_uv(
    bare: Checkout, without_ensurepip: Path
) -> None:
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
    ended = bare.dev(
        "shell", "python", "-c", told, cwd=None, MOTET_PYTHON=str(without_ensurepip), **settings
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip()
    assert "no ensurepip: fetching pip" in ended.stderr
    checked = bare.dev("shell", "python", "-m", "pip", "check")
    assert checked.returncode == 0, checked.stdout
