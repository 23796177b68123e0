"""Makes the client without an event loop from the one for asyncio: `python -m tools.sync_face`.

The two faces promise the same, so one is written and the other is made of it. Of each async class:

- a coroutine function becomes a method with the same signature and docstring that waits for it in the portal;
- a plain method is called as it is, in the caller's thread;
- an async generator becomes an iterator over ``follow``, its sibling with the same arguments, which returns
  an object with the coroutine function ``next_items``: a list, empty at the end;
- a property, or a public name that is annotated in the body of the class, becomes a property; a ``#:``
  comment above such a name is its docstring;
- ``async with`` becomes ``with``: a block is entered in the caller's thread and left through the portal;
- whatever is an async object of ours in a result or in a signature is its sync twin there.

What cannot be made by these rules is written below by hand: functions of the user's run in the caller's
thread, so their loops are here, over an object of the async face that decides. Files are read as text and
nothing is imported, so this works on a tree that does not.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from textwrap import dedent, indent

ROOT = Path(__file__).parents[1]
COMMAND = "python -m tools.sync_face"

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Twin:
    """One async class and the sync class that is made of it."""

    name: str
    module: str
    source: str
    #: it has the portal, and closes it
    is_owner: bool = False
    #: what users of the sync face do without, by name
    left_out: str = ""
    #: a coroutine function without arguments that is a property here
    property: str = ""
    #: bodies of methods that the rules do not make
    bodies: dict[str, str] = field(default_factory=dict)
    #: methods that only the sync class has
    more: str = ""


@dataclass(frozen=True)
class Target:
    """One generated module."""

    path: str
    docstring: str
    twins: tuple[Twin, ...]
    #: written by hand, with an import that the async classes do not have
    functions: str
    imports: str


DATABASE = Target(
    path="src/motet/client/sync.py",
    docstring="""\
        The database without an event loop: the same calls, each waiting for its coroutine in the portal.

        Nothing is decided here. A database and its streams may be used from many threads at once; a
        transaction belongs to one.
        """,
    twins=(
        Twin(
            "Database",
            "motet.client.database",
            "AsyncDatabase",
            is_owner=True,
            left_out="attempts feed_begins follow resume_after incomplete_transactions"
            " next_transaction_id nodes pause",
            property="endpoint",
            bodies={
                "transact": """
                    tries = self._inner.attempts(attempts)
                    while True:
                        try:
                            with Transaction(self._portal, tries.transaction(), self) as txn:
                                return run(txn)
                        except Conflict as conflict:
                            self._portal.call(self._inner.pause, tries.pause_seconds(conflict))
                    """
            },
        ),
        Twin("Stream", "motet.client.stream", "AsyncStream", left_out="follow is_closing pause"),
        Twin(
            "Transaction",
            "motet.client.transaction",
            "AsyncTransaction",
            left_out="abort begin commit is_new look_for",
            bodies={
                # Whoever can wait is told at once what is wrong with a row.
                "change": """
                    if self._inner.is_new(stream):
                        self._portal.call(self._inner.look_for, stream)
                    self._inner.change(stream, key, op, row, before)
                    """
            },
        ),
        Twin(
            "Table",
            "motet.client.table",
            "AsyncTable",
            more='''
                def __arrow_c_stream__(self, requested_schema: object = None) -> object:
                    """Its rows for any library that speaks Arrow."""
                    return self.select().__arrow_c_stream__(requested_schema)
                ''',
        ),
    ),
    functions='''
        def connect(endpoint: str | None = None, after: str | None = None) -> Database:
            """The database at an endpoint: the first of a comma separated list that answers.

            Without one, at ``$MOTET_ENDPOINT``. With a bookmark, whatever its client has seen or done is seen
            here too.
            """
            return Database.made(endpoint or "a connection", connecting.connect, endpoint, after)
        ''',
    imports="from motet.client import connect as connecting",
)

KEEPER = Target(
    path="src/motet/client/keeper/sync.py",
    docstring="""\
        The keeper's client without an event loop: the same calls, each waited for in the portal.

        Nothing is decided here. It may be used from many threads at once.

        A watcher is called in the thread of the portal, and must not call the keeper from there: it would
        wait for itself. A :class:`motet.client.keeper.watches.ThreadWatch` lets any other thread wait for it.
        """,
    twins=(
        Twin("Keeper", "motet.client.keeper.client", "KeeperClient", True, left_out="ask_multi"),
    ),
    functions='''
        def connect(endpoints: str, **options: Any) -> Keeper:
            """A session at ``host:port,host:port``; the options are those of :class:`KeeperClient`."""

            async def begun() -> KeeperClient:
                return await KeeperClient(endpoints, **options).__aenter__()

            return Keeper.made(f"the keeper at {endpoints}", begun)
        ''',
    imports="from typing import Any",
)

TARGETS = (DATABASE, KEEPER)


# Reading


class Source:
    """A module of ours, as text."""

    def __init__(self, module: str) -> None:
        text = (ROOT / "src" / module.replace(".", "/")).with_suffix(".py").read_text()
        self.lines = text.splitlines()
        self.tree = ast.parse(text)
        #: where each name of its top level comes from
        self.homes: dict[str, str] = {}
        for node in self.tree.body:
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                self.homes.update({each.asname or each.name: node.module for each in node.names})
            elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                self.homes[node.name] = module
            elif isinstance(node, ast.Assign):
                named = (each.id for each in node.targets if isinstance(each, ast.Name))
                self.homes.update(dict.fromkeys(named, module))

    def class_named(self, name: str) -> ast.ClassDef:
        return next(n for n in self.tree.body if isinstance(n, ast.ClassDef) and n.name == name)

    def comment_above(self, line: int) -> str:
        """The ``#:`` comment above a line, from one."""
        above = self.lines[line - 2].strip()
        return above.removeprefix("#:").strip() if above.startswith("#:") else ""


