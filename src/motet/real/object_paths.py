"""How the key of an object becomes a path in a folder, and back.

Any text can be a key, and no key can reach outside the folder or collide with another. Each part of a
key between slashes becomes one name: lower-case letters, digits and ``._-~`` stay, every other byte
becomes ``%`` and two hexadecimal digits. Upper-case letters are among the others, since some file
systems take them for lower-case ones. Folders end in ``+``, so that the objects ``a`` and ``a/b`` live
side by side; an empty last part is called ``%``. A leading dot is escaped: names that begin with one
are the store's own.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from urllib.parse import unquote_to_bytes

from motet.errors import BadInput
from motet.ids import ObjectKey

key_bytes_max = 1024
"""The bound of S3."""

name_bytes_max = 255
"""The longest name that common file systems take."""

FOLDER_MARK = "+"
_EMPTY = "%"
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789._-~")


def path_of(key: ObjectKey) -> PurePosixPath:
    """Where the object is, relative to the store's folder. ``BadInput`` for what cannot be a key."""
    size_bytes = len(_bytes_of(key))
    if not 0 < size_bytes <= key_bytes_max:
        raise BadInput(f"a key of {size_bytes} bytes", hint=f"use 1 to {key_bytes_max} bytes")
    *folders, last = key.split("/")
    names = [_escape(folder) + FOLDER_MARK for folder in folders]
    names.append(_escape(last) or _EMPTY)
    if max(map(len, names)) > name_bytes_max:
        raise BadInput(
            f"a part of the key {key!r} is too long for a file name",
            hint=f"use at most {name_bytes_max} bytes between slashes, a third of that if escaped",
        )
    return PurePosixPath(*names)


def key_of(path: PurePosixPath) -> ObjectKey:
    """The key of the object at this relative path."""
    *folders, last = path.parts
    names = [folder.removesuffix(FOLDER_MARK) for folder in folders]
    names.append("" if last == _EMPTY else last)
    return ObjectKey("/".join(unquote_to_bytes(name).decode() for name in names))


def folder_of_prefix(prefix: str) -> PurePosixPath:
    """The folder below which all objects are whose key starts with the prefix."""
    folders = prefix.split("/")[:-1]
    return PurePosixPath(*[_escape(folder) + FOLDER_MARK for folder in folders])


def _escape(part: str) -> str:
    name = "".join(chr(byte) if byte in _PLAIN else f"%{byte:02x}" for byte in _bytes_of(part))
    return "%2e" + name[1:] if name.startswith(".") else name


def _bytes_of(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise BadInput(f"{text!r} cannot be a key or part of one: it is not valid text") from None
