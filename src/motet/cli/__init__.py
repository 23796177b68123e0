"""The command ``motet``. Each group of commands is one module with an ``app``, named in ``cli/app.py``."""

from __future__ import annotations

import typer


def command_app() -> typer.Typer:
    """The ``app`` of a module of commands: plain help pages, completion left to the root."""
    return typer.Typer(no_args_is_help=False, rich_markup_mode=None, add_completion=False)