@cache
def source_of(module: str) -> Source:
    return Source(module)


def lineage(module: str, name: str) -> Iterator[tuple[Source, ast.ClassDef]]:
    """A class and those that it is made of, as far as they are ours."""
    source = source_of(module)
    found = source.class_named(name)
    yield source, found
    for base in found.bases:
        home = source.homes.get(base.id, "") if isinstance(base, ast.Name) else ""
        if isinstance(base, ast.Name) and home.startswith("motet.client"):
            yield from lineage(home, base.id)


# Writing


class ToSync(ast.NodeTransformer):
    """Annotations of the async face as the sync one has them."""

    def __init__(self, names: dict[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Name(self._names.get(node.id, node.id))

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        inner: ast.expr = self.visit(node.slice)
        match ast.unparse(node.value):
            case "Awaitable":
                return inner
            case "AsyncIterator":
                return ast.Subscript(ast.Name("Iterator"), inner)
        outer: ast.expr = self.visit(node.value)
        return ast.Subscript(outer, inner)


class Writer:
    """Writes the text of one module."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._to_sync = ToSync({twin.source: twin.name for twin in target.twins})
        self._twins = {twin.name for twin in target.twins}
        self._homes: dict[str, str] = {"Iterator": "collections.abc"}

    def module(self) -> str:
        classes = "\n".join(self._class(twin) for twin in self._target.twins)
        body = f"{classes}\n\n{dedent(self._target.functions)}"
        used = {n.id for n in ast.walk(ast.parse(body)) if isinstance(n, ast.Name)}
        public = [*sorted(self._twins), "connect"]
        return "\n".join(
            [
                f"# Generated by `{COMMAND}` from the async classes: change those, and run it again.",
                f'"""{dedent(self._target.docstring)}"""',
                "from __future__ import annotations",
                *self._imports(used),
                f"__all__ = {public}",
                body,
            ]
        )

    def _imports(self, used: set[str]) -> Iterator[str]:
        yield self._target.imports
        for name in sorted(used - self._twins):
            if name in self._homes:
                yield f"from {self._homes[name]} import {name}"

    def _class(self, twin: Twin) -> str:
        base = "OwningFace" if twin.is_owner else "Face"
        self._homes |= {base: "motet.client.portal", twin.source: twin.module}
        family = list(lineage(twin.module, twin.source))
        says = _prose(ast.get_docstring(family[0][1]) or "")
        if twin.is_owner:
            says = says.partition("\n")[0] + " It ends with its process at the latest."
        members: dict[str, str] = {}
        for source, kind in family:
            for node in kind.body:
                for name, text in self._member(twin, source, node):
                    members.setdefault(name, text)
            self._homes |= {n: h for n, h in source.homes.items() if n not in self._homes}
        parts = [_docstring(says), *members.values(), dedent(twin.more)]
        body = indent("\n".join(parts), "    ")
        return f"class {twin.name}({base}[{twin.source}]):\n{body}"

    def _member(self, twin: Twin, source: Source, node: ast.stmt) -> Iterator[tuple[str, str]]:
        """The name and the text of what becomes of a statement in the body of a class, if anything does."""
        left_out = twin.left_out.split()
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
            if not name.startswith("_") and name not in left_out:
                says = source.comment_above(node.lineno)
                yield name, self._property(name, node.annotation, _sentence(says))
        elif isinstance(node, Function):
            if node.name == "__aenter__" and not twin.is_owner:
                yield "__enter__", _enter(node)
            elif node.name == "__aexit__" and not twin.is_owner:
                yield "__exit__", self._exit(node)
            elif not node.name.startswith("_") and node.name not in left_out:
                yield node.name, self._method(twin, node)

    def _method(self, twin: Twin, node: Function) -> str:
        assert node.returns is not None, f"{twin.source}.{node.name} says what it returns"
        says = _prose(ast.get_docstring(node) or "")
        if "property" in map(ast.unparse, node.decorator_list):
            return self._property(node.name, node.returns, says)
        if node.name == twin.property:
            call = f"self._portal.call(self._inner.{node.name})"
            return self._property(node.name, node.returns, says, call)
        if node.name in twin.bodies:
            body = dedent(twin.bodies[node.name]).strip()
        elif node.name == "close" and twin.is_owner:
            body = "self._end()"
        else:
            body = self._call(node)
        arguments = ast.unparse(self._to_sync.visit(node.args))
        head = f"def {node.name}({arguments}) -> {self._type(node.returns)}:"
        return f"{head}\n{indent(_docstring(says) + body, '    ')}\n"

    def _call(self, node: Function) -> str:
        """The call that a method of the sync face makes."""
        assert node.returns is not None
        function, passed = f"self._inner.{node.name}", _passed(node.args)
        returns = self._type(node.returns)
        if returns.startswith("Iterator["):
            # Not a generator itself: bad input is told now, not when the first item is wanted.
            return f"return self._each(self._inner.follow({', '.join(passed)}).next_items)"
        if isinstance(node, ast.AsyncFunctionDef):
            call = f"self._portal.call({', '.join([function, *passed])})"
        else:
            call = f"{function}({', '.join(passed)})"
        if returns in self._twins:
            return f"return {returns}(self._portal, {call}, self)"
        return call if returns == "None" else f"return {call}"

    def _property(self, name: str, annotation: ast.expr, says: str, call: str | None = None) -> str:
        body = indent(f"{_docstring(says)}return {call or f'self._inner.{name}'}", "    ")
        return f"@property\ndef {name}(self) -> {self._type(annotation)}:\n{body}\n"

    def _exit(self, node: Function) -> str:
        """A block is left."""
        head = f"def __exit__({ast.unparse(node.args)}) -> None:"
        passed = ", ".join(_passed(node.args))
        return f"{head}\n    self._portal.call(self._inner.__aexit__, {passed})\n"

    def _type(self, annotation: ast.expr) -> str:
        return ast.unparse(self._to_sync.visit(annotation))


def _enter(node: Function) -> str:
    """A block is entered: what is awaited for nothing is called as it is."""
    assert not any(isinstance(each, ast.Await) for each in ast.walk(node)), "it would have to wait"
    body = "\n".join(ast.unparse(each) for each in node.body).replace("self.", "self._inner.")
    return f"def __enter__(self) -> Self:\n{indent(body, '    ')}\n"


def _passed(arguments: ast.arguments) -> list[str]:
    """The arguments of a method, as they are handed on."""
    passed = [each.arg for each in (*arguments.posonlyargs, *arguments.args)][1:]
    if arguments.vararg is not None:
        passed.append(f"*{arguments.vararg.arg}")
    passed += [f"{each.arg}={each.arg}" for each in arguments.kwonlyargs]
    return passed if arguments.kwarg is None else [*passed, f"**{arguments.kwarg.arg}"]


def _prose(text: str) -> str:
    """A docstring of the async face, as the sync one says it."""
    return text.replace("async with", "with").replace("motet.aio.", "motet.")


def _sentence(text: str) -> str:
    """A comment as a docstring."""
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _docstring(text: str) -> str:
    if not text:
        return ""
    return f'"""{text}\n"""\n' if "\n" in text else f'"""{text}"""\n'


def generated(target: Target) -> str:
    """The text of a generated module, as the formatter and the sorter of imports want it."""
    text = Writer(target).module()
    for command in ("check --select I,F401 --fix-only --quiet", "format --quiet"):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command.split(), "--stdin-filename", target.path, "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        )
        text = done.stdout
    return text


def main() -> None:
    for target in TARGETS:
        (ROOT / target.path).write_text(generated(target))


if __name__ == "__main__":
    main()
