"""Several questions in one message: asked as if each had come alone, and answered together.

Whoever reads the feed of many shards asks every node once. The questions get an address of their own in the
place of the client's; what is sent there is gathered until it is all there, and leaves in one message.

The questions wait in a queue, and some of them are asked in each turn: a node that is asked about hundreds of
shards by many clients at once does not keep its other machines waiting.

M1  Each question has one answer, or a refusal. Those that wait are refused in time (D4 of
    :mod:`motet.core.streams.node`), so all are answered by then.
M2  An answer that would make the message too large is left out: its question is refused, and asked alone.
M3  A message that comes again over the same connection, while the first is not answered, changes nothing:
    there is one answer to both.
"""

from __future__ import annotations

from itertools import islice

import msgspec

from motet.core.machine import Effect, Message, Send
from motet.core.streams.messages import (
    AskMany,
    CloseShard,
    DataRefused,
    DescribeFeed,
    FeedDescribed,
    ListPrepared,
    ManyAnswered,
    PreparedAre,
    ReadShardFeed,
    ShardClosed,
    ShardFeed,
)
from motet.errors import BadInput, NodeError, TooLarge
from motet.ids import Address, RequestId
from motet.limits import (
    asked_at_once_max,
    asked_together_bytes_max,
    asked_together_max,
    asking_many_max,
)

PREFIX = "~many-"
Question = CloseShard | ReadShardFeed | DescribeFeed | ListPrepared
Answer = ShardClosed | ShardFeed | FeedDescribed | PreparedAre | DataRefused


class Asked(msgspec.Struct):
    """Questions that came together."""

    client: Address
    message: AskMany
    #: so many of the questions have been asked
    asked: int = 0
    #: place -> its answer
    answers: dict[int, Answer] = msgspec.field(default_factory=dict)
    size_bytes: int = 0


class Together(msgspec.Struct):
    """All that came together and are not all answered, by the address of their answers."""

    asked: dict[Address, Asked] = msgspec.field(default_factory=dict)
    #: by who has asked, and the number of the message there
    addresses: dict[tuple[Address, RequestId], Address] = msgspec.field(default_factory=dict)
    #: those with questions that are still to be asked (the values mean nothing)
    queue: dict[Address, None] = msgspec.field(default_factory=dict)
    next_number: int = 1

    def remove(self, address: Address) -> Asked:
        """Nobody waits for these answers any more."""
        asked = self.asked.pop(address)
        del self.addresses[asked.client, asked.message.request]
        self.queue.pop(address, None)
        return asked


def take(together: Together, client: Address, message: AskMany) -> None:
    """Put questions into the queue. An error says why not."""
    count = len(message.requests)
    if not 0 < count <= asked_together_max:
        raise BadInput(f"{count} requests together; 1 to {asked_together_max} are possible")
    if any(each.request != place for place, each in enumerate(message.requests)):
        raise BadInput("requests that come together are numbered from 0")
    known = together.addresses.get((client, message.request))
    if known is not None:
        if together.asked[known].message != message:
            raise BadInput(f"request {message.request} is under way already, and is another one")
        return  # M3
    if len(together.asked) >= asking_many_max:
        raise NodeError("too many clients ask for many shards", hint="try again in a moment")
    address = Address(f"{PREFIX}{together.next_number}")
    together.next_number += 1
    together.asked[address] = Asked(client, message)
    together.addresses[client, message.request] = address
    together.queue[address] = None


def next_questions(together: Together) -> list[tuple[Address, Question]]:
    """What is to be asked in this turn, with the addresses of the answers; whoever came first goes first."""
    found: list[tuple[Address, Question]] = []
    while together.queue and len(found) < asked_at_once_max:
        address = next(iter(together.queue))
        asked = together.asked[address]
        requests, room = asked.message.requests, asked_at_once_max - len(found)
        some = list(islice(requests, asked.asked, asked.asked + room))
        asked.asked += len(some)
        found += [(address, each) for each in some]
        if asked.asked == len(requests):
            del together.queue[address]
    return found


def gather(together: Together, effects: list[Effect]) -> list[Effect]:
    """Effects without the answers that are to go together, and with those that are all there."""
    kept: list[Effect] = []
    for effect in effects:
        asked = together.asked.get(effect.to) if isinstance(effect, Send) else None
        if asked is None or not isinstance(effect, Send):
            kept.append(effect)
            continue
        _add(asked, effect.message)
        count = len(asked.message.requests)
        if len(asked.answers) == count:  # M1
            together.remove(effect.to)
            answers = tuple(asked.answers[place] for place in range(count))
            kept.append(Send(asked.client, ManyAnswered(asked.message.request, answers)))
    return kept


def _add(asked: Asked, answer: Message) -> None:
    assert isinstance(answer, Answer), "an answer to one of them"
    size_bytes = _size_bytes(answer)
    if asked.size_bytes + size_bytes > asked_together_bytes_max:  # M2
        error = TooLarge("too much for an answer to many questions", hint="ask this one alone")
        answer = DataRefused(answer.request, error.code, error.what, error.advice)
    else:
        asked.size_bytes += size_bytes
    asked.answers[answer.request] = answer


def _size_bytes(answer: Answer) -> int:
    if isinstance(answer, ShardFeed):
        return sum(len(entry.body) for entry in answer.entries)
    if isinstance(answer, FeedDescribed):
        return sum(len(name) for name, _ in answer.cursors)
    return 0


def forget_client(together: Together, client: Address) -> list[Address]:
    """Nobody is there any more to be answered; the addresses that are not answered either."""
    gone = [address for address, asked in together.asked.items() if asked.client == client]
    for address in gone:
        together.remove(address)
    return gone
