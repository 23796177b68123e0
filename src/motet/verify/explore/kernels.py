"""Kernels: the actions of a model over whole arrays of packed states, and why they can be believed.

A model may offer, beside its readable actions, a packed form of its states (a few 64-bit words each) and the
same actions over columns of such words. That is fast, and it is a second text of the same protocol, so
nobody has to trust it: before every run the engine explores small instances with the readable actions and
compares, state by state, what both say: packing and unpacking, the set of successors with how often each
comes, every invariant. A kernel that disagrees is refused with the state and the action.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar

from motet.errors import KernelDisagrees, MissingLibrary
from motet.verify.explore.codec import Codec
from motet.verify.explore.instances import Instances, Label
from motet.verify.model import Model, Record
from motet.verify.model.record import show

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column: TypeAlias = NDArray[np.uint64]
    Rows: TypeAlias = NDArray[np.intp]
    Flags: TypeAlias = NDArray[np.bool_]

S = TypeVar("S", bound=Record)

Packed: TypeAlias = tuple[int, ...]
"""One packed state: a number for each column."""


class Kernels(Generic[S]):
    """The packed form of a model. Subclasses are made for one model of one size."""

    #: 64-bit words of a state
    columns: ClassVar[int]
    #: sizes at which the engine compares kernels and readable actions
    acceptance: ClassVar[Sequence[Mapping[str, int]]]

    def __init__(self, model: Model[S]) -> None:
        self.model = model

    @classmethod
    def refuses(cls, model: Model[Any]) -> str | None:  # noqa: ARG003
        """Why this size does not fit into the words, if it does not."""
        return None

    def pack(self, state: S) -> Packed:
        """A state as numbers."""
        raise NotImplementedError

    def unpack(self, packed: Packed) -> S:
        """And back."""
        raise NotImplementedError

    def steps(self) -> Iterator[tuple[str, Callable[[list[Column]], tuple[Rows, list[Column]]]]]:
        """For each action instance: its action's title, and a function from columns to the rows where it
        is possible and the columns after it."""
        raise NotImplementedError

    def invariants(self) -> Mapping[str, Callable[[list[Column]], Flags]]:
        """By title: where an invariant holds."""
        raise NotImplementedError

    def canonical(self, columns: list[Column]) -> list[Column]:
        """The columns with symmetric states made equal."""
        raise NotImplementedError


def numpy_or_refuse() -> Any:
    """NumPy, which kernels need and nothing else does."""
    try:
        import numpy as np
    except ImportError:
        raise MissingLibrary(
            "the vectorised engine needs numpy, which is not installed",
            hint="pip install numpy, or explore with --engine readable",
        ) from None
    return np


def accept(kernels: type[Kernels[Any]], model: Model[Any]) -> int:
    """Compare kernels with the readable actions on small instances; answers how many states agreed."""
    return sum(_accept_at(kernels, type(model)(**size)) for size in kernels.acceptance)


def _accept_at(kernels: type[Kernels[S]], model: Model[S]) -> int:
    np = numpy_or_refuse()
    packed_model, instances = kernels(model), Instances(model)
    states, successors = _all_states(model, instances)
    rows = [packed_model.pack(state) for state in states]
    for state, row in zip(states, rows, strict=True):
        if packed_model.unpack(row) != state:
            raise _disagrees(model, "packing", state)
    columns = [np.array(column, dtype=np.uint64) for column in zip(*rows, strict=True)]
    found: list[Counter[tuple[str, Packed]]] = [Counter() for _ in states]
    for title, step in packed_model.steps():
        where, after = step(columns)
        packed_after = zip(*(column.tolist() for column in after), strict=True)
        for index, packed in zip(where.tolist(), packed_after, strict=True):
            found[index][title, packed] += 1
    for state, ours, steps in zip(states, found, successors, strict=True):
        theirs = Counter(
            (instances.actions[label[0]].title, rows[number]) for label, number in steps
        )
        if ours != theirs:
            titles = {title for title, _ in (ours - theirs) + (theirs - ours)}
            raise _disagrees(model, ", ".join(sorted(titles)), state)
    for title, holds in packed_model.invariants().items():
        check = next(getattr(model, p.name) for p in model.properties() if p.title == title)
        for state, said in zip(states, holds(columns).tolist(), strict=True):
            if said != check(state):
                raise _disagrees(model, title, state)
    return len(states)


def _all_states(
    model: Model[S], instances: Instances[S]
) -> tuple[list[S], list[list[tuple[Label, int]]]]:
    """Every state, and for each its steps with the numbers of the states they lead to."""
    encode = Codec[S](model.state_type).encode
    states = list(model.initial())
    numbers = {encode(state): number for number, state in enumerate(states)}
    successors = []
    for state in states:
        steps = []
        for label, after in instances.successors(state):
            number = numbers.setdefault(encode(after), len(states))
            if number == len(states):
                states.append(after)
            steps.append((label, number))
        successors.append(steps)
    return states, successors


def _disagrees(model: Model[Any], what: str, state: Record) -> KernelDisagrees:
    size = " ".join(f"{name}={value}" for name, value in model.settings.items())
    return KernelDisagrees(
        f"the kernel of {model.name} and its readable text disagree about {what} at {size}, "
        f"in the state {show(state)}"
    )
