"""Running golden scripts, from Python, from the command line and from pytest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from motet.errors import BadScenario, StepRaised
from motet.testing import scenario
from motet.testing.part import ScenarioPart, VerbPart, verb
from motet.testing.scenario import find_scripts, main, run_scenario

GOOD = """\
# a counter counts
add 2
add 3
----
total 2
total 5

quiet
----
ok
"""


class Counter(VerbPart):
    name = "counter"

    def __init__(self) -> None:
        self.total = 0

    @verb
    def add(self, amount: int) -> list[str]:
        """Add up."""
        self.total += amount
        return [f"total {self.total}"]

    @verb
    def quiet(self) -> list[str]:
        return []

    @verb
    def poem(self) -> list[str]:
        return ["roses  ", "", "violets\nand more"]

    @verb
    def explode(self) -> list[str]:
        raise ZeroDivisionError("bang")

    @verb
    def complain(self) -> list[str]:
        raise BadScenario("not now", hint="later")


def open_counter(name: str) -> ScenarioPart:
    if name != "counter":
        raise BadScenario(f"there is no part {name!r}; there are counter")
    return Counter()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder named like the part, with the part known to the command line."""
    monkeypatch.setattr(scenario, "run_scenario", run_counter)
    folder = tmp_path / "counter"
    folder.mkdir()
    return folder


def run_counter(path: Path, *, rewrite: bool = False) -> scenario.ScenarioResult:
    return run_scenario(path, rewrite=rewrite, open_part=open_counter)


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def test_a_script_that_says_what_happens_passes(folder: Path) -> None:
    result = run_counter(write(folder / "good.txt", GOOD))
    assert result.passed
    assert result.diff() == ""


def test_every_file_gets_a_fresh_part(folder: Path) -> None:
    path = write(folder / "good.txt", GOOD)
    assert run_counter(path).passed
    assert run_counter(path).passed


def test_a_difference_is_a_diff_of_the_file(folder: Path) -> None:
    path = write(folder / "bad.txt", GOOD.replace("total 5", "total 6"))
    result = run_counter(path)
    assert not result.passed
    assert "-total 6\n+total 5" in result.diff()
    assert str(path) in result.diff()
    assert path.read_text() == GOOD.replace("total 5", "total 6")


def test_the_part_line_wins_over_the_folder(tmp_path: Path) -> None:
    path = write(tmp_path / "x.txt", "# c\npart counter\n" + GOOD)
    assert run_counter(path).passed


def test_an_unknown_part_names_the_known_ones(tmp_path: Path) -> None:
    path = write(tmp_path / "x.txt", "part spoon\ntick\n----\nok\n")
    with pytest.raises(BadScenario, match=r"'spoon'.*clock") as caught:
        run_scenario(path)
    assert caught.value.what.startswith(f"{path}:1: ")


def test_rewriting_changes_output_alone(folder: Path) -> None:
    wrong = "\n\n  add   2 \r\n# why\nadd 3\n----\n\n\n# the end\nquiet\n----\nwrong\n\n\n# tail"
    path = write(folder / "x.txt", wrong)
    assert not run_counter(path, rewrite=True).passed
    assert path.read_bytes().decode() == (
        "\n\n  add   2 \r\n# why\nadd 3\n----\ntotal 2\ntotal 5\n\n\n# the end\n"
        "quiet\n----\nok\n\n\n# tail"
    )
    assert run_counter(path).passed


def test_rewriting_adds_missing_separators(folder: Path) -> None:
    path = write(folder / "x.txt", "add 1\n\nquiet")
    run_counter(path, rewrite=True)
    assert path.read_text() == "add 1\n----\ntotal 1\n\nquiet\n----\nok\n"


def test_a_missing_separator_is_bad_without_rewriting(folder: Path) -> None:
    path = write(folder / "x.txt", "add 1\n\nquiet\n----\nok\n")
    with pytest.raises(BadScenario, match="--rewrite"):
        run_counter(path)


def test_output_with_blank_lines_is_written_down_and_passes(folder: Path) -> None:
    path = write(folder / "x.txt", "poem\n----\n")
    run_counter(path, rewrite=True)
    assert path.read_text() == "poem\n----\n----\nroses\n\nviolets\nand more\n----\n----\n"
    assert run_counter(path).passed


