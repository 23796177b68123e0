"""Runs golden scripts: ``python -m motet.testing.scenario FILE…``.

A script (see :mod:`motet.testing.script`) is run against its part, block by block, and what the commands
print is compared with what the file says. A difference is shown as a diff of the file; ``--rewrite``
writes what happened into the file instead, and the review is then ``git diff``.

Exit status: 0 all passed, 1 some differ or a command raised, 2 a script that makes no sense.
"""

from __future__ import annotations

import argparse
import difflib
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from motet.errors import BadScenario, StepRaised
from motet.testing.part import ScenarioPart, VerbPart
from motet.testing.script import NOTHING_PRINTED, Block, parse_script, render_output
from motet.testing.scripts import open_part, part_class

OpenPart = Callable[[str], ScenarioPart]


class ScenarioResult(msgspec.Struct, frozen=True):
    """What became of one script."""

    path: Path
    #: the file as it was
    expected_text: str
    #: the file as it would be with what really happened
    actual_text: str

    @property
    def passed(self) -> bool:
        return self.expected_text == self.actual_text

    def diff(self) -> str:
        """What differs, as a unified diff; empty when the script passed."""
        lines = difflib.unified_diff(
            self.expected_text.splitlines(),
            self.actual_text.splitlines(),
            f"{self.path} (expected)",
            f"{self.path} (happened)",
            lineterm="",
        )
        return "\n".join(lines)


def run_scenario(
    path: Path | str, *, rewrite: bool = False, open_part: OpenPart = open_part
) -> ScenarioResult:
    """Run one script. With ``rewrite`` the file gets what happened, and the result says what changed.

    ``BadScenario`` when the script makes no sense, ``StepRaised`` when a command blew up; the file is not
    touched then.
    """
    path = Path(path)
    text = _read(path)
    script = parse_script(text, str(path))
    name = script.part or path.resolve().parent.name
    try:
        part = open_part(name)
    except BadScenario as error:
        raise BadScenario(f"{path}:1: {error.what}", hint=error.advice) from error
    happened = "".join(_run_block(part, block, rewrite=rewrite) for block in script.blocks)
    result = ScenarioResult(path, text, happened + script.tail_text)
    if rewrite and not result.passed:
        path.write_bytes(result.actual_text.encode())
    return result


def _run_block(part: ScenarioPart, block: Block, *, rewrite: bool) -> str:
    if block.expected is None and not rewrite:
        raise block.commands[-1].refused("no `----` after it; --rewrite adds it with the output")
    output: list[str] = []
    for command in block.commands:
        try:
            printed = part.run(command)
        except BadScenario as error:
            if error.what.startswith(command.where):
                raise
            raise command.refused(error.what) from error
        except Exception as error:
            what = f"{command.where}: `{command.text}` raised {type(error).__name__}: {error}"
            raise StepRaised(what) from error
        output += [line.rstrip() for text in printed for line in text.split("\n")]
    lines = tuple(output) or NOTHING_PRINTED
    if lines == block.expected:
        return block.lead_text + block.output_text
    lead = block.lead_text if block.lead_text.endswith("\n") else block.lead_text + "\n"
    return lead + render_output(lines)


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise BadScenario(f"{path} cannot be read: {error}", hint="check the path") from error


def find_scripts(paths: Sequence[Path]) -> Iterator[Path]:
    """The files themselves, and every ``.txt`` below the folders, in order of name."""
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        found = sorted(path.rglob("*.txt"))
        if not found:
            raise BadScenario(f"{path} has no .txt file below it", hint="name a folder of scripts")
        yield from found


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    options = _parse_arguments(arguments)
    try:
        if options.commands is not None:
            return _print_manual(options.commands)
        paths = list(find_scripts(options.paths))
    except BadScenario as error:
        print(error, file=sys.stderr)
        return 2
    statuses = [_run_and_report(path, rewrite=options.rewrite) for path in paths]
    passed = statuses.count(0)
    print(f"{passed} passed, {len(statuses) - passed} failed")
    return max(statuses)


def _parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m motet.testing.scenario", description="Run golden scripts."
    )
    parser.add_argument("paths", metavar="FILE", nargs="*", type=Path, help="a script or a folder")
    parser.add_argument("--rewrite", action="store_true", help="write what happens into the files")
    parser.add_argument("--commands", metavar="PART", help="list the commands of a part and exit")
    options = parser.parse_args(arguments)
    if not options.paths and options.commands is None:
        parser.error("name at least one script or folder")
    return options


def _print_manual(name: str) -> int:
    part = part_class(name)
    if not issubclass(part, VerbPart):
        raise BadScenario(f"part {name} does not list its commands", hint=f"read {part.__module__}")
    print("\n".join(part.manual()))
    return 0


def _run_and_report(path: Path, *, rewrite: bool) -> int:
    try:
        result = run_scenario(path, rewrite=rewrite)
    except BadScenario as error:
        print(error, file=sys.stderr)
        return 2
    except StepRaised as error:
        traceback.print_exception(error.__cause__)
        print(error, file=sys.stderr)
        return 1
    if result.passed:
        return 0
    print(f"rewrote {path}" if rewrite else result.diff())
    return 0 if rewrite else 1


if __name__ == "__main__":
    sys.exit(main())
