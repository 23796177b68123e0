"""Bounds of what messages say, by the types of their fields: a rule for ``Epoch`` holds wherever there is
one.

A package names its rules once; which fields of a message they concern is read off the message's types. So a
field that is added to a message is bounded like all others of its type, without anybody thinking of it.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

Rule = Callable[[Any, int], bool]
"""Whether a value is within its bound; the second is the highest epoch, or what else the caller measures
by."""

FieldRules = tuple[tuple[str, Rule], ...]


def rules_of(kind: type[msgspec.Struct], rules: Mapping[object, Rule]) -> FieldRules:
    """The fields of a message, or of what is in one, for which there are rules."""
    hints = typing.get_type_hints(kind)
    found = [(name, _rule(hints[name], rules)) for name in kind.__struct_fields__]
    return tuple((name, rule) for name, rule in found if rule is not None)


def first_problem(message: msgspec.Struct, fields: FieldRules, highest: int) -> str | None:
    """The first field that is beyond its bound."""
    for name, rule in fields:
        if not rule(getattr(message, name), highest):
            return name
    return None


def _rule(hint: Any, rules: Mapping[object, Rule]) -> Rule | None:
    """The rule for a type: its own, or that of what it is made of."""
    if isinstance(hint, typing.Hashable) and hint in rules:
        return rules[hint]
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _of_union([each for each in inner if each is not type(None)], rules)
    if origin is tuple and len(inner) == 2 and inner[1] is ...:
        return _of_each(_rule(inner[0], rules))
    if origin is tuple:
        return _of_places([_rule(each, rules) for each in inner])
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return _of_struct(rules_of(hint, rules))
    return None


def _of_union(kinds: list[Any], rules: Mapping[object, Rule]) -> Rule | None:
    known = {kind: rule for kind in kinds if (rule := _rule(kind, rules)) is not None}
    if not known:
        return None
    if len(kinds) == 1:
        (rule,) = known.values()
        return lambda value, highest: value is None or rule(value, highest)

    def check(value: Any, highest: int) -> bool:
        rule = known.get(type(value))
        return rule is None or rule(value, highest)

    return check


def _of_each(rule: Rule | None) -> Rule | None:
    if rule is None:
        return None
    return lambda value, highest: all(rule(each, highest) for each in value)


def _of_places(rules: list[Rule | None]) -> Rule | None:
    known = [(place, rule) for place, rule in enumerate(rules) if rule is not None]
    if not known:
        return None
    return lambda value, highest: all(rule(value[place], highest) for place, rule in known)


def _of_struct(fields: FieldRules) -> Rule | None:
    if not fields:
        return None
    return lambda value, highest: all(rule(getattr(value, name), highest) for name, rule in fields)
