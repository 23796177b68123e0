"""Calls and words we do not use, each with what to use instead."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "motet"

#: a dotted call -> (folders in which it is banned, what to use)
CALLS: dict[str, tuple[tuple[str, ...], str]] = {
    "time.time": (("",), "the time port: real/process.py reads the clock once per turn"),
    "time.sleep": (("",), "a condition to wait for, or a timer"),
    "datetime.now": (("",), "the time port"),
    "random.random": (("",), "the entropy port, or sim's Dice"),
    "random.randint": (("",), "the entropy port, or sim's Dice"),
    "random.choice": (("",), "the entropy port, or sim's Dice"),
    "random.shuffle": (("",), "sim's Dice.shuffled"),
    "uuid.uuid4": (("",), "the entropy port's nonce()"),
    "os.fsync": (("core", "format", "sim", "node", "verify", "client"), "the disk port's sync()"),
    "os.rename": (("",), "the disk port's replace()"),
    "pickle.loads": (("",), "msgspec: never unpickle what came from outside"),
    "copy.deepcopy": (("",), "core.fingerprint.clone_plain"),
    "hash": (("core", "sim", "format"), "core.fingerprint: hash() differs between processes"),
    "id": (("core", "sim", "format"), "a name or a number of its own"),
    "print": (
        ("core", "format", "ports", "real", "sim", "node"),
        "a Note in a core, logging in a shell, cli/output.py for people",
    ),
    "asyncio.get_event_loop": (("",), "asyncio.get_running_loop()"),
    "breakpoint": (("",), "nothing: take it out"),
}


def dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def banned_calls(path: Path, source: Path) -> Iterator[str]:
    place = path.relative_to(source).as_posix()
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        name = dotted(node.func)
        for banned, (folders, instead) in CALLS.items():
            hit = name == banned or name.endswith("." + banned)
            if hit and any(place.startswith(folder) for folder in folders):
                yield f"{place}:{node.lineno} calls {banned}; use {instead}"


def set_iterations(path: Path, source: Path) -> Iterator[str]:
    """Loops straight over a set: their order differs between processes."""
    place = path.relative_to(source).as_posix()
    for node in ast.walk(ast.parse(path.read_text())):
        iterated = [node.iter] if isinstance(node, ast.For | ast.comprehension) else []
        for value in iterated:
            call = isinstance(value, ast.Call) and dotted(value.func) in ("set", "frozenset")
            if call or isinstance(value, ast.Set | ast.SetComp):
                yield f"{place}:{value.lineno} iterates over a set; sort it, or keep a dict"


def files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (SOURCE / folder).rglob("*.py"))


def test_no_banned_call() -> None:
    assert [found for path in files("") for found in banned_calls(path, SOURCE)] == []


def test_cores_and_the_simulator_iterate_over_no_set() -> None:
    paths = files("core", "sim", "format")
    assert [found for path in paths for found in set_iterations(path, SOURCE)] == []


@pytest.mark.parametrize(
    "line", ["time.sleep(1)", "x = hash('a')", "motet.time.time()", "print('x')"]
)
def test_a_banned_call_is_found(tmp_path: Path, line: str) -> None:
    file = tmp_path / "core" / "some.py"
    file.parent.mkdir()
    file.write_text(line + "\n")
    assert len(list(banned_calls(file, tmp_path))) == 1


def test_a_loop_over_a_set_is_found(tmp_path: Path) -> None:
    file = tmp_path / "some.py"
    file.write_text("for x in {1, 2}:\n    pass\ny = [x for x in set('ab')]\n")
    assert len(list(set_iterations(file, tmp_path))) == 2


#: what must not stand in any file of ours
WORDS = {
    "a leftover": re.compile(r"\b(FIXME|XXX|TODO)\b"),
    "a path of some machine": re.compile(r"(?<![\w.])/(work|root|home)/\w"),
}
PROSE = (".py", ".md", ".toml", ".txt", ".cfg", ".sh")


def own_files() -> list[Path]:
    top = [path for path in ROOT.iterdir() if path.is_file() and path.suffix in PROSE]
    folders = ("src", "docs", "bench", "tools", "examples", ".ci")
    below = [p for f in folders for p in (ROOT / f).rglob("*") if p.is_file() and p.suffix in PROSE]
    return sorted(top + below)


@pytest.mark.parametrize("what", WORDS)
def test_no_file_has(what: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number} {line.strip()}"
        for path in own_files()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if WORDS[what].search(line)
    ]
    assert found == []


def test_no_package_index_is_named_anywhere() -> None:
    """Where packages come from is said by the settings of pip and uv, not by this repository."""
    hosts = re.compile(r"pypi\.(org|python)|pythonhosted\.org|--index-url[ =]http")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False
    ).stdout
    files = [ROOT / name for name in listed.decode().split("\0") if name]
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in files
        if path.is_file() and path != Path(__file__)
        for match in hosts.finditer(path.read_bytes().decode(errors="replace"))
    ]
    assert found == []
