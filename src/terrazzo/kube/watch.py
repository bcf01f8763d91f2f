"""A list and everything that happens after it, for as long as anybody listens.

A watch ends for many reasons, most of them ordinary. Each is mended here: bookmarks keep the place, 410 lists anew, a
connection that is open but dead is noticed by its silence, and retries wait longer each time, with jitter.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any, Generic, NamedTuple, TypeVar

import aiohttp
import msgspec
from msgspec import Raw, Struct

from terrazzo.kube.client import Client, Listing
from terrazzo.kube.errors import ApiError, Garbled, Gone, Status, from_answer
from terrazzo.kube.kinds import Kind

_T = TypeVar("_T")

LASTS_S = 300
"""A watch is asked to end after this long or twice as long, so that replicas spread over API servers again."""
SILENCE_S = 90.0
"""Servers send a bookmark each minute; longer silence is a dead connection."""
FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 30.0


class Listed(NamedTuple, Generic[_T]):
    """All there are, as of ``version``; whatever was known before is replaced by this."""

    items: list[_T]
    version: str


class Changed(NamedTuple, Generic[_T]):
    """One was added or modified."""

    item: _T


class Deleted(NamedTuple, Generic[_T]):
    """One is gone; as it was last."""

    item: _T


class Mark(NamedTuple):
    """Nothing happened up to ``version``."""

    version: str


class Trouble(NamedTuple):
    """The watch is not following at the moment: why. It goes on by itself."""

    why: str


News = Listed[_T] | Changed[_T] | Deleted[_T] | Mark | Trouble


class _Envelope(Struct):
    type: str
    object: Raw


class _Meta(Struct, rename="camel"):
    resource_version: str = ""


class _Versioned(Struct):
    metadata: _Meta


async def follow(
    client: Client, kind: Kind, type_: type[_T], namespace: str = "", *, labels: str = "", fields: str = "",
    silence_s: float = SILENCE_S,
) -> AsyncGenerator[News[_T], None]:  # fmt: skip
    """Yield the list, then what happens to its objects, for ever; a new list whenever the place was lost.

    Args:
        client: the API server.
        kind: of the objects.
        type_: narrow struct to decode them to.
        namespace: one namespace; empty = all.
        labels: label selector.
        fields: field selector.
        silence_s: how long a watch may say nothing before it counts as dead.
    """
    version, failures = "", 0
    decoder = msgspec.json.Decoder(type_)
    while True:
        try:
            if not version:
                listing: Listing = await client.list(kind, type_, namespace, labels=labels, fields=fields)
                version = listing.version
                yield Listed(listing.items, version)
                for sentence in listing.damaged:
                    yield Trouble(sentence)
            query = _query(version, labels, fields)
            async with client.stream(kind.path(namespace), query, silence_s) as stream:
                async for line in _lines(stream):
                    version, news = _read(line, decoder, kind)
                    failures = 0
                    yield news
            # Ended in good order: go on from where it stopped. One that ends at once, again and again, is trouble.
            failures += 1
            await asyncio.sleep(_wait(failures - 1) if failures > 1 else random.uniform(0, 0.05))  # noqa: S311 - jitter
        except Gone:
            version, failures = "", failures + 1
            if failures > 1:
                await asyncio.sleep(_wait(failures - 1))
        except (ApiError, aiohttp.ClientError, TimeoutError, OSError) as error:
            failures += 1
            if isinstance(error, Garbled):
                version = ""
            yield Trouble(_why(error, kind))
            await asyncio.sleep(_wait(failures, error))


def _query(version: str, labels: str, fields: str) -> dict[str, str]:
    query = {
        "watch": "1",
        "allowWatchBookmarks": "true",
        "resourceVersion": version,
        "timeoutSeconds": str(random.randint(LASTS_S, 2 * LASTS_S)),  # noqa: S311 - spreads load
    }
    if labels:
        query["labelSelector"] = labels
    if fields:
        query["fieldSelector"] = fields
    return query


async def _lines(stream: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Yield lines of any length; one object may be larger than any buffer."""
    parts: list[bytes] = []
    async for chunk in stream.iter_any():
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            whole = b"".join((*parts, line))
            parts.clear()
            if whole:
                yield whole
        parts.append(rest)


def _read(line: bytes, decoder: msgspec.json.Decoder[_T], kind: Kind) -> tuple[str, News[_T]]:
    """Return the place after this line, and what it says.

    Raises:
        Gone: the server forgot the place.
        Garbled: the line is not what a watch says.
    """
    try:
        envelope = msgspec.json.decode(line, type=_Envelope)
        if envelope.type == "ERROR":
            code = msgspec.json.decode(envelope.object, type=Status).code
            raise from_answer(code or 500, bytes(envelope.object), where=f"WATCH {kind.plural}")
        version = msgspec.json.decode(envelope.object, type=_Versioned).metadata.resource_version
        if envelope.type == "BOOKMARK":
            return version, Mark(version)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Garbled(f"said something that cannot be read ({error})", where=f"WATCH {kind.plural}") from None
    try:
        item = decoder.decode(envelope.object)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        # One object that nobody can read must not stop us from following the others.
        return version, Trouble(f"WATCH {kind.plural}: an object cannot be read ({error})")
    make: Callable[[Any], News[_T]] = Deleted if envelope.type == "DELETED" else Changed
    return version, make(item)


def _why(error: BaseException, kind: Kind) -> str:
    if isinstance(error, ApiError):
        return str(error)
    return f"WATCH {kind.plural}: {str(error) or type(error).__name__}"


def _wait(failures: int, error: BaseException | None = None) -> float:
    asked = error.retry_after_s if isinstance(error, ApiError) else 0.0
    longest: float = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** min(failures, 10))
    return max(asked, longest * random.uniform(0.5, 1))  # noqa: S311 - jitter
