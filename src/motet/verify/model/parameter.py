"""The constants of a model: whole numbers with bounds, set from the command line."""

from __future__ import annotations

from typing import Any, overload

from motet.errors import BadInput


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
