"""Which messages are what: looked up by type, for every message that comes in."""

from __future__ import annotations

from typing import get_args

from motet.core.datanode import errands
from motet.core.datanode.messages import AppendRecords
from motet.core.datanode.reads import Question
from motet.core.machine import Message
from motet.core.transaction.messages import BetweenLeaders

ERRANDS: frozenset[type[Message]] = frozenset(get_args(errands.Asked))
QUESTIONS: frozenset[type[Message]] = frozenset(get_args(Question))
BETWEEN_LEADERS: tuple[type[Message], ...] = get_args(BetweenLeaders)

GATHERED = ERRANDS | {AppendRecords, *BETWEEN_LEADERS}
"""What is put into a log together with what else has come in the same turn."""
