"""Histories of a simulated database: its feed, the order of causes, and balances that readers arrive at."""

from __future__ import annotations

from motet.core.machine import Message
from motet.core.onelog.messages import Commit, CommitDone, FeedPage, GetLatest, Latest, ReadFeed
from motet.core.streams.change import FeedChange
from motet.sim.world import World
from motet.verify.history.operation import OperationId
from motet.verify.storms.asker import Asker
from motet.verify.storms.database import ACCOUNTS, DatabaseRun, amount_of
from motet.verify.storms.histories import AskerTap, Book, told

FIRST = 1_000_000
"""On each account at first: in the run itself they begin with nothing, and may owe."""


class DatabaseTap(AskerTap):
    """Follows those who move amounts, and those who read the feed.

    ``feed``            commits and pages
    ``causal``          what each writer read, and then wrote: of a key, the transaction that changed it
    ``bank-snapshots``  transfers, and the balances after each page: a page ends between two transactions
    """

    def __init__(self, world: World, run: DatabaseRun) -> None:
        super().__init__(world, (*run.writers, *run.readers))
        accounts = {account.decode(): FIRST for account in ACCOUNTS}
        self.feed = Book(world, "feed")
        self.causal = Book(world, "causal")
        self.bank = Book(world, "bank-snapshots", accounts)
        self.books = (self.feed, self.causal, self.bank)
        self._open: dict[str, list[tuple[Book, OperationId]]] = {}
        self._balances = {reader.name: dict(accounts) for reader in run.readers}

    def asks(self, client: Asker, message: Message) -> None:
        who = client.name
        begun: list[tuple[Book, OperationId]] = []
        if isinstance(message, Commit):
            named = message.transaction, len(message.changes)
            begun.append((self.feed, self.feed.begin(who, "commit", None, named)))
            begun.append((self.bank, self.bank.begin(who, "transfer", None, _transfer(message))))
            begun += [
                (self.causal, self.causal.begin(who, "write", _key(each.key), message.transaction))
                for each in message.changes
            ]
        elif isinstance(message, GetLatest):
            begun.append((self.causal, self.causal.begin(who, "read", _key(message.key), None)))
        elif isinstance(message, ReadFeed):
            begun.append((self.feed, self.feed.begin(who, "page", None, None)))
            begun.append((self.bank, self.bank.begin(who, "read", None, None)))
        self._open[who] = begun

    def answered(self, client: Asker, asked: Message, answer: Message | None) -> None:
        for book, op in self._open.pop(client.name):
            if isinstance(answer, CommitDone):
                book.ok(op, told(answer.clock) if book is self.feed else None)
            elif isinstance(answer, Latest):
                book.ok(op, None if answer.change is None else answer.change.transaction)
            elif isinstance(answer, FeedPage) and book is self.feed:
                book.ok(op, [[told(c.clock), c.transaction, c.index] for c in answer.changes])
            elif isinstance(answer, FeedPage):
                book.ok(op, self._read(client.name, answer.changes))
            elif isinstance(asked, Commit):
                # Also a conflict: the network may have brought a copy that was taken before.
                book.unknown(op)
            else:
                book.failed(op)  # nothing happens by looking

    def _read(self, who: str, changes: tuple[FeedChange, ...]) -> list[list[object]]:
        balances = self._balances[who]
        for change in changes:
            assert change.row is not None
            balances[_key(change.key)] = FIRST + amount_of(change.row)
        return [[account, balance] for account, balance in balances.items()]


def _key(key: bytes) -> str:
    return key.decode()


def _transfer(message: Commit) -> tuple[str, str, int]:
    """From, to, how much."""
    to, source = message.changes
    assert to.row is not None
    before = 0 if to.before is None else amount_of(to.before)
    return _key(source.key), _key(to.key), amount_of(to.row) - before
