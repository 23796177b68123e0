"""What HTTP answers look like: JSON, and for every error its code, what happened and what to do."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from starlette.responses import Response

from motet.errors import BadInput, DiskFull, MotetError, ObjectExists, ObjectMissing, TooLarge

_STATUS_CODES: tuple[tuple[type[MotetError], int], ...] = (
    (TooLarge, 413),
    (BadInput, 400),
    (ObjectMissing, 404),
    (ObjectExists, 409),
    (DiskFull, 507),
)
"""The first that fits; whatever is not the caller's doing is a 500."""


class JsonAnswer(Response):
    """Anything that can be JSON."""

    media_type = "application/json"

    def render(self, content: object) -> bytes:
        return msgspec.json.encode(content, enc_hook=str)


def status_code_of(error: MotetError) -> int:
    """The HTTP status for an error of ours."""
    for kind, status_code in _STATUS_CODES:
        if isinstance(error, kind):
            return status_code
    return 500


def error_answer(
    error: MotetError, status_code: int | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    """The answer that says what went wrong."""
    answer = {"code": error.code, "what": error.what, "advice": error.advice}
    code = status_code_of(error) if status_code is None else status_code
    return JsonAnswer({"error": answer}, code, headers)
