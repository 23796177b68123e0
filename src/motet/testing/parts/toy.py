"""Golden scripts about the toy notebook: the smallest example of a part."""

from __future__ import annotations

from motet.core.toy import Notebook, Recall, Remember
from motet.testing.bench_part import BenchPart
from motet.testing.part import verb

NODE = "n1"
CLIENT = "client"


class ToyPart(BenchPart):
    """One notebook, ``n1``, and one client."""

    name = "toy"

    def __init__(self) -> None:
        super().__init__()
        self.bench.add(NODE, Notebook)
        self._requests = 0

    @verb
    def remember(self, *values: str) -> list[str]:
        """Ask the notebook to keep values, one request each."""
        lines: list[str] = []
        for value in values:
            self._requests += 1
            lines += self.bench.receive(NODE, CLIENT, Remember(self._requests, value))
        return lines

    @verb
    def recall(self) -> list[str]:
        """Ask the notebook for everything it has kept."""
        self._requests += 1
        return self.bench.receive(NODE, CLIENT, Recall(self._requests))
