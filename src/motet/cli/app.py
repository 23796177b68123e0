"""The root of the command line: which commands there are, and how an error reaches the user.

A command is imported when it is called: ``motet --help`` reads its lines from the table below, so a command
costs nothing until somebody wants it. A module has an ``app``, a ``typer.Typer``; with one command in it that
is the command itself, with several it is a group.

An error is one line, ``CODE what happened; what to do``, on stderr. The exit code is 1, and 2 for a
call that cannot be understood. ``MOTET_DEBUG=1`` adds the traceback. ^C ends in a line as well, and
soon: ``cli/interrupt.py``.
"""

from __future__ import annotations

import difflib
import importlib
import io
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple, NoReturn

import typer
from typer.core import TyperGroup

from motet.cli.interrupt import INTERRUPTED, Interrupts, interrupts
from motet.errors import MotetError, NodeError


class Entry(NamedTuple):
    """One line of ``motet --help``."""

    name: str
    #: with the name of its ``Typer`` after a colon, where that is not ``app``
    module: str
    help: str


COMMANDS: tuple[Entry, ...] = (
    Entry("demo", "motet.cli.demo", "Show what Motet does, in a few seconds."),
    Entry(
        "dev", "motet.cli.node:dev_app", "Run a whole cluster on this machine in the foreground."
    ),
    Entry("node", "motet.cli.node", "Run one node in the foreground, or empty one of its shards."),
    Entry("status", "motet.cli.node:status_app", "Show every node of a cluster in one table."),
    Entry("stream", "motet.cli.stream", "Create, list, change, append to and read streams."),
    Entry("shard", "motet.cli.cluster", "Show who holds the shards of a cluster, and change it."),
    Entry("feed", "motet.cli.feed", "Read, follow and mirror the changes in their causal order."),
    Entry("transaction", "motet.cli.feed:transaction_app", "Show what became of a transaction."),
    Entry("table", "motet.cli.table", "Create, list, fill and show tables."),
    Entry("sql", "motet.cli.table:sql_app", "Ask the tables in SQL."),
    Entry("pipeline", "motet.cli.pipeline", "Run pipelines on Spark, and check their tables."),
    Entry("keeper", "motet.cli.keeper", "Look at the keeper's tree, and change it."),
    Entry("clock", "motet.cli.cluster:clock_app", "Show the cluster clock, or hide it from users."),
    Entry("simulate", "motet.cli.simulate", "Put a part into a seeded storm of faults."),
    Entry("verify", "motet.cli.verify", "Explore the models of the protocols, state by state."),
    Entry("inspect", "motet.cli.node:inspect_app", "Describe a file that Motet wrote."),
    Entry("config", "motet.cli.node:config_app", "Show the settings and where they come from."),
)


class LazyGroup(TyperGroup):
    """A group whose commands are imported when they are called, not when they are listed."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return [entry.name for entry in COMMANDS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        for entry in COMMANDS:
            if entry.name == cmd_name:
                _insist_on_assertions()
                module, _, attribute = entry.module.partition(":")
                found = getattr(importlib.import_module(module), attribute or "app")
                command = typer.main.get_command(found)
                command.name = cmd_name
                return command
        close = difflib.get_close_matches(cmd_name, self.list_commands(ctx), n=1)
        if close:
            ctx.fail(f"No such command '{cmd_name}'. Did you mean '{close[0]}'?")
        return None

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(entry.name, entry.help) for entry in COMMANDS])


app = typer.Typer(
    name="motet",
    cls=LazyGroup,
    no_args_is_help=True,
    rich_markup_mode=None,  # the plain help page is there a quarter of a second earlier
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
    epilog="`motet COMMAND --help` has an example for each command.",
)


def _insist_on_assertions() -> None:
    if sys.flags.optimize:
        raise NodeError(
            "this Python runs with -O or PYTHONOPTIMIZE, which switches assertions off",
            hint="start it without: Motet relies on its assertions",
        )


def _print_version(wanted: bool) -> None:
    if wanted:
        from motet.version import __version__

        typer.echo(f"motet {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version."
        ),
    ] = False,
) -> None:
    """Motet: a change-data store whose changes are read back in causal order."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command line and exit with its code."""
    _print_whatever_there_is()
    warnings.showwarning = _show_warning
    with interrupts() as caught:
        code = _run(arguments, caught)
        if caught.is_seen or code == INTERRUPTED:
            caught.say_last("interrupted" if code == INTERRUPTED else None)
            if "pyspark" in sys.modules:
                caught.end(code)  # the long way, Spark would complain
    sys.exit(code)


def _run(arguments: Sequence[str] | None, caught: Interrupts) -> int:
    """The exit code of a command line; an error is a line by now."""
    try:
        typer.main.get_command(app).main(args=arguments, prog_name="motet")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception as error:
        if caught.is_seen:
            return INTERRUPTED  # it is what came of ^C
        if os.environ.get("MOTET_DEBUG"):
            raise
        typer.echo(error_line(error), err=True)
    return 1


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """A warning is a line for people, too."""
    typer.echo(f"warning: {message}", err=True)


def _print_whatever_there_is() -> None:
    """What the terminal's encoding lacks is printed as an escape, instead of ending the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def error_line(error: Exception) -> str:
    """What a user gets to see of an error."""
    if isinstance(error, MotetError):
        return str(error)
    unexpected = MotetError(
        f"an unexpected {type(error).__name__}: {error}",
        hint="this is a fault in Motet: set MOTET_DEBUG=1 for the traceback, and report it",
    )
    return str(unexpected)
