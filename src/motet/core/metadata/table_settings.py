"""What of a table can be changed at any time: the data of its node ``settings``, as JSON.

The node is not there while nothing is set. A setting that only a newer program knows is kept as it is.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from motet.errors import BadInput, BadRecord
from motet.limits import dedup_window_max


class TableSettings(msgspec.Struct, frozen=True, omit_defaults=True):
    """Those that this program knows; None is the default."""

    #: with ``dedup="content"``: how many hashes of content a shard remembers
    dedup_window: int | None = None


_encode = msgspec.json.Encoder(order="deterministic").encode
_decoder = msgspec.json.Decoder(TableSettings)
_fields_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])


def decode_table_settings(data: bytes) -> TableSettings:
    """Read them back; ``BadRecord`` for what are none."""
    try:
        settings = _decoder.decode(data or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRecord(f"these are no settings of a table: {error}") from None
    if not 1 <= (settings.dedup_window or 1) <= dedup_window_max:
        raise BadRecord(f"these are no settings of a table: dedup_window {settings.dedup_window}")
    return settings


def check_settings(changes: Mapping[str, int | None]) -> None:
    """``BadInput`` for what cannot be set; it lists what can."""
    known = TableSettings.__struct_fields__
    for name, value in changes.items():
        if name not in known:
            hint = f"there are {', '.join(known)}"
            raise BadInput(f"a table has no setting {name[:80]!r}", hint=hint)
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if value is not None and not (is_number and 1 <= value <= dedup_window_max):
            raise BadInput(f"{name}={value!r} is not between 1 and {dedup_window_max}")
    if not changes:
        raise BadInput("no setting is named", hint=f"there are {', '.join(known)}")


def changed_settings(data: bytes, changes: Mapping[str, int | None]) -> bytes:
    """The settings with these changes; None takes one back. What are none begin anew."""
    try:
        fields = _fields_decoder.decode(data or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError):
        fields = {}
    for name, value in changes.items():
        fields.pop(name, None)
        if value is not None:
            fields[name] = msgspec.Raw(_encode(value))
    return _encode(fields)
