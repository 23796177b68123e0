"""Guards without exceptions: what makes the readable engine fast enough to be the only one that is needed.

Nine of ten action instances are not enabled, and an exception costs more than everything else such a
call does. So an action's ``require(guard)`` is turned into ``if not guard: return None`` before it is
explored, which means the same. An action whose source cannot be had, or that closes over variables
(``super()`` does), is left as it is: ``require`` raises, and the explorer understands both. So does a
``require`` in a helper.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
from collections.abc import Callable
from typing import Any

from motet.verify.model.action import require


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
