"""What a request about tables must be like to be taken at all."""

from __future__ import annotations

import re

from motet.core.metadata.definitions import check_name
from motet.core.tables.messages import CreateTable, NoteWriter, Publish, ReadWriter, TablesCall
from motet.core.tables.records import StagedPart, TableSpec, WriterStep
from motet.errors import BadInput, BadSchema, TooLarge
from motet.format.manifest import hash_in_name
from motet.limits import (
    name_length_max,
    part_bytes_max,
    publish_parts_max,
    schema_bytes_max,
    table_columns_max,
    table_shards_max,
    writer_note_length_max,
)

SYSTEM_PREFIX = "system."
ID = re.compile(r"[0-9a-f]{16}")
count_max = (1 << 62) - 1
part_rows_max = (1 << 32) - 1
"""Rows of one part. The sum over all parts that a database can have is still a 64-bit number, which is
what fits into an answer."""


def check_table_request(message: TablesCall) -> None:
    """``BadInput`` when the request cannot be taken."""
    if isinstance(message, CreateTable):
        _check_spec(message.spec)
    elif isinstance(message, Publish):
        _check_publish(message)
    elif isinstance(message, ReadWriter | NoteWriter):
        check_name(message.writer, "an ordered writer")
        if isinstance(message, NoteWriter) and len(message.error) > writer_note_length_max:
            raise TooLarge(f"a note has at most {writer_note_length_max} characters")


def check_table_name(name: str) -> None:
    """``BadInput`` for a name no table can have."""
    check_name(name, "a table")
    if name.lower().startswith(SYSTEM_PREFIX):
        raise BadInput(f"{name!r} would be one of the system's own tables")


def _check_spec(spec: TableSpec) -> None:
    check_table_name(spec.name)
    _check_id(spec.id)
    if not spec.schema or len(spec.schema) > schema_bytes_max:
        raise BadSchema(
            f"a schema of {len(spec.schema)} bytes is not between 1 and {schema_bytes_max}"
        )
    if not 0 < spec.shards <= table_shards_max:
        raise BadInput(f"{spec.shards} shards are not between 1 and {table_shards_max}")
    if not spec.order_by or len(spec.order_by) > table_columns_max:
        raise BadSchema(f"order_by names 1 to {table_columns_max} columns")
    if len(set(spec.order_by)) != len(spec.order_by):
        raise BadSchema("order_by names a column twice")
    names = (*spec.order_by, spec.version or "", spec.tombstone or "")
    if sum(map(len, names)) > schema_bytes_max:
        raise BadSchema("the names of its columns are longer than a schema can be")
    if spec.engine == "merge" and (spec.version, spec.tombstone) != (None, None):
        raise BadInput(
            "engine merge keeps all rows and has no use for version or tombstone",
            hint='leave them out, or use engine="replacing"',
        )


def _check_publish(message: Publish) -> None:
    if len(message.parts) > publish_parts_max:
        raise TooLarge(
            f"a step of {len(message.parts)} parts exceeds the limit of {publish_parts_max}",
            hint="write fewer and larger parts",
        )
    if message.token is not None:
        if message.step is not None:
            raise BadInput("a publication has a token or a writer's step, not both")
        if not 0 < len(message.token.text) <= name_length_max:
            raise BadInput(f"a token has 1 to {name_length_max} characters")
        if any(part.table != message.token.table for part in message.parts):
            raise BadInput("a token is of one table", hint="publish several with a writer's step")
    if message.step is not None:
        _check_step(message.step)
    for part in message.parts:
        _check_part(part)
    if len({(part.table_id, part.id) for part in message.parts}) != len(message.parts):
        raise BadInput("a part is named twice", hint="its rows would be there twice")


def _check_step(step: WriterStep) -> None:
    check_name(step.writer, "an ordered writer")
    if not 0 <= step.epoch <= count_max:
        raise BadInput(f"an epoch of {step.epoch} is not between 0 and {count_max}")
    if step.after is not None and step.through <= step.after:
        raise BadInput(f"a step from {step.after} through {step.through} leads nowhere")


def _check_part(part: StagedPart) -> None:
    _check_id(part.table_id)
    _check_id(part.id)
    if hash_in_name(part.file) is None:
        raise BadInput(f"{part.file[:60]!r} is not the name of a part's file")
    if not 0 < part.rows <= part_rows_max:
        raise BadInput(f"a part of {part.rows} rows", hint=f"a part has 1 to {part_rows_max}")
    if not 0 < part.size_bytes <= part_bytes_max:
        raise TooLarge(f"a part of {part.size_bytes} bytes exceeds the limit of {part_bytes_max}")


def _check_id(text: str) -> None:
    if not ID.fullmatch(text):
        raise BadInput(f"{text[:40]!r} is not the id of a table or a part")
