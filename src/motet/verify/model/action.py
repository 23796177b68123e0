"""Actions, properties, and the domains that an action's parameters range over.

Guards raise no exceptions where the readable engine is to be fast enough to be the only one needed: nine of
ten action instances are not enabled, and an exception costs more than everything else such a call does. So an
action's ``require(guard)`` is turned into ``if not guard: return None`` before it is explored, which means
the same. An action whose source cannot be had, or that closes over variables (``super()`` does), is left as
it is: ``require`` raises, and the explorer understands both. So does a ``require`` in a helper.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, NoReturn, TypeVar, overload


def without_raising(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same action, answering ``None`` where it is not enabled."""
    if not isinstance(function, types.FunctionType) or function.__closure__:
        return function
    if function.__globals__.get("require") is not require:
        return function
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except OSError:
        return function
    tree = ast.parse(source)
    (definition,) = tree.body
    if not isinstance(definition, ast.FunctionDef):
        return function
    _strip(definition)
    definition.body = [_Guards().visit(statement) for statement in definition.body]
    ast.fix_missing_locations(ast.increment_lineno(tree, function.__code__.co_firstlineno - 1))
    found: dict[str, Any] = {}
    code = compile(tree, function.__code__.co_filename, "exec")
    exec(code, function.__globals__, found)  # noqa: S102 - our own source, rewritten
    rewritten: Callable[..., Any] = found[definition.name]
    return rewritten


def _strip(definition: ast.FunctionDef) -> None:
    """Decorators have done their work, and annotations may name what is only there for the type checker."""
    definition.decorator_list = []
    definition.returns = None
    for argument in (*definition.args.args, *definition.args.kwonlyargs):
        argument.annotation = None


class _Guards(ast.NodeTransformer):
    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        call = node.value
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Name)
            and call.func.id == "require"
            and len(call.args) == 1
        ):
            refused = ast.UnaryOp(ast.Not(), call.args[0])
            return ast.copy_location(ast.If(refused, [ast.Return(None)], []), node)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        return node  # a function of its own answers to somebody else


F = TypeVar("F", bound=Callable[..., Any])


class NotEnabled(Exception):
    """An action cannot be taken in this state. Raised by :func:`require`, caught by the explorer."""


def require(condition: object) -> None:
    """An enabling condition: if it is false the action is not possible here."""
    if not condition:
        raise NotEnabled


class Domain:
    """The values a parameter ranges over: a fixed number of them, or chosen from each state."""

    def __init__(
        self, count: str | None, choose: Callable[[Any, Any], Iterable[Any]] | None, mark: str
    ) -> None:
        self.count, self.choose, self.mark = count, choose, mark

    def fixed(self, model: object) -> tuple[int, ...] | None:
        """The values that are the same in every state, if they are."""
        return None if self.count is None else tuple(range(getattr(model, self.count)))

    def values(self, model: object, state: object) -> Iterable[Any]:
        """The values in this state."""
        if self.choose is not None:
            return self.choose(model, state)
        return () if self.count is None else range(getattr(model, self.count))

    def show(self, value: object) -> str:
        """A value as the traces write it: ``r0`` for the first replica."""
        from motet.verify.model.record import show

        return f"{self.mark}{value}" if isinstance(value, int) and self.mark else show(value)


def numbered(count: str, mark: str) -> Domain:
    """``Replicas = numbered("replicas", "r")``: the numbers 0 to replicas - 1, shown as r0, r1 …"""
    return Domain(count, None, mark)


def chosen(choose: Callable[[Any, Any], Iterable[Any]], mark: str = "") -> Domain:
    """Values that depend on the state: ``chosen(lambda model, s: s.messages)``, in a fixed order."""
    return Domain(None, choose, mark)


class Mark(NamedTuple):
    """What a decorator leaves on a method."""

    kind: str
    domains: dict[str, Domain]


@overload
def action(function: F, /) -> F: ...
@overload
def action(**domains: Domain) -> Callable[[F], F]: ...
def action(function: F | None = None, /, **domains: Domain) -> F | Callable[[F], F]:
    """An action. Its method takes the state and one argument for each named domain."""

    def mark(function: F) -> F:
        function._mark = Mark("action", domains)  # type: ignore[attr-defined]
        return function

    return mark if function is None else mark(function)


def _marker(kind: str) -> Callable[[F], F]:
    def mark(function: F) -> F:
        function._mark = Mark(kind, {})  # type: ignore[attr-defined]
        return function

    return mark


invariant = _marker("invariant")
"""A method ``(s) -> bool`` that is true in every state that can be reached."""

bound = _marker("bound")
"""A method ``(s) -> bool``; states outside are not gone into. A bounded result says nothing beyond it."""

step = _marker("step")
"""A method ``(s, t) -> bool`` that is true of every step from a state s to a state t (``[][P]_vars``)."""

eventually = _marker("eventually")
"""A method ``(s) -> bool`` that becomes true on every fair behaviour."""

always_eventually = _marker("always_eventually")
"""A method ``(s) -> bool`` that becomes true again and again on every fair behaviour."""

leads_to = _marker("leads_to")
"""A method ``(s) -> (bool, bool)``: whenever the first is true, the second is true then or later."""


def camel(name: str) -> str:
    """``execute_log`` as the texts write it: ``ExecuteLog``."""
    return "".join(word[:1].upper() + word[1:] for word in name.split("_"))


def fail_unmarked(model: str, name: str) -> NoReturn:
    """A model that names an action it does not have is a mistake of its author."""
    raise TypeError(f"{model} has no action {name!r}")
