"""Whether a table is the one that a request means.

U1  Nothing is committed into a table that is dropped, or, when it was addressed by name, into one that the
    name does not point to (T19, T27). Definition and name are of one read, and the multi checks the version
    of the definition: whoever drops or renames a table sets its definition, and a name points to another
    table only after such a change of the one that had it. The version of the name's node alone cannot tell,
    since it begins anew with each node of that name.
"""

from __future__ import annotations

import msgspec

from motet.core.mergetree.paths import table_of
from motet.core.metadata.messages import Found, ReadResult
from motet.errors import BadRecord, NoSuchTable
from motet.errors.tables import TableMoved
from motet.format.frame import UNDECODABLE
from motet.ids import TableId


class _Standing(msgspec.Struct, frozen=True):
    """What of a definition decides whether anything is committed."""

    is_dropped: bool = False


_standing_decoder = msgspec.json.Decoder(_Standing)


def definition_version(found: ReadResult) -> int:
    """The version of the definition that was read; an error when nothing is committed any more (U1)."""
    if not isinstance(found, Found):
        raise NoSuchTable("the table is dropped")
    try:
        standing = _standing_decoder.decode(found.data)
    except UNDECODABLE as error:
        table = table_of(found.path)
        raise BadRecord(
            f"the keeper's definition of table {table} cannot be read: {error}"
        ) from None
    if standing.is_dropped:
        raise NoSuchTable("the table is dropped")
    return found.stat.version


def check_named(table: TableId, name: list[ReadResult], version: int) -> None:
    """U1; there is a name if the table was addressed by one."""
    for found in name:
        is_found = isinstance(found, Found) and found.stat.version == version
        if not is_found or not isinstance(found, Found) or found.data != table.encode():
            raise TableMoved("the table has another name now")
