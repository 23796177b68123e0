"""The files of parts at the HTTP ports of nodes: read by range, fetched whole, and put.

For any threads, and it blocks. A part is named by its key; a node by its native endpoint, from which its HTTP
port follows. Nothing of HTTP is used but what a node of ours does: no redirects, cookies, proxies, encodings.

C1  A connection that breaks is no error yet. Whoever fetches goes on where it broke; it is an error when
    nothing has come in several attempts. A put is sent again: the same once more is fine.
C2  What a node says is believed only if it fits what was asked: the range, the size of the file. Whether the
    bytes are the part's is for whoever knows its hash, or the checksums of its pieces.
C3  A node that refuses says why, in an error of ours.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import BinaryIO

import msgspec
import urllib3
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError

from motet.client.link import HTTP_PORT_OFFSET, parse_endpoint
from motet.errors import (
    BadBytes,
    BadInput,
    DiskFull,
    MotetError,
    NodeError,
    ObjectError,
    error_of,
)
from motet.format.part_manifest import MANIFEST_FILE, PART_FILE
from motet.limits import KIB, MIB, part_manifest_bytes_max
from motet.real.part_files import PartKey

FORWARDED_HEADER = "motet-forwarded"
"""Says that a node sends what it is being sent itself."""

PLACE_PATH = "/api/tables"
"""Where a node says where the files of its parts are."""

attempts_max = 3
connect_seconds_max = 5.0
silence_seconds_max = 30.0
"""How long nothing may come; a node checks a large file meanwhile."""

nodes_max = 64
"""Nodes of which connections are kept; so many of each."""

connections_max = 8
piece_bytes = MIB
_error_bytes_max = 64 * KIB


class PartsPlace(msgspec.Struct, frozen=True):
    """Where a node has its parts: whoever reads this token in this folder is on its machine."""

    folder: str
    token: str


class _Said(msgspec.Struct):
    code: str
    what: str
    advice: str


class _Refused(msgspec.Struct):
    error: _Said


class _Broken(Exception):
    """The connection was lost, or never made: it may be tried again."""


class PartClient:
    """From construction to ``close``, which ends what is under way."""

    def __init__(self) -> None:
        self._pools = urllib3.PoolManager(
            num_pools=nodes_max,
            maxsize=connections_max,
            retries=False,
            timeout=urllib3.Timeout(connect=connect_seconds_max, read=silence_seconds_max),
            headers={"accept-encoding": "identity", "user-agent": "motet"},
            blocksize=piece_bytes,
        )
        self._lock = threading.Lock()
        self._under_way: dict[int, urllib3.BaseHTTPResponse] = {}
        self.is_closed = False

    def close(self) -> None:
        """Break off what is read, and close what is idle."""
        with self._lock:
            self.is_closed = True
            under_way = list(self._under_way.values())
        for answer in under_way:
            with suppress(HTTPError, OSError, ValueError, RuntimeError):
                answer.shutdown()
        self._pools.clear()

    def place(self, endpoint: str) -> PartsPlace:
        """Where the node has its parts."""
        with self._trying(f"ask {endpoint} for its parts"):
            data = self._get(endpoint, PLACE_PATH, _error_bytes_max)
        try:
            return msgspec.json.decode(data, type=PartsPlace)
        except msgspec.MsgspecError:
            raise NodeError(f"{endpoint} does not answer as a node does") from None

    def manifest(self, endpoint: str, key: PartKey) -> bytes:
        """The manifest of a part, as it is there."""
        path = _path(key, MANIFEST_FILE)
        for left in reversed(range(attempts_max)):
            try:
                return self._get(endpoint, path, part_manifest_bytes_max + MIB)
            except _Broken as error:
                if not left:
                    raise _unreachable(endpoint, error) from None
        raise AssertionError("unreachable")

    def read(
        self, endpoint: str, key: PartKey, start: int, length: int, *, size_bytes: int
    ) -> bytes:
        """So many bytes of the part's file, which has a known size: all of them, or an error."""
        pieces: list[bytes] = []
        self.fetch(
            endpoint, key, pieces.append, start=start, end=start + length, size_bytes=size_bytes
        )
        return b"".join(pieces)

    def fetch(
        self,
        endpoint: str,
        key: PartKey,
        keep: Callable[[bytes], object],
        *,
        size_bytes: int,
        start: int = 0,
        end: int | None = None,
    ) -> None:
        """Hand over the bytes of the part's file in pieces, in order, each once (C1)."""
        end, failures = size_bytes if end is None else end, 0
        while start < end:
            try:
                for piece in self._pieces(endpoint, key, start, end, size_bytes):
                    keep(piece)
                    start += len(piece)
                    failures = 0
            except _Broken as error:
                failures += 1
                if failures == attempts_max:
                    raise _unreachable(endpoint, error) from None

    def put(self, endpoint: str, key: PartKey, manifest: bytes, file: bytes | BinaryIO) -> None:
        """Send a part ahead: its file, from where it stands, and its manifest. It promises nothing (T25)."""
        self.put_file(endpoint, key, PART_FILE, file)
        self.put_file(endpoint, key, MANIFEST_FILE, manifest)

    def put_file(self, endpoint: str, key: PartKey, name: str, file: bytes | BinaryIO) -> None:
        """One of the two; they may come in any order, and side by side."""
        self._put(endpoint, _path(key, name), file)

    def forward(
        self, endpoint: str, key: PartKey, name: str, pieces: Iterator[bytes], size_bytes: int
    ) -> None:
        """Send one file of a part while its pieces come, a single time."""
        headers = {"content-length": str(size_bytes), FORWARDED_HEADER: "1"}
        path = _path(key, name)
        with (
            self._trying(f"forward {path} to {endpoint}"),
            self._asking(endpoint, "PUT", path, headers, pieces) as answer,
        ):
            if answer.status not in (200, 201):
                raise _refusal(answer, f"put {path}")
            _read_all(answer, _error_bytes_max)

    # One request ------------------------------------------------------------------------------------

    def _put(self, endpoint: str, path: str, file: bytes | BinaryIO) -> None:
        begin = 0 if isinstance(file, bytes) else file.tell()
        size_bytes = len(file) if isinstance(file, bytes) else _length(file)
        for left in reversed(range(attempts_max)):
            try:
                if not isinstance(file, bytes):
                    file.seek(begin)
                headers = {"content-length": str(size_bytes)}
                body = file if isinstance(file, bytes) else _read_in_pieces(file)
                with self._asking(endpoint, "PUT", path, headers, body) as answer:
                    if answer.status not in (200, 201):
                        raise _refusal(answer, f"put {path}")
                    _read_all(answer, _error_bytes_max)
                    return
            except _Broken as error:
                if not left:
                    raise _unreachable(endpoint, error) from None

    def _get(self, endpoint: str, path: str, bytes_max: int) -> bytes:
        with self._asking(endpoint, "GET", path, {}) as answer:
            if answer.status != 200:
                raise _refusal(answer, f"get {path}")
            return _read_all(answer, bytes_max)

    def _pieces(
        self, endpoint: str, key: PartKey, start: int, end: int, size_bytes: int
    ) -> Iterator[bytes]:
        path = _path(key, PART_FILE)
        wanted = {"range": f"bytes={start}-{end - 1}"}
        with self._asking(endpoint, "GET", path, wanted) as answer:
            if answer.status not in (206, 416):
                raise _refusal(answer, f"get {path}")
            given = answer.headers.get("content-range", "")
            if answer.status == 416 or given != f"bytes {start}-{end - 1}/{size_bytes}":  # C2
                what = f"{endpoint} gives {given or 'nothing'} of part {key}, which has {size_bytes} bytes"
                raise ObjectError(what, hint="ask another replica")
            while start < end:
                piece = answer.read(min(piece_bytes, end - start), decode_content=False)
                if not piece:
                    raise _Broken("the connection ended inside the answer")
                yield piece
                start += len(piece)

    @contextmanager
    def _asking(
        self,
        endpoint: str,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | Iterator[bytes] | None = None,
    ) -> Iterator[urllib3.BaseHTTPResponse]:
        """Send a request; the block has its answer. ``_Broken`` when the connection does not last."""
        url = f"http://{http_address(endpoint)}{path}"
        if self.is_closed:
            raise NodeError("this process is ending")
        answer: urllib3.BaseHTTPResponse | None = None
        try:
            answer = self._pools.request(
                method,
                url,
                body=body,
                headers={**self._pools.headers, **headers},
                preload_content=False,
                redirect=False,
            )
            with self._lock:
                self._under_way[id(answer)] = answer
            yield answer
        except HTTPError as error:
            raise _Broken(_why(error)) from None
        except OSError as error:
            raise _Broken(error.strerror or str(error)) from None
        finally:
            if answer is not None:
                with self._lock:
                    del self._under_way[id(answer)]
                if answer.length_remaining == 0:
                    answer.release_conn()
                else:
                    answer.close()

    @contextmanager
    def _trying(self, what: str) -> Iterator[None]:
        try:
            yield
        except _Broken as error:
            raise NodeError(
                f"{what}: {error}",
                hint="a node serves HTTP at its port + 3: check the address, and that it runs",
            ) from None