def test_a_command_that_raises_fails_with_its_place(folder: Path) -> None:
    text = "add 1\n----\nnot that\n\nexplode\n----\nok\n"
    path = write(folder / "x.txt", text)
    with pytest.raises(StepRaised) as caught:
        run_counter(path, rewrite=True)
    assert caught.value.what == f"{path}:5: `explode` raised ZeroDivisionError: bang"
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert path.read_text() == text, "a run that did not end rewrites nothing"


def test_a_part_that_complains_gets_the_place_added(folder: Path) -> None:
    path = write(folder / "x.txt", "complain\n----\nok\n")
    with pytest.raises(BadScenario) as caught:
        run_counter(path)
    assert caught.value.what == f"{path}:1: `complain`: not now"


def test_folders_are_searched_in_order_and_must_hold_scripts(tmp_path: Path) -> None:
    for name in ("b/2.txt", "b/1.txt", "a.txt", "note.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write(tmp_path / name, "")
    found = find_scripts([tmp_path / "b", tmp_path / "a.txt"])
    assert [path.name for path in found] == ["1.txt", "2.txt", "a.txt"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadScenario):
        list(find_scripts([tmp_path / "empty"]))


def test_the_command_line_counts_and_shows_the_diff(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder / "1.txt", GOOD)
    write(folder / "2.txt", GOOD.replace("total 5", "total 6"))
    assert main([str(folder)]) == 1
    out = capsys.readouterr().out
    assert "+total 5" in out
    assert out.endswith("1 passed, 1 failed\n")
    assert main([str(folder / "1.txt")]) == 0
    assert capsys.readouterr().out == "1 passed, 0 failed\n"


def test_the_command_line_rewrites(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(folder / "2.txt", GOOD.replace("total 5", "total 6"))
    assert main(["--rewrite", str(path)]) == 0
    assert f"rewrote {path}" in capsys.readouterr().out
    assert path.read_text() == GOOD


def test_a_bad_script_is_exit_2_and_the_others_still_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder / "1.txt", "dance\n----\nok\n")
    write(folder / "2.txt", "explode\n----\nok\n")
    write(folder / "3.txt", GOOD)
    assert main([str(folder)]) == 2
    shown = capsys.readouterr()
    assert "BAD_SCENARIO" in shown.err
    assert "ZeroDivisionError: bang" in shown.err
    assert shown.out.endswith("1 passed, 2 failed\n")


@pytest.mark.parametrize("name", ["missing.txt", "binary.txt"])
def test_a_file_that_cannot_be_read_is_exit_2(folder: Path, name: str) -> None:
    (folder / "binary.txt").write_bytes(b"\xff\xfe")
    assert main([str(folder / name)]) == 2


def test_scripts_run_from_anywhere(tmp_path: Path) -> None:
    path = write(tmp_path / "any name.txt", "part clock\ndance\n----\nok\n")
    command = [sys.executable, "-m", "motet.testing.scenario", path.name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "any name.txt:2: `dance`: part clock has no such command; it has " in done.stderr


def test_pytest_collects_scripts_and_rewrites_them(tmp_path: Path) -> None:
    scripts = tmp_path / "scenarios" / "clock"
    scripts.mkdir(parents=True)
    conftest = Path(__file__).parents[1] / "conftest.py"
    write(tmp_path / "conftest.py", conftest.read_text())
    wrong = write(scripts / "wrong.txt", "is-after (2,0) (1,0)\n----\nno\n")
    write(scripts / "bad.txt", "dance\n----\nok\n")

    def run_pytest(*arguments: str) -> subprocess.CompletedProcess[str]:
        quiet = ["-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", str(tmp_path)]
        command = [sys.executable, "-m", "pytest", *quiet, *arguments, str(tmp_path)]
        alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        return subprocess.run(
            command, cwd=tmp_path, env=alone, capture_output=True, text=True, check=False
        )

    done = run_pytest()
    assert "2 failed" in done.stdout
    assert "-no\n+yes" in done.stdout
    assert f"pytest --rewrite {wrong}" in done.stdout
    assert "bad.txt:1: `dance`: part clock has no such command" in done.stdout
    assert "Traceback" not in done.stdout
    assert "1 failed, 1 passed" in run_pytest("--rewrite").stdout
    assert wrong.read_text() == "is-after (2,0) (1,0)\n----\nyes\n"
