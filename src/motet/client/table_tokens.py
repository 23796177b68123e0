"""What a write to a table is given by its caller, or by this client: tokens, staging jobs, quorums."""

from __future__ import annotations

from itertools import count
from typing import NamedTuple

from motet.client.rows import whole_number
from motet.core.mergetree.messages import JobStanding
from motet.core.mergetree.paths import is_token
from motet.core.mergetree.tokens import OWN_PREFIX
from motet.errors import BadInput
from motet.errors.tables import StagingEnded
from motet.limits import name_length_max, token_number_max
from motet.ports import Entropy


class TableToken(NamedTuple):
    """Names an insert within its table: text, or the number of a producer."""

    text: str = ""
    producer: str = ""
    number: int = 0
    #: made by this client: the call itself is never a repetition
    is_own: bool = False


class OwnProducers:
    """Makes tokens for calls that come without. Calls that are under way at once count by themselves.

    A number is not used by two calls, and the numbers of a producer do not overtake each other.
    """

    def __init__(self, entropy: Entropy) -> None:
        self._client = f"{OWN_PREFIX}{entropy.nonce():016x}"
        self._lanes = count()
        #: names that no call uses now
        self._idle: list[str] = []
        self._numbers: dict[str, int] = {}

    def take(self) -> TableToken:
        name = self._idle.pop() if self._idle else f"{self._client}-{next(self._lanes)}"
        number = self._numbers.get(name, -1) + 1
        self._numbers[name] = number
        return TableToken(producer=name, number=number, is_own=True)

    def give_back(self, token: TableToken) -> None:
        """The call has ended, however it did."""
        if token.is_own:
            self._idle.append(token.producer)


def table_token(token: object) -> TableToken | None:
    """A caller's token."""
    if token is None:
        return None
    if isinstance(token, tuple) and len(token) == 2 and isinstance(token[0], str):
        producer, number = token
        if not is_token(producer) or producer.startswith(OWN_PREFIX):
            raise BadInput(f"the producer of a token is text of 1 to {name_length_max} characters")
        whole_number("the number of a token", number, 0, token_number_max)
        return TableToken(producer=producer, number=number)
    if not isinstance(token, str) or not is_token(token):
        raise BadInput(
            f"the token of an insert is text of 1 to {name_length_max} characters, or a pair of a"
            " producer's name and a number"
        )
    return TableToken(text=token)


def job_name(job: object) -> str:
    """The name of a caller's staging job; empty for none."""
    if job is None:
        return ""
    if not isinstance(job, str) or not is_token(job):
        raise BadInput(
            f"the name of a staging job is text of 1 to {name_length_max} printable characters"
        )
    return job


def check_job_open(job: str, standing: JobStanding) -> None:
    """``StagingEnded`` for a job that is over."""
    if standing.value != "open":
        raise StagingEnded(f"staging job {job} is {standing.value}")


def quorum_of(quorum: object) -> int:
    """A caller's quorum; 0 is the majority."""
    if quorum is None or quorum == "majority":
        return 0
    if isinstance(quorum, bool) or not isinstance(quorum, int) or quorum < 1:
        raise BadInput(f"quorum={quorum!r} is no quorum", hint='use "majority", or 1 and more')
    return quorum
