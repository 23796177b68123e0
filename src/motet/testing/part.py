"""A part: what gives a golden script its commands.

Whatever has a ``name`` and ``run(command)`` is a part. :class:`VerbPart` is the comfortable way to write
one: a method per command, whose signature is the command's grammar.

::

    class Counter(VerbPart):
        name = "counter"

        def __init__(self) -> None:
            self.value = 0

        @verb
        def add(self, amount: int, *, times: int = 1) -> list[str]:
            "Add so much, so often."
            self.value += amount * times
            return [f"value {self.value}"]

A script can now say ``add 3`` and ``add 3 times=2``. A ``_`` in a name is a ``-`` in the script, and one at
the end is left out. Words are parameters by position, ``name=value`` by name. Types are ``str``, ``int``,
``bool`` (``on`` or ``off``), a ``Literal`` of strings, any of these ``| None``, and what ``converters`` has.
What does not fit is a ``BadScenario`` that shows the usage.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Literal, Protocol, TypeVar, Union, get_args, get_origin

from motet.errors import BadInput, BadScenario
from motet.testing.script import Command


class ScenarioPart(Protocol):
    """What a script is run against; every file gets a fresh one."""

    @property
    def name(self) -> str:
        """As in the registry of parts and in a script's ``part`` line."""

    def run(self, command: Command) -> list[str]:
        """Carry one command out and say what happened, a line each; nothing to say is fine.

        ``BadScenario`` when the command makes no sense; any other exception fails the script.
        """


Verb = TypeVar("Verb", bound=Callable[..., list[str]])
Converter = Callable[[str], object]

_MARK = "_scenario_verb"


def verb(method: Verb) -> Verb:
    """Make a method of a ``VerbPart`` a command."""
    setattr(method, _MARK, True)
    return method


class VerbPart:
    """A part whose commands are its methods marked with ``verb``."""

    name: ClassVar[str]
    #: how words become values of further types: ``{Clock: Clock.parse}``
    converters: ClassVar[Mapping[type, Converter]] = {}

    def run(self, command: Command) -> list[str]:
        method = self._method(command)
        signature = inspect.signature(method, eval_str=True)
        options = {_parameter(signature, name): text for name, text in command.options.items()}
        try:
            bound = signature.bind(*command.words, **options)
        except TypeError as error:
            why = f"{error}; usage: {usage(command.verb, signature)}"
            raise command.refused(why) from None
        for name, given in bound.arguments.items():
            bound.arguments[name] = self._convert(command, signature.parameters[name], given)
        output = method(*bound.args, **bound.kwargs)
        assert isinstance(output, list), f"{self.name} {command.verb} must return a list of lines"
        return output

    @classmethod
    def manual(cls) -> list[str]:
        """One line per command: its usage and what it is for."""
        rows = [(usage(name, inspect.signature(f, eval_str=True)), f) for name, f in _verbs(cls)]
        width = max((len(text) for text, _ in rows), default=0)
        return [f"{text:{width}}  {_summary(f)}".rstrip() for text, f in rows]

    def _method(self, command: Command) -> Callable[..., list[str]]:
        known = dict(_verbs(type(self)))
        function = known.get(command.verb)
        if function is None:
            names = ", ".join(known)
            raise command.refused(f"part {self.name} has no such command; it has {names}")
        bound: Callable[..., list[str]] = function.__get__(self)
        return bound

    def _convert(self, command: Command, parameter: inspect.Parameter, given: object) -> object:
        if isinstance(given, tuple):  # *words
            return tuple(self._convert(command, parameter, word) for word in given)
        assert isinstance(given, str)
        try:
            return _convert(given, parameter.annotation, self.converters)
        except (ValueError, BadInput) as error:
            why = error.what if isinstance(error, BadInput) else str(error)
            raise command.refused(f"{parameter.name}: {why}") from error


def usage(name: str, signature: inspect.Signature) -> str:
    """A command's grammar in one line: ``tick [NODE] [n=INT]``."""
    shown = [name]
    for parameter in signature.parameters.values():
        if parameter.name == "self":
            continue
        option = _spelled(parameter.name)
        if parameter.kind is parameter.VAR_POSITIONAL:
            shown.append(f"[{option.upper()}…]")
            continue
        keyword_only = parameter.kind is parameter.KEYWORD_ONLY
        kind = _kind(parameter.annotation)
        choice = "|" in kind
        text = f"{option}={kind}" if keyword_only else kind if choice else option.upper()
        shown.append(text if parameter.default is parameter.empty else f"[{text}]")
    return " ".join(shown)


def _verbs(part: type[VerbPart]) -> Iterator[tuple[str, Any]]:
    seen = set()
    for owner in part.__mro__:
        for name, function in vars(owner).items():
            if name not in seen and getattr(function, _MARK, False):
                yield _spelled(name), function
            seen.add(name)


def _spelled(name: str) -> str:
    """How a script spells a Python name; ``from_`` is a way round Python's own words."""
    return name.rstrip("_").replace("_", "-")


def _parameter(signature: inspect.Signature, option: str) -> str:
    spelled = {_spelled(name): name for name in signature.parameters}
    return spelled.get(option, option)


def _summary(function: Callable[..., list[str]]) -> str:
    return (inspect.getdoc(function) or "").split("\n", 1)[0]


def _kind(annotation: Any) -> str:
    annotation = _without_none(annotation)
    if get_origin(annotation) is Literal:
        return "|".join(get_args(annotation))
    if annotation is bool:
        return "on|off"
    return str(getattr(annotation, "__name__", annotation)).upper()


def _convert(text: str, annotation: Any, converters: Mapping[type, Converter]) -> object:
    kind = _without_none(annotation)
    if get_origin(kind) is Literal:
        return _one_of(text, get_args(kind))
    if kind is bool:
        return _one_of(text, ("on", "off")) == "on"
    if kind in converters:
        return converters[kind](text)
    kind = getattr(kind, "__supertype__", kind)  # a NewType
    if kind is int:
        return int(text.replace("_", ""))
    if kind is not str:
        raise BadScenario(f"a part cannot take values of type {kind}", hint="give it a converter")
    return text


def _one_of(text: str, choices: tuple[str, ...]) -> str:
    if text not in choices:
        raise ValueError(f"{text!r} is none of {', '.join(choices)}")
    return text


def _without_none(annotation: Any) -> Any:
    if get_origin(annotation) in (Union, types.UnionType):
        rest = [kind for kind in get_args(annotation) if kind is not type(None)]
        return rest[0] if len(rest) == 1 else annotation
    return annotation
