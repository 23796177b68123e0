"""The text format of golden scripts: commands, a line ``----``, and what happened.

::

    # a fresh clock starts at the wall and ticks        <- a comment; the first one says what happens
    start wall=1000
    tick n=2
    ----
    (1000,1)
    (1000,2)

    stop
    ----
    ok

Rules of the format:

S1  A script is a list of blocks. A block is one or more command lines, a line ``----``, and the output
    of these commands. A blank line, or the end of the file, ends the block.
S2  A command is ``verb word … name=value …``, quoted as in a shell. Lines that start with ``#`` are
    comments, between blocks and between the commands of a block.
S3  A block whose commands printed nothing has the output ``ok``.
S4  Output with a blank line in it stands between doubled separators: ``----`` twice before it, and twice
    after it. No line of output is ``----`` itself, and trailing spaces do not count.
S5  The first line that is neither blank nor a comment may be ``part NAME``: it names the part whose
    commands the script uses. Without it, that is the folder the file is in.
S6  Rewriting changes output alone: comments, commands and blank lines stay as they are, to the byte.
    A block that has no ``----`` yet gets one by rewriting, and is an error otherwise.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

import msgspec

from motet.errors import BadScenario

SEPARATOR = "----"
NOTHING_PRINTED = ("ok",)

_OPTION = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*=")


class Command(msgspec.Struct, frozen=True):
    """One command line, taken apart."""

    verb: str
    words: tuple[str, ...]
    options: dict[str, str]
    #: the line as it was written
    text: str
    #: ``file:line``
    where: str

    def refused(self, why: str) -> BadScenario:
        """The error to raise when a command makes no sense."""
        return BadScenario(
            f"{self.where}: `{self.text}`: {why}", hint="correct the script and run it again"
        )


class Block(msgspec.Struct, frozen=True):
    """Commands and what they printed when the script was last rewritten."""

    commands: tuple[Command, ...]
    #: what should be printed; None while the block has no ``----``
    expected: tuple[str, ...] | None
    #: everything from the end of the last block up to and including the last command, as written
    lead_text: str
    #: the separator and the output, as written
    output_text: str


class Script(msgspec.Struct, frozen=True):
    """A whole file. Its text is, to the byte, every block's lead and output and then ``tail_text``."""

    #: named by a ``part`` line, if there is one
    part: str | None
    blocks: tuple[Block, ...]
    tail_text: str


def parse_script(text: str, name: str) -> Script:
    """Take a script apart; ``BadScenario`` names the line that does not fit. ``name`` is the file's."""
    return _Parser(text, name).script()


def render_output(lines: Sequence[str]) -> str:
    """The separator and the output below it."""
    if SEPARATOR in lines:
        raise BadScenario(f"a line `{SEPARATOR}` cannot be output", hint="have the part print more")
    if not any(_is_blank(line) for line in lines):
        return "".join(f"{line}\n" for line in (SEPARATOR, *lines))
    doubled = (SEPARATOR, SEPARATOR)
    return "".join(f"{line}\n" for line in (*doubled, *lines, *doubled))


def parse_command(line: str, where: str) -> Command:
    """Take one command line apart."""
    text = line.strip()
    try:
        first, *rest = shlex.split(text)
    except ValueError as error:
        raise BadScenario(f"{where}: `{text}`: {error}", hint="check the quotes") from error
    words = []
    options: dict[str, str] = {}
    for word in rest:
        if not _OPTION.match(word):
            words.append(word)
            continue
        option, value = word.split("=", 1)
        if option in options:
            raise BadScenario(f"{where}: `{text}`: {option} is given twice", hint="keep one")
        options[option] = value
    return Command(first, tuple(words), options, text, where)


class _Parser:
    """Walks the lines once; ``self.at`` is the next line to be looked at."""

    def __init__(self, text: str, name: str) -> None:
        self.lines = re.findall(r"[^\n]*\n|[^\n]+", text)
        self.name = name
        self.at = 0

    def script(self) -> Script:
        lead_from = 0
        part = self._part()
        blocks = []
        while self._skip_to_command():
            blocks.append(self._block(lead_from))
            lead_from = self.at
        if not blocks:
            raise BadScenario(f"{self.name}: there are no commands in it")
        return Script(part, tuple(blocks), self._text(lead_from, len(self.lines)))

    def _part(self) -> str | None:
        if not self._skip_to_command():
            return None
        command = self._command()
        if command.verb != "part":
            return None
        if len(command.words) != 1 or command.options:
            raise command.refused("expected `part NAME`")
        self.at += 1
        return command.words[0]

    def _block(self, lead_from: int) -> Block:
        commands = []
        while (line := self._line()) is not None and not _is_blank(line) and line != SEPARATOR:
            if not line.startswith("#"):
                commands.append(self._command())
            self.at += 1
        if not commands:
            raise BadScenario(f"{self._where()}: `{SEPARATOR}` without a command before it")
        lead_text = self._text(lead_from, self.at)
        if line != SEPARATOR:
            return Block(tuple(commands), None, lead_text, "")
        output_from = self.at
        expected = self._doubled_output() if self._at_double() else self._output()
        return Block(tuple(commands), expected, lead_text, self._text(output_from, self.at))

    def _output(self) -> tuple[str, ...]:
        self.at += 1
        output = []
        while (line := self._line()) is not None and not _is_blank(line):
            output.append(line.rstrip())
            self.at += 1
        return tuple(output)

    def _doubled_output(self) -> tuple[str, ...]:
        opened = self._where()
        self.at += 2
        output = []
        while not self._at_double():
            if (line := self._line()) is None:
                raise BadScenario(f"{opened}: this doubled `{SEPARATOR}` is never closed")
            output.append(line.rstrip())
            self.at += 1
        self.at += 2
        if (line := self._line()) is not None and not _is_blank(line):
            raise BadScenario(f"{self._where()}: expected a blank line after the output")
        return tuple(output)

    def _at_double(self) -> bool:
        return self._line() == SEPARATOR and self._line(ahead=1) == SEPARATOR

    def _skip_to_command(self) -> bool:
        while (line := self._line()) is not None and (_is_blank(line) or line.startswith("#")):
            self.at += 1
        return line is not None

    def _command(self) -> Command:
        return parse_command(self.lines[self.at], self._where())

    def _line(self, ahead: int = 0) -> str | None:
        index = self.at + ahead
        return self.lines[index].rstrip("\r\n") if index < len(self.lines) else None

    def _where(self) -> str:
        return f"{self.name}:{self.at + 1}"

    def _text(self, start: int, end: int) -> str:
        return "".join(self.lines[start:end])


def _is_blank(line: str) -> bool:
    return not line.strip()
