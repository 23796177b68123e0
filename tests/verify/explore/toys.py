"""Models so small that their answers are known by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from motet.verify.model import (
    Model,
    Record,
    action,
    always_eventually,
    bound,
    chosen,
    eventually,
    invariant,
    leads_to,
    numbered,
    parameter,
    require,
    step,
    strong,
    weak,
)


class Cups(Record, frozen=True):
    """How much is in each cup."""

    level: tuple[int, ...]


class Pouring(Model[Cups]):
    """Cups of 1, 2, 3 … units that are filled, emptied and poured into one another."""

    name = "pouring"
    state_type = Cups
    cups = parameter(2, least=1, most=4, what="cups")
    Cup = numbered("cups", "c")

    def initial(self) -> Iterator[Cups]:
        yield Cups((0,) * self.cups)

    @action(c=Cup)
    def fill(self, s: Cups, c: int) -> Cups:
        require(s.level[c] < c + 2)
        return s.but(level=(*s.level[:c], c + 2, *s.level[c + 1 :]))

    @action(c=Cup)
    def empty(self, s: Cups, c: int) -> Cups:
        require(s.level[c])
        return s.but(level=(*s.level[:c], 0, *s.level[c + 1 :]))

    @action(pair=chosen(lambda m, s: [(a, b) for a in m.Cup.fixed(m) for b in m.Cup.fixed(m)]))
    def pour(self, s: Cups, pair: tuple[int, int]) -> Cups:
        a, b = pair
        amount = min(s.level[a], b + 2 - s.level[b])
        require(a != b and amount)
        level = list(s.level)
        level[a] -= amount
        level[b] += amount
        return s.but(level=tuple(level))

    @invariant
    def never_one(self, s: Cups) -> bool:
        return 1 not in s.level


class Tokens(Record, frozen=True):
    """Which of equal processes have had their turn."""

    done: tuple[bool, ...]


class Turns(Model[Tokens]):
    """Equal processes take a turn each, and then it is over."""

    name = "turns"
    state_type = Tokens
    processes = parameter(3, least=1, most=6, what="processes")
    Process = numbered("processes", "p")
    symmetry = Process
    may_end = True

    def initial(self) -> Iterator[Tokens]:
        yield Tokens((False,) * self.processes)

    @action(p=Process)
    def turn(self, s: Tokens, p: int) -> Tokens:
        require(not s.done[p])
        return s.but(done=(*s.done[:p], True, *s.done[p + 1 :]))

    @eventually
    def all_done(self, s: Tokens) -> bool:
        return all(s.done)

    def renamed(self, s: Tokens, order: Sequence[int]) -> Tokens:
        return s.but(done=tuple(s.done[old] for old in order))


class FairTurns(Turns):
    """Nobody waits for ever."""

    fairness = weak("turn", each=True)


class TurnsAsAWhole(Turns):
    """Somebody goes on as long as somebody can: enough, since turns run out."""

    fairness = weak("turn")


class Light(Record, frozen=True):
    """A lamp, and whether its button works."""

    on: bool = False
    ready: bool = False


class Lamp(Model[Light]):
    """A lamp whose button works every now and then."""

    name = "lamp"
    state_type = Light

    def initial(self) -> Iterator[Light]:
        yield Light()

    @action
    def wiggle(self, s: Light) -> Light:
        return s.but(ready=not s.ready)

    @action
    def press(self, s: Light) -> Light:
        require(s.ready)
        return s.but(on=True)

    @leads_to
    def is_lit_some_day(self, s: Light) -> tuple[bool, bool]:
        return not s.on, s.on


class WeakLamp(Lamp):
    """The button never works for good, so weak fairness promises nothing."""

    fairness = weak("press", "wiggle")


class StrongLamp(Lamp):
    """It works again and again, so strong fairness does."""

    fairness = (*weak("wiggle"), *strong("press"))


class Blinking(StrongLamp):
    """A lamp that goes out again has to be lit again."""

    @action
    def out(self, s: Light) -> Light:
        require(s.on)
        return s.but(on=False)

    @always_eventually
    def lit_again(self, s: Light) -> bool:
        return s.on


class Counter(Model[Light]):
    """Never ends unless it is bounded, and says something wrong about its type."""

    name = "counter"
    state_type = Light
    start = parameter(0, least=0, most=9, what="where it starts")

    def initial(self) -> Iterator[Light]:
        yield Light()

    @action
    def spoil(self, s: Light) -> Light:
        return s.but(on="yes")


class Number(Record, frozen=True):
    n: int = 0


class Endless(Model[Number]):
    """Counts for ever."""

    name = "endless"
    state_type = Number

    def initial(self) -> Iterator[Number]:
        yield Number()

    @action
    def count(self, s: Number) -> Number:
        return s.but(n=s.n + 1)


class Bounded(Endless):
    """Counts as far as anybody looks."""

    may_end = True

    @bound
    def small(self, s: Number) -> bool:
        return s.n < 5


class Wide(Model[Cups]):
    """Three counters that rise one after the other, and some day are all at the top."""

    name = "wide"
    state_type = Cups
    may_end = True
    counters = parameter(3, least=1, most=4, what="counters")
    top = parameter(11, least=1, most=50, what="where a counter ends")
    Counter = numbered("counters", "c")
    fairness = weak("rise", each=True)

    def initial(self) -> Iterator[Cups]:
        yield Cups((0,) * self.counters)

    @action(c=Counter)
    def rise(self, s: Cups, c: int) -> Cups:
        require(s.level[c] < self.top)
        return s.but(level=(*s.level[:c], s.level[c] + 1, *s.level[c + 1 :]))

    @step
    def never_falls(self, s: Cups, t: Cups) -> bool:
        return sum(s.level) < sum(t.level)

    @eventually
    def all_at_the_top(self, s: Cups) -> bool:
        return sum(s.level) == self.counters * self.top


class WideAndWrong(Wide):
    """A step that is not allowed, far from the beginning."""

    @step
    def never_far(self, s: Cups, t: Cups) -> bool:
        return t.level != (7, 5, 5) or s.level != (7, 4, 5)
