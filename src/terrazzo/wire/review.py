"""What an API server and an admission webhook say to each other (``admission.k8s.io/v1`` AdmissionReview).

Objects are kept as the bytes they came in: which shape they have, only the handler of a path knows.
"""

from __future__ import annotations

import base64
from typing import Any

import msgspec
from msgspec import Raw, Struct, field

from terrazzo.model.errors import InputError

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"
_WHERE = "admission review"
_NULL = Raw(b"null")


class GroupVersionKind(Struct, frozen=True):
    """``request.kind``."""

    group: str = ""
    version: str = ""
    kind: str = ""


class UserInfo(Struct, frozen=True):
    """``request.userInfo``: who asks."""

    username: str = ""
    groups: list[str] | None = None


class ReviewRequest(Struct, frozen=True, rename="camel"):
    """``request``; the object is null when it is deleted, the old one when it is created."""

    uid: str = ""
    kind: GroupVersionKind = GroupVersionKind()
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    operation: str = ""
    user_info: UserInfo = UserInfo()
    object: Raw = _NULL
    old_object: Raw = _NULL
    dry_run: bool | None = None


class ReviewStatus(Struct, frozen=True):
    """``response.status``: why not, and the HTTP status that the API server answers with."""

    message: str
    code: int


class ReviewResponse(Struct, frozen=True, rename="camel", omit_defaults=True):
    """``response``."""

    uid: str
    allowed: bool
    patch: str = ""
    patch_type: str = ""
    warnings: tuple[str, ...] = ()
    status: ReviewStatus | None = None


class _Asked(Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: ReviewRequest | None = None


class _Said(Struct, rename="camel"):
    response: ReviewResponse
    api_version: str = API_VERSION
    kind: str = KIND


class _Uid(Struct):
    uid: str = ""


class _AnyVersion(Struct):
    request: _Uid = field(default_factory=_Uid)


_asked = msgspec.json.Decoder(_Asked)
_any_version = msgspec.json.Decoder(_AnyVersion)


def decode(body: bytes) -> ReviewRequest:
    """Return what an API server asks.

    Raises:
        InputError: it is no AdmissionReview of this version, or has no request with a UID.
    """
    try:
        asked = _asked.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"cannot be read ({_one_line(error)})", where=_WHERE) from None
    if (asked.api_version, asked.kind) != (API_VERSION, KIND):
        got = f"{asked.kind[:60] or 'an object without kind'} of {asked.api_version[:60] or 'no apiVersion'}"
        remedy = f"register the webhook with admissionReviewVersions [{API_VERSION.rpartition('/')[2]}]"
        raise InputError(f"is {got}, not {KIND} of {API_VERSION}", where=_WHERE, remedy=remedy)
    if asked.request is None or not asked.request.uid:
        raise InputError("has no request.uid, so it cannot be answered", where=_WHERE)
    return asked.request


def uid_in(body: bytes) -> str:
    """Return the UID of a review that cannot be read otherwise, such as one of another version; empty without one."""
    try:
        return _any_version.decode(body).request.uid
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""


def allow(uid: str, patch: tuple[dict[str, Any], ...] = (), warnings: tuple[str, ...] = ()) -> bytes:
    """Return the answer that lets a request pass, with what to change (RFC 6902) and what to tell."""
    if not patch:
        return msgspec.json.encode(_Said(ReviewResponse(uid, allowed=True, warnings=warnings)))
    text = base64.b64encode(msgspec.json.encode(patch)).decode()
    return msgspec.json.encode(_Said(ReviewResponse(uid, True, text, "JSONPatch", warnings)))


def refuse(uid: str, sentence: str, code: int) -> bytes:
    """Return the answer that refuses a request with a sentence and an HTTP status."""
    return msgspec.json.encode(_Said(ReviewResponse(uid, allowed=False, status=ReviewStatus(sentence, code))))


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
