"""Answers to clients, and what their requests must be like to be taken at all."""

from __future__ import annotations

import re

from motet.core.machine import Message
from motet.core.metadata.definitions import StreamDefinition
from motet.core.operator.context import Core
from motet.core.operator.state import Waiting
from motet.core.streams.checks import check_name
from motet.core.streams.cluster_messages import OperatorRefused
from motet.errors import BadInput, MotetError, TooLarge
from motet.errors.operator import MapTooOld
from motet.limits import schema_bytes_max, shard_replicas_max, stream_shards_max

STREAM_ID = re.compile(r"[0-9a-f]{16}")


def answer(core: Core, waiting: Waiting, message: Message) -> None:
    """The last word to a client."""
    core.state.waiting = [each for each in core.state.waiting if each is not waiting]
    core.reply(waiting.client, message)


def refuse(core: Core, waiting: Waiting, error: MotetError) -> None:
    fence = core.state.fence if isinstance(error, MapTooOld) else None
    request = waiting.message.request
    message = OperatorRefused(request, error.code, error.what, error.advice, fence)
    answer(core, waiting, message)


def check_definition(definition: StreamDefinition) -> None:
    """``BadInput`` for a stream that cannot be."""
    check_name(definition.name, "a stream")
    if not STREAM_ID.fullmatch(definition.id):
        raise BadInput(f"{definition.id[:40]!r} is not the id of a stream", hint="16 hex digits")
    if not 0 < definition.shards <= stream_shards_max:
        raise BadInput(f"{definition.shards} shards are not between 1 and {stream_shards_max}")
    if definition.replicas is not None and not 0 < definition.replicas <= shard_replicas_max:
        raise BadInput(f"{definition.replicas} replicas are not between 1 and {shard_replicas_max}")
    if definition.schema is not None and len(definition.schema) > schema_bytes_max:
        raise TooLarge(
            f"a schema of {len(definition.schema)} bytes exceeds the limit of {schema_bytes_max}"
        )
    if definition.is_deleted:
        raise BadInput("a stream cannot be created as deleted")
