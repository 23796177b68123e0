"""Several questions in one message: asked as if each had come alone, and answered together.

Whoever reads the feed of many shards asks every node once. The questions get an address of their own in the
place of the client's; what is sent there is gathered until it is all there, and leaves in one message.

M1  Each question has one answer, or a refusal. Those that wait are refused in time (D4 of
    :mod:`motet.core.datanode.node`), so all are answered by then.
M2  An answer that would make the message too large is left out: its question is refused, and asked alone.
"""

from __future__ import annotations

import msgspec

from motet.core.datanode.messages import AskMany, DataRefused, ManyAnswered
from motet.core.machine import Effect, Message, Send
from motet.core.transaction.messages import FeedDescribed, PreparedAre, ShardClosed, ShardFeed
from motet.errors import BadInput, NodeError, TooLarge
from motet.ids import Address, RequestId
from motet.limits import asked_together_bytes_max, asked_together_max, asking_many_max

PREFIX = "~many-"
Answer = ShardClosed | ShardFeed | FeedDescribed | PreparedAre | DataRefused


class Asked(msgspec.Struct):
    """Questions that came together."""

    client: Address
    request: RequestId
    count: int
    #: place -> its answer
    answers: dict[int, Answer] = msgspec.field(default_factory=dict)
    size_bytes: int = 0


class Together(msgspec.Struct):
    """All that came together and are not all answered, by the address of their answers."""

    asked: dict[Address, Asked] = msgspec.field(default_factory=dict)
    next_number: int = 1


def take(together: Together, client: Address, message: AskMany) -> Address:
    """Take questions; where to send the answers. An error says why not."""
    count = len(message.requests)
    if not 0 < count <= asked_together_max:
        raise BadInput(f"{count} requests together; 1 to {asked_together_max} are possible")
    if any(each.request != place for place, each in enumerate(message.requests)):
        raise BadInput("requests that come together are numbered from 0")
    if len(together.asked) >= asking_many_max:
        raise NodeError("too many clients ask for many shards", hint="try again in a moment")
    address = Address(f"{PREFIX}{together.next_number}")
    together.next_number += 1
    together.asked[address] = Asked(client, message.request, count)
    return address


def gather(together: Together, effects: list[Effect]) -> list[Effect]:
    """Effects without the answers that are to go together, and with those that are all there."""
    kept: list[Effect] = []
    for effect in effects:
        asked = together.asked.get(effect.to) if isinstance(effect, Send) else None
        if asked is None or not isinstance(effect, Send):
            kept.append(effect)
            continue
        _add(asked, effect.message)
        if len(asked.answers) == asked.count:  # M1
            del together.asked[effect.to]
            answers = tuple(asked.answers[place] for place in range(asked.count))
            kept.append(Send(asked.client, ManyAnswered(asked.request, answers)))
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
        del together.asked[address]
    return gone
