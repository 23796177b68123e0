"""The shell scripts keep to what bash 3.2 and the tools of macOS know."""

import re
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPTS = [REPOSITORY / "dev", REPOSITORY / ".ci/run", *sorted((REPOSITORY / "tools").glob("*.sh"))]

#: What is newer or GNU's own: a pattern, and a line it must find.
TOO_NEW = {
    "associative array": (r"\b(declare|local|typeset)\s+-\w*A", "declare -A names"),
    "name reference": (r"\b(declare|local|typeset)\s+-\w*n", "local -n name=$1"),
    "mapfile": (r"\b(mapfile|readarray)\b", "mapfile -t lines <file"),
    "case change": (r"\$\{\w+(\[[^]]*\])?(,|\^)", 'echo "${name,,}"'),
    "transformation": (r"\$\{\w+(\[[^]]*\])?@[A-Za-z]\}", 'echo "${name@Q}"'),
    "pipe with errors": (r"\|&", "make |& cat"),
    "append with errors": (r"&>>", "make &>>log"),
    "case fall through": (r";;?&", "a) echo ;;&"),
    "coprocess": (r"\bcoproc\b", "coproc cat"),
    "test of a variable": (r"\[\[?\s+(!\s+)?-v\s", "[ -v name ]"),
    "negative index": (r"\$\{\w+\[-\d", 'echo "${list[-1]}"'),
    "negative length": (r"\$\{\w+:\s*\d[^}]*:\s*-", 'echo "${name:0:-1}"'),
    "wait for any": (r"\bwait\s+-n\b", "wait -n"),
    "new variable": (r"\$\{?(EPOCH\w+|BASHPID|SRANDOM)\b", "echo $BASHPID"),
    "chosen descriptor": (r"\bexec\s+\{", "exec {lock}>file"),
    "time by printf": (r"printf\s.*%\([^)]*\)T", "printf '%(%s)T' -1"),
    "real path": (r"\b(readlink\s+-\w*[fem]|realpath\s)", 'readlink -f "$0"'),
    "edit in place": (r"\bsed\s+-\w*i", "sed -i s/a/b/ file"),
    "empty array": (r"(?<!\+)\"\$\{\w+\[@\]\}\"", 'run "${list[@]}"'),
}


def code_of(script: Path) -> str:
    """The lines of a script that are not comments."""
    lines = script.read_text().splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith("#"))


@pytest.mark.parametrize("name", TOO_NEW)
def test_the_search_finds_what_it_is_for(name: str) -> None:
    pattern, example = TOO_NEW[name]
    assert re.search(pattern, example)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_scripts_use_nothing_newer_than_bash_3_2(script: Path) -> None:
    code = code_of(script)
    found = {name: re.findall(pattern, code) for name, (pattern, _) in TOO_NEW.items()}
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_scripts_parse(script: Path) -> None:
    subprocess.run(["bash", "-n", script], check=True)


def test_the_entries_can_be_run() -> None:
    for entry in (REPOSITORY / "dev", REPOSITORY / ".ci/run"):
        assert entry.stat().st_mode & 0o111 == 0o111
        assert entry.read_text().startswith("#!/usr/bin/env bash\n")
