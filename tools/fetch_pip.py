"""Fetches the wheel of pip that a lock names, with the standard library alone.

For Pythons without ensurepip, on machines without uv, curl or root: `fetch_pip.py LOCK DIRECTORY`
saves the wheel and prints its path. The package index is the one pip itself would use
(PIP_INDEX_URL, then pip's configuration files, then the public one); it may answer in HTML or in
JSON. What arrives is used only if its hash is in the lock, so neither the index nor the way there
has to be trusted.
"""

import base64
import configparser
import hashlib
import html.parser
import http.client
import json
import os
import re
import ssl
import sys
import urllib.parse
import urllib.request
from pathlib import Path

# Only for a Python that has neither ensurepip nor pip nor uv to ask; a configured index goes before it.
INDEX_DEFAULT = "https://pypi.org/simple/"
ACCEPTED = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"
TIMEOUT_SECONDS = 60
ANSWER_BYTES_MAX = 64 * 1024 * 1024


class FetchError(Exception):
    """Why there is no wheel, in words for the person at the terminal."""


def locked_pip(lock: str) -> tuple[str, frozenset[str]]:
    """The wheel's file name and the SHA-256 sums that the lock allows for it."""
    entry = re.search(r"^pip==(\S+)((?:\s*\\\n\s*--hash=sha256:[0-9a-f]{64})+)", lock, re.MULTILINE)
    if entry is None:
        raise FetchError("the lock does not name pip with its hashes")
    sums = frozenset(re.findall(r"sha256:([0-9a-f]{64})", entry[2]))
    return f"pip-{entry[1]}-py3-none-any.whl", sums


def configuration_files() -> list[Path]:
    """pip's configuration files, the strongest last."""
    named = os.environ.get("PIP_CONFIG_FILE")
    if named == os.devnull:  # pip's way to say "none at all"
        return []
    home = Path.home()
    user = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    files = [Path("/etc/xdg/pip/pip.conf"), Path("/etc/pip.conf")]
    files += [Path("/Library/Application Support/pip/pip.conf"), home / ".pip/pip.conf"]
    files += [home / "Library/Application Support/pip/pip.conf", user / "pip/pip.conf"]
    return [*files, Path(named)] if named else files


def setting(name: str) -> str | None:
    """One of pip's settings, by its long option's name: from the environment, else from the files."""
    if from_environment := os.environ.get("PIP_" + name.upper().replace("-", "_")):
        return from_environment
    files = configparser.RawConfigParser(strict=False)
    try:
        files.read(configuration_files(), encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError) as error:
        raise FetchError(f"pip's configuration cannot be read: {error}") from error
    for section in ("install", "global"):
        if value := files.get(section, name, fallback=""):
            return value
    return None


class Links(html.parser.HTMLParser):
    """The targets of all links of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keeps the target if the tag is a link."""
        if tag == "a":
            self.targets += [value for name, value in attrs if name == "href" and value]


def link_to(file_name: str, page: bytes, content_type: str, page_url: str) -> str:
    """The address of the file, from a project's page of the index."""
    if "json" in content_type:
        targets = [str(file["url"]) for file in json.loads(page)["files"]]
    else:
        links = Links()
        links.feed(page.decode("utf-8", errors="replace"))
        targets = links.targets
    for target in targets:
        address = urllib.parse.urldefrag(urllib.parse.urljoin(page_url, target)).url
        if urllib.parse.unquote(urllib.parse.urlsplit(address).path).endswith("/" + file_name):
            return address
    raise FetchError(f"the package index does not have {file_name}")


class Index:
    """A package index: an address, perhaps with a name and password in it, and a way to get from there."""

    def __init__(self, url: str) -> None:
        parts = urllib.parse.urlsplit(url)
        credentials, _, self.host = parts.netloc.rpartition("@")
        self.credentials = urllib.parse.unquote(credentials)
        self.url = parts._replace(netloc=self.host).geturl().rstrip("/") + "/"
        self.tls = ssl.create_default_context(cafile=setting("cert"))

    def get(self, url: str) -> tuple[bytes, str, str]:
        """Body, content type and final address of what is found there."""
        if urllib.parse.urlsplit(url).scheme not in ("https", "http"):
            raise FetchError("the package index must have an http or https address")
        request = urllib.request.Request(url, headers={"Accept": ACCEPTED})  # noqa: S310
        if self.credentials and urllib.parse.urlsplit(url).netloc == self.host:
            token = base64.b64encode(self.credentials.encode()).decode()
            request.add_unredirected_header("Authorization", f"Basic {token}")
        try:
            with urllib.request.urlopen(  # noqa: S310
                request, timeout=TIMEOUT_SECONDS, context=self.tls
            ) as answer:
                body = answer.read(ANSWER_BYTES_MAX)
                return body, answer.headers.get("Content-Type", ""), answer.url
        except (OSError, http.client.HTTPException) as error:
            raise FetchError(f"{url}: {error}") from error


def fetch(lock: Path, directory: Path) -> Path:
    """Saves the locked wheel of pip in the directory."""
    file_name, sums = locked_pip(lock.read_text(encoding="utf-8"))
    index = Index(setting("index-url") or INDEX_DEFAULT)
    page, content_type, page_url = index.get(urllib.parse.urljoin(index.url, "pip/"))
    wheel, _, _ = index.get(link_to(file_name, page, content_type, page_url))
    if hashlib.sha256(wheel).hexdigest() not in sums:
        raise FetchError(f"{file_name} is not the file that {lock.name} names; it was not used")
    path = directory / file_name
    path.write_bytes(wheel)
    return path


if __name__ == "__main__":
    try:
        print(fetch(Path(sys.argv[1]), Path(sys.argv[2])))
    except FetchError as error:
        sys.exit(f"dev: pip could not be fetched: {error}")
