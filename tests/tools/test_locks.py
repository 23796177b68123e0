"""The locks: exact, hashed, free of hosts, and true to pyproject.toml."""

import re
import tomllib
from pathlib import Path
from typing import cast

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).resolve().parents[2]
LOCKS = sorted((REPOSITORY / "requirements").glob("*.txt"))
ENTRY = re.compile(
    r"(?P<requirement>[a-z0-9][a-z0-9-]*==[^\s;]+(?: ; [^\\\n]+?)?) \\\n"
    r"(?:    --hash=sha256:[0-9a-f]{64} \\\n)*"
    r"    --hash=sha256:[0-9a-f]{64}\n"
)
MACHINES = [
    {"python_version": version, "python_full_version": f"{version}.1", "sys_platform": platform}
    for version in ("3.11", "3.12", "3.13", "3.14")
    for platform in ("linux", "darwin")
]


def project() -> dict[str, list[str]]:
    """The direct dependencies of pyproject.toml, by the lock that holds them."""
    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    extras = settings["project"]["optional-dependencies"]
    base = settings["project"]["dependencies"]
    built_by = settings["build-system"]["requires"]
    return {
        "dev": [*base, *settings["dependency-groups"]["dev"], *built_by],
        "spark": [*base, *extras["spark"], *extras["sql"], *extras["s3"]],
        "bootstrap": ["pip", "setuptools"],
    }


def locked(lock: Path) -> list[Requirement]:
    """The entries of a lock."""
    return [Requirement(entry["requirement"]) for entry in ENTRY.finditer(lock.read_text())]


def versions_on(machine: dict[str, str], lock: Path) -> dict[str, str]:
    """What a lock installs on a machine."""
    environment = {**cast("dict[str, str]", default_environment()), **machine}
    found: dict[str, str] = {}
    for requirement in locked(lock):
        if requirement.marker is None or requirement.marker.evaluate(environment):
            assert requirement.name not in found, f"{requirement.name} is locked twice"
            (specifier,) = requirement.specifier
            found[requirement.name] = specifier.version
    return found


def test_there_is_a_lock_for_every_set() -> None:
    assert {lock.stem for lock in LOCKS} == set(project())


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_a_lock_is_entries_with_hashes_and_nothing_else(lock: Path) -> None:
    assert ENTRY.sub("", lock.read_text()) == ""
    assert locked(lock)


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_a_lock_names_no_host(lock: Path) -> None:
    text = lock.read_text()
    for words in ("://", " @ ", "index-url", "find-links", "www."):
        assert words not in text


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: " ".join(machine.values()))
@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_every_direct_dependency_is_locked_at_a_version_it_allows(
    lock: Path, machine: dict[str, str]
) -> None:
    versions = versions_on(machine, lock)
    for text in project()[lock.stem]:
        wanted = Requirement(text)
        assert wanted.specifier.contains(versions[canonicalize_name(wanted.name)]), text


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: " ".join(machine.values()))
def test_the_locks_agree(machine: dict[str, str]) -> None:
    """The Spark set is installed on top of the other, and must not change it."""
    dev, spark = (
        versions_on(machine, REPOSITORY / f"requirements/{n}.txt") for n in ("dev", "spark")
    )
    shared = dev.keys() & spark.keys()
    assert shared
    assert {name: dev[name] for name in shared} == {name: spark[name] for name in shared}
