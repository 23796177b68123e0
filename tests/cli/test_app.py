"""The command line as a user meets it: help, errors, exit codes, and nothing imported too early."""

from __future__ import annotations

import subprocess
import sys
import types

import pytest

from motet import __version__
from motet.cli import app as root
from motet.cli import command_app
from motet.errors import BadConfig


def run(*arguments: str) -> int:
    """The exit code of a command line run in this process."""
    with pytest.raises(SystemExit) as exited:
        root.main(arguments)
    code = exited.value.code
    return code if isinstance(code, int) else 0


@pytest.fixture
def with_command(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A command ``planted`` in a module of its own; a test puts the function in."""
    module = types.ModuleType("planted_commands")
    vars(module)["app"] = command_app()
    monkeypatch.setitem(sys.modules, module.__name__, module)
    entry = root.Entry("planted", module.__name__, "A command of a test.")
    monkeypatch.setattr(root, "COMMANDS", (*root.COMMANDS, entry))
    monkeypatch.delenv("MOTET_DEBUG", raising=False)
    return module


def test_help_has_a_line_for_each_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    page = capsys.readouterr().out
    for entry in root.COMMANDS:
        assert f"  {entry.name} " in page
        assert entry.help in page


def test_every_command_can_be_loaded_and_has_an_example(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for path in command_paths():
        assert run(*path, "--help") == 0
        page = capsys.readouterr().out
        assert " ".join(["motet", *path]) in page.partition("Example: ")[2].replace("\n", " "), path


def command_paths() -> list[list[str]]:
    """Every command of every group."""
    import typer

    group = typer.main.get_command(root.app)
    context = typer.Context(group)
    paths: list[list[str]] = []
    for entry in root.COMMANDS:
        command = group.get_command(context, entry.name)  # type: ignore[attr-defined]
        subcommands = getattr(command, "commands", None)
        paths += [[entry.name, name] for name in subcommands] if subcommands else [[entry.name]]
    return paths


def test_help_imports_no_command_and_nothing_heavy() -> None:
    script = """
import sys
from motet.cli.app import main
try:
    main(["--help"])
except SystemExit:
    pass
heavy = ("rich", "starlette", "uvicorn", "prometheus_client", "asyncio", "motet.core", "motet.node")
no_commands = ("motet.cli.app", "motet.cli.interrupt")
print([name for name in sys.modules if name.startswith("motet.cli.") and name not in no_commands])
print([name for name in heavy if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-2:] == ["[]", "[]"]


def test_importing_motet_imports_nothing_heavy() -> None:
    script = "import sys, motet; print([m for m in ('typer', 'asyncio', 'starlette') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capsys.readouterr().out == f"motet {__version__}\n"


def test_python_dash_m_is_the_same_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "motet", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"motet {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["confg"], "No such command 'confg'. Did you mean 'config'?"),
        (["zzzzzz"], "No such command 'zzzzzz'."),
        (["config", "show", "--nonsense"], "No such option"),
        (["config", "show", "--output", "xml"], "xml"),
    ],
)
def test_a_call_that_cannot_be_understood_exits_with_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    assert run(*arguments) == 2
    assert complaint in capsys.readouterr().err


def test_an_error_is_one_line_and_exits_with_1(
    with_command: types.ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    @with_command.app.command()  # type: ignore[untyped-decorator]
    def planted() -> None:
        raise BadConfig("it is wrong", hint="make it right")

    assert run("planted") == 1
    captured = capsys.readouterr()
    assert captured.err == "BAD_CONFIG it is wrong; make it right\n"
    assert captured.out == ""


def test_a_fault_of_ours_is_one_line_too_and_says_how_to_see_more(
    with_command: types.ModuleType,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @with_command.app.command()  # type: ignore[untyped-decorator]
    def planted() -> None:
        raise ZeroDivisionError("planted")

    assert run("planted") == 1
    complaint = capsys.readouterr().err
    assert complaint.startswith("MOTET an unexpected ZeroDivisionError: planted; ")
    assert "MOTET_DEBUG=1" in complaint
    assert complaint.count("\n") == 1
    monkeypatch.setenv("MOTET_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        root.main(["planted"])
