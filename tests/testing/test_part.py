"""Parts whose commands are methods."""

from __future__ import annotations

from typing import ClassVar, Literal

import pytest

from motet.errors import BadClock, BadScenario
from motet.testing.part import VerbPart, verb
from motet.testing.script import parse_command


class Pair:
    """A type with a text form of its own."""

    def __init__(self, text: str) -> None:
        if "," not in text:
            raise BadClock(f"{text} is no pair")
        self.left, _, self.right = text.partition(",")


class Base(VerbPart):
    name = "recorder"
    converters: ClassVar = {Pair: Pair}

    @verb
    def echo(self, *words: str) -> list[str]:
        """Say it again."""
        return list(words)

    @verb
    def gone(self) -> list[str]:
        """Overridden below by something that is no command."""
        return []

    def helper(self) -> list[str]:
        return ["never called by a script"]


class Recorder(Base):
    @verb
    def add(self, amount: int, other: int | None = None, *, times: int = 1) -> list[str]:
        """Add things up.

        More words that no list of commands needs.
        """
        return [str((amount + (other or 0)) * times)]

    @verb
    def hold_sync(self, held: bool, *, from_: str = "") -> list[str]:
        return [f"{held} {from_}"]

    @verb
    def choose(self, way: Literal["left", "right"], pair: Pair) -> list[str]:
        return [pair.left if way == "left" else pair.right]

    gone = None  # type: ignore[assignment]


def run(line: str) -> list[str]:
    return Recorder().run(parse_command(line, "file.txt:3"))


@pytest.mark.parametrize(
    ("line", "output"),
    [
        ("echo", []),
        ("echo a 'b c'", ["a", "b c"]),
        ("add 2", ["2"]),
        ("add 1_000 2", ["1002"]),
        ("add 2 3 times=4", ["20"]),
        ("add amount=5", ["5"]),
        ("hold-sync on", ["True "]),
        ("hold-sync off from=n1", ["False n1"]),
        ("choose left 1,2", ["1"]),
        ("choose right 1,2", ["2"]),
    ],
)
def test_a_method_is_a_command_and_its_signature_the_grammar(line: str, output: list[str]) -> None:
    assert run(line) == output


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("dance", "part recorder has no such command; it has add, hold-sync, choose, echo"),
        ("helper", "no such command"),
        ("gone", "no such command"),
        ("add", "usage: add AMOUNT [OTHER] [times=INT]"),
        ("add 1 2 3", "usage: add AMOUNT"),
        ("add 1 often=2", "usage: add AMOUNT"),
        ("add one", "amount: "),
        ("hold-sync maybe", "held: 'maybe' is none of on, off"),
        ("choose up 1,2", "way: 'up' is none of left, right"),
        ("choose left 12", "pair: 12 is no pair"),
    ],
)
def test_what_does_not_fit_names_the_line_and_the_usage(line: str, why: str) -> None:
    with pytest.raises(BadScenario) as caught:
        run(line)
    assert caught.value.what.startswith(f"file.txt:3: `{line}`: ")
    assert why in caught.value.what


def test_the_manual_lists_every_command() -> None:
    assert Recorder.manual() == [
        "add AMOUNT [OTHER] [times=INT]  Add things up.",
        "hold-sync on|off [from=STR]",
        "choose left|right PAIR",
        "echo [WORDS…]                   Say it again.",
    ]
