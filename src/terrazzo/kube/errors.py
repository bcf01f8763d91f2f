"""What an API server, or the way to it, can answer instead of what was asked for."""

from __future__ import annotations

import msgspec
from msgspec import Struct, field

from terrazzo.model.errors import TerrazzoError


class ApiError(TerrazzoError):
    """A call did not do what it was asked to do.

    Attributes:
        status: HTTP status; 0 where there was no answer.
        reason: ``reason`` of the Status object (API conventions, "Response Status Kind"), or empty.
        retry_after_s: what the server asks to wait, 0 when it does not say.
    """

    def __init__(
        self, what: str, *, where: str = "", status: int = 0, reason: str = "", retry_after_s: float = 0
    ) -> None:
        super().__init__(what, where=where)
        self.status = status
        self.reason = reason
        self.retry_after_s = retry_after_s


class NotFound(ApiError):
    """404: the object, or its whole kind, is not there."""


class Conflict(ApiError):
    """409: it exists already, or it changed since it was read."""


class Gone(ApiError):
    """410: the resourceVersion or the continue token is too old; list again."""


class Unauthorized(ApiError):
    """401: the credentials are not accepted."""


class Forbidden(ApiError):
    """403: the account may not do this, a policy refused it, or a quota is used up."""


class Invalid(ApiError):
    """400, 413, 415 or 422: the server does not accept what was sent."""


class TooMany(ApiError):
    """429: priority and fairness turned the call away, or a disruption budget forbids the eviction."""


class ServerFault(ApiError):
    """5xx: nothing is known of what the call did."""


class Unreachable(ApiError):
    """No answer: refused, reset, timed out. Nothing is known of what the call did."""


class Garbled(ApiError):
    """An answer that is not what an API server says: HTML of a proxy, or JSON of another shape."""


LONGEST_WAIT_S = 60.0
"""However long a server asks to wait, the next try is not further away."""
_BY_STATUS: dict[int, type[ApiError]] = {
    400: Invalid, 401: Unauthorized, 403: Forbidden, 404: NotFound, 409: Conflict, 410: Gone, 413: Invalid,
    415: Invalid, 422: Invalid, 429: TooMany,
}  # fmt: skip


class _Details(Struct, rename="camel"):
    retry_after_seconds: int = 0


class Status(Struct, rename="camel"):
    """``v1.Status``: how an API server says that something went wrong."""

    kind: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: _Details | None = field(default=None)


def from_answer(status: int, body: bytes, *, where: str, retry_after: str = "") -> ApiError:
    """Return the error that an answer with this status and body is."""
    try:
        said = msgspec.json.decode(body, type=Status)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        said = Status()
    kind = _BY_STATUS.get(status, ServerFault if status >= 500 else Invalid)
    if said.kind != "Status":
        start = body[:80].decode("utf-8", "replace").strip() or "nothing"
        if status not in _BY_STATUS and status < 500:
            kind = Garbled
        return kind(
            f"answered {status} with {start!r}", where=where, status=status, retry_after_s=_seconds(retry_after)
        )
    wait = _seconds(retry_after) or min(float(said.details.retry_after_seconds if said.details else 0), LONGEST_WAIT_S)
    return kind(said.message or f"status {status}", where=where, status=status, reason=said.reason, retry_after_s=wait)


def _seconds(header: str) -> float:
    try:
        return max(0.0, min(float(header), LONGEST_WAIT_S))
    except ValueError:
        return 0.0
