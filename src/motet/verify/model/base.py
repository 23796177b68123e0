"""The base of every model: its parameters, initial states, actions and properties.

Fairness says which actions cannot be put off for ever. *Weak*: an action that stays enabled is taken some
day. *Strong*: an action that is enabled again and again is taken some day. ``each=True`` asks it of every
instance of the action, with its arguments; without it, of the action as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar, overload

from motet.errors import BadInput
from motet.verify.model.action import Domain, Mark, camel, fail_unmarked
from motet.verify.model.record import Record


class Fairness(NamedTuple):
    """The promise that one action makes."""

    action: str
    strong: bool
    each: bool


def weak(*actions: str, each: bool = False) -> tuple[Fairness, ...]:
    """What stays possible happens: ``fairness = weak("execute_log", each=True)``."""
    return tuple(Fairness(name, strong=False, each=each) for name in actions)


def strong(*actions: str, each: bool = False) -> tuple[Fairness, ...]:
    """What is possible again and again happens."""
    return tuple(Fairness(name, strong=True, each=each) for name in actions)


# The constants of a model: whole numbers with bounds, set from the command line.


class Parameter:
    """One constant of a model. On an instance it reads as its value."""

    def __init__(self, default: int, least: int, most: int, what: str) -> None:
        self.default, self.least, self.most, self.what = default, least, most, what
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Parameter: ...
    @overload
    def __get__(self, instance: object, owner: type) -> int: ...
    def __get__(self, instance: object | None, owner: type) -> Parameter | int:
        if instance is None:
            return self
        settings: dict[str, int] = instance.settings  # type: ignore[attr-defined]
        return settings[self.name]

    def checked(self, model: str, value: object) -> int:
        """The value as a number within the bounds."""
        try:
            number = int(str(value))
        except ValueError:
            raise BadInput(
                f"{self.name} of {model} is a whole number, not {value!r}",
                hint=f"write --set {self.name}={self.default}",
            ) from None
        if not self.least <= number <= self.most:
            raise BadInput(
                f"{self.name}={number} is impossible for {model}",
                hint=f"{self.what}: choose from {self.least} to {self.most}",
            )
        return number


def parameter(default: int, *, least: int = 0, most: int = 1_000, what: str) -> Parameter:
    """Declare a constant: ``replicas = parameter(3, least=1, most=6, what="replicas of the shard")``."""
    return Parameter(default, least, most, what)


def parameters_of(model: type[Any]) -> dict[str, Parameter]:
    """Every parameter of a class, those of its bases first."""
    found: dict[str, Parameter] = {}
    for base in reversed(model.__mro__):
        found |= {name: item for name, item in vars(base).items() if isinstance(item, Parameter)}
    return found


S = TypeVar("S", bound=Record)


class Action(NamedTuple):
    """One action of a model, with the domains of its parameters in order."""

    name: str
    title: str
    function: Callable[..., Any]
    domains: tuple[Domain, ...]


class Property(NamedTuple):
    """One property of a model."""

    name: str
    title: str
    kind: str
    function: Callable[..., Any]


class Variant(NamedTuple):
    """A model with one thing wrong (or put right), and the property that shows it."""

    #: what is different, in a sentence
    what: str
    model: type[Model[Any]]
    #: the property that must be violated, ``None`` for a variant that must hold
    breaks: str | None
    #: a size at which that shows quickly
    settings: dict[str, int] = {}  # noqa: RUF012


class Model(Generic[S]):
    """A protocol as states and actions. Subclasses say what it is about in their docstring."""

    #: under which ``motet verify run`` finds it
    name: ClassVar[str] = ""
    state_type: ClassVar[type[Any]]
    fairness: ClassVar[tuple[Fairness, ...]] = ()
    #: whose values can be exchanged for one another; needs :meth:`renamed`
    symmetry: ClassVar[Domain | None] = None
    #: actions of a base class that this one does without
    without: ClassVar[tuple[str, ...]] = ()
    #: a state without any action is an error unless a model says that it may end there
    may_end: ClassVar[bool] = False
    #: its states are numbers in tables of its own, which another process does not have
    is_of_one_process: ClassVar[bool] = False
    #: steps to where its behaviours begin; what is found from there is reachable from the very beginning
    script: ClassVar[tuple[str, ...]] = ()
    #: variables that only check properties need; a running system does not show them
    auxiliary: ClassVar[tuple[str, ...]] = ()

    def __init__(self, **settings: object) -> None:
        known = self.parameters()
        unknown = [name for name in settings if name not in known]
        if unknown:
            raise BadInput(
                f"{self.name} has no parameter {unknown[0]!r}",
                hint="it has " + (", ".join(known) or "none"),
            )
        self.settings: dict[str, int] = {
            name: item.checked(self.name, settings.get(name, item.default))
            for name, item in known.items()
        }
        self.prepare()

    @classmethod
    def parameters(cls) -> dict[str, Parameter]:
        """The parameters by name."""
        return parameters_of(cls)

    def prepare(self) -> None:
        """Refuse parameters that do not go together, and make ready what the actions use."""

    def initial(self) -> Iterable[S]:
        """The states in which a behaviour may begin."""
        raise NotImplementedError

    def renamed(self, s: S, order: Sequence[int]) -> S:
        """The state with the values of the symmetric domain renamed: ``order[new]`` is the old one."""
        raise NotImplementedError

    def rank(self, s: S, value: int) -> Any:  # noqa: ARG002
        """Something to sort the symmetric values by, the same whatever their names are."""
        return 0

    @classmethod
    def actions(cls) -> tuple[Action, ...]:
        """Every action, in the order of its first definition."""
        for name in cls.without:
            if not hasattr(cls, name):
                fail_unmarked(cls.__name__, name)
        return tuple(
            Action(name, camel(name), getattr(cls, name), tuple(mark.domains.values()))
            for name, mark in _marked(cls).items()
            if mark.kind == "action" and name not in cls.without
        )

    @classmethod
    def properties(cls) -> tuple[Property, ...]:
        """Every invariant and temporal property."""
        return tuple(
            Property(name, camel(name), mark.kind, getattr(cls, name))
            for name, mark in _marked(cls).items()
            if mark.kind not in ("action", "bound") and name not in cls.without
        )

    @classmethod
    def bounds(cls) -> tuple[Callable[..., bool], ...]:
        """Every bound."""
        return tuple(getattr(cls, n) for n, mark in _marked(cls).items() if mark.kind == "bound")

    def kernels(self) -> Any:
        """The packed form of this model (:mod:`motet.verify.explore.kernels`), if it has one."""
        return None

    @classmethod
    def variants(cls) -> dict[str, Variant]:
        """Models beside this one that must fail, or must hold, by name."""
        return {}

    @classmethod
    def headline(cls) -> str:
        """The first sentence of the docstring."""
        return (cls.__doc__ or "").strip().partition("\n")[0]


def _marked(cls: type) -> dict[str, Mark]:
    """Marked methods, bases first; a method that overrides a marked one without a mark inherits it."""
    found: dict[str, Mark] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            mark = getattr(value, "_mark", None)
            if isinstance(mark, Mark):
                found[name] = mark
    return found


# Which properties of a model are asked for, by any spelling of their names.


def wanted_properties(
    model: Model[Any], names: Iterable[str] | None, *, liveness: bool = True
) -> tuple[Property, ...]:
    """All properties, or the named ones: ``NoStaleRead``, ``no-stale-read`` and ``no_stale_read`` are one."""
    every = model.properties()
    if names is not None:
        known = {_plain(item.name): item for item in every}
        chosen = []
        for name in names:
            if _plain(name) == "typeok":
                continue
            if _plain(name) not in known:
                raise BadInput(
                    f"{model.name} has no property {name!r}",
                    hint="it has " + ", ".join(item.title for item in every),
                )
            chosen.append(known[_plain(name)])
        every = tuple(chosen)
    return tuple(item for item in every if liveness or item.kind in ("invariant", "step"))


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()