def http_address(endpoint: str) -> str:
    """Host and HTTP port of the node at a native endpoint; an IPv6 host in brackets."""
    host, port = parse_endpoint(endpoint)
    return (
        f"[{host}]:{port + HTTP_PORT_OFFSET}"
        if ":" in host
        else f"{host}:{port + HTTP_PORT_OFFSET}"
    )


def _path(key: PartKey, file: str) -> str:
    return f"/tables/{key}/{file}"


def _length(file: BinaryIO) -> int:
    begin = file.tell()
    end = file.seek(0, 2)
    file.seek(begin)
    return end - begin


def _read_in_pieces(file: BinaryIO) -> Iterator[bytes]:
    while piece := file.read(piece_bytes):
        yield piece


def _read_all(answer: urllib3.BaseHTTPResponse, bytes_max: int) -> bytes:
    """The whole body; ``_Broken`` when it is longer than anything we asked for."""
    body = bytearray()
    while piece := answer.read(bytes_max + 1 - len(body), decode_content=False):
        body += piece
        if len(body) > bytes_max:
            raise _Broken(f"the answer is longer than {bytes_max} bytes")
    return bytes(body)


def _refusal(answer: urllib3.BaseHTTPResponse, what: str) -> MotetError:
    """C3."""
    try:
        said = msgspec.json.decode(_read_all(answer, _error_bytes_max), type=_Refused).error
    except msgspec.MsgspecError:
        return ObjectError(f"{what}: it answered {answer.status}")
    error = error_of(said.code, said.what, said.advice)
    known = isinstance(error, BadBytes | BadInput | DiskFull | ObjectError | NodeError)
    return error if known else ObjectError(f"{what}: {error.what}")


def _unreachable(endpoint: str, error: Exception) -> ObjectError:
    return ObjectError(
        f"the parts at {endpoint} cannot be reached ({error})",
        hint="check that the node runs there, then try again",
    )


def _why(error: HTTPError) -> str:
    if isinstance(error, NewConnectionError | ConnectTimeoutError):
        return "nothing answers there"
    return str(error) or type(error).__name__
