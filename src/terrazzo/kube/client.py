"""Calls to an API server: typed objects in and out, typed errors, patience where it is safe."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, Self, TypeVar

import aiohttp
import msgspec
from msgspec import Raw, Struct, field

from terrazzo.kube.access import Access
from terrazzo.kube.errors import (
    ApiError,
    Garbled,
    NotFound,
    ServerFault,
    TooMany,
    Unauthorized,
    Unreachable,
    from_answer,
)  # fmt: skip
from terrazzo.kube.kinds import Kind

_T = TypeVar("_T")

PAGE = 500
"""Objects per page of a list, as client-go asks."""
ATTEMPTS = 5
FIRST_WAIT_S = 0.2
LONGEST_WAIT_S = 10.0
IN_FLIGHT = 64
"""Calls at once; more would only wait in the server's queues (API priority and fairness)."""

MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"


class Listing(NamedTuple):
    """A whole list as of one moment, and a sentence for each object that could not be read and was left out."""

    items: list[Any]
    version: str
    damaged: tuple[str, ...] = ()


class _ListMeta(Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = field(default="", name="continue")


class _Page(Struct):
    metadata: _ListMeta = field(default_factory=_ListMeta)
    items: list[Raw] | None = None


class Client:
    """One API server.

    Args:
        access: the way there.
        agent: ``User-Agent``, which shows in the server's audit log.
        deadline_s: for one call.
    """

    def __init__(self, access: Access, *, agent: str = "terrazzo", deadline_s: float = 15.0) -> None:
        self.access = access
        self._agent = agent
        self._deadline_s = deadline_s
        self._session: aiohttp.ClientSession | None = None
        self._gate = asyncio.Semaphore(IN_FLIGHT)
        self.calls: dict[str, int] = {}
        """Calls made so far, by verb: what tests and benches count."""

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close."""
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    # -- verbs ---------------------------------------------------------------------------------------------------

    async def get(self, kind: Kind, type_: type[_T], name: str, namespace: str = "", *, deadline_s: float = 0) -> _T:
        """Return one object.

        Raises:
            ApiError: see ``terrazzo.kube.errors``.
        """
        body = await self.call("GET", kind.path(namespace, name), deadline_s=deadline_s)
        return _decode(body, type_, kind.path(namespace, name))

    async def list(
        self, kind: Kind, type_: type[_T], namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> Listing:
        """Return all objects as of one moment, read page by page; objects that cannot be decoded are left out.

        Raises:
            Gone: the pages' moment passed while they were read; list again.
            ApiError: see ``terrazzo.kube.errors``.
        """
        path, decoder = kind.path(namespace), msgspec.json.Decoder(type_)
        items: list[_T] = []
        damaged: list[str] = []
        query = {"limit": str(PAGE), **_selectors(labels, fields)}
        while True:
            page = _decode(await self.call("GET", path, query=query), _Page, path)
            if not page.metadata.resource_version:
                # Whatever this is, it is no list, and must not be taken for an empty one.
                raise Garbled("answered no list", where=path)
            for raw in page.items or ():
                try:
                    items.append(decoder.decode(raw))
                except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                    damaged.append(f"{path}: {_name_in(raw)} cannot be read ({error})")
            if not page.metadata.continue_:
                return Listing(items, page.metadata.resource_version, tuple(damaged))
            query["continue"] = page.metadata.continue_

    async def create(
        self, kind: Kind, body: Any, namespace: str = "", *, name: str = "", subresource: str = "",
        deadline_s: float = 0,
    ) -> bytes:  # fmt: skip
        """Create an object, or a subresource of one (``binding``, ``eviction``, ``token``); return the answer.

        It is sent once: whether a create that was not answered happened, only reading tells.
        """
        path = kind.path(namespace, name, subresource)
        return await self.call("POST", path, body=body, once=True, deadline_s=deadline_s)

    async def replace(
        self, kind: Kind, body: Any, name: str, namespace: str = "", *, subresource: str = "", deadline_s: float = 0
    ) -> bytes:
        """Replace an object; with a resourceVersion in it, only as it was read."""
        path = kind.path(namespace, name, subresource)
        return await self.call("PUT", path, body=body, once=True, deadline_s=deadline_s)

    async def patch(
        self, kind: Kind, body: Any, name: str, namespace: str = "", *, subresource: str = "", form: str = MERGE,
        query: Mapping[str, str] | None = None, deadline_s: float = 0,
    ) -> bytes:  # fmt: skip
        """Patch an object (RFC 7386 by default) and return it as it is then."""
        path = kind.path(namespace, name, subresource)
        return await self.call("PATCH", path, body=body, form=form, query=query, once=True, deadline_s=deadline_s)

    async def delete(
        self, kind: Kind, name: str, namespace: str = "", *, uid: str = "", grace_s: int | None = None
    ) -> bool:
        """Delete an object, only the one with this UID when one is given; False when it is not there."""
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid:
            options["preconditions"] = {"uid": uid}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        try:
            await self.call("DELETE", kind.path(namespace, name), body=options)
        except NotFound:
            return False
        return True

    async def serves(self, kind: Kind) -> bool:
        """Return whether the server knows this kind in this version."""
        root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        try:
            body = await self.call("GET", root)
        except NotFound:
            return False
        found = _decode(body, dict[str, Any], root).get("resources") or ()
        return any(isinstance(each, dict) and each.get("name") == kind.plural for each in found)

    # -- one call ------------------------------------------------------------------------------------------------

    async def call(
        self, verb: str, path: str, *, body: Any = None, query: Mapping[str, str] | None = None,
        form: str = "application/json", once: bool = False, deadline_s: float = 0,
    ) -> bytes:  # fmt: skip
        """Make one call and return the answer's body.

        A call that the server turned away (429) is always made again; one of which nothing is known (5xx, no answer)
        only where doing it twice is the same as once.

        Raises:
            ApiError: see ``terrazzo.kube.errors``.
        """
        refused = False
        for attempt in range(ATTEMPTS):
            try:
                async with self._answer(verb, path, body, query, form, deadline_s or self._deadline_s) as answer:
                    return await answer.read()
            except TooMany as error:
                # An eviction that a budget forbids is a decision, not a queue.
                if attempt == ATTEMPTS - 1 or path.endswith("/eviction"):
                    raise
                await self._pause(attempt, error)
            except Unauthorized:
                if refused:
                    raise
                refused = True
            except (ServerFault, Unreachable) as error:
                if once or attempt == ATTEMPTS - 1:
                    raise
                await self._pause(attempt, error)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                if once or attempt == ATTEMPTS - 1:
                    raise _unreachable(error, f"{verb} {path}") from None
                await self._pause(attempt, None)
        raise Unreachable("gave up", where=f"{verb} {path}")

    @asynccontextmanager
    async def _answer(
        self, verb: str, path: str, body: Any, query: Mapping[str, str] | None, form: str, deadline_s: float
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        where = f"{verb} {path}"
        data = None if body is None else body if isinstance(body, bytes) else msgspec.json.encode(body)
        headers = await self._headers()
        if data is not None:
            headers["Content-Type"] = form
        self.calls[verb] = self.calls.get(verb, 0) + 1
        timeout = aiohttp.ClientTimeout(total=deadline_s, sock_connect=5)
        async with self._gate:
            try:
                async with self.session().request(
                    verb, self.access.server + path, params=query, data=data, headers=headers, timeout=timeout,
                    allow_redirects=False,
                ) as answer:  # fmt: skip
                    await self._check(answer, where)
                    yield answer
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise _unreachable(error, where) from None

    @asynccontextmanager
    async def stream(
        self, path: str, query: Mapping[str, str], silence_s: float
    ) -> AsyncIterator[aiohttp.StreamReader]:
        """Open a watch and give its bytes; silence longer than ``silence_s`` ends it with a TimeoutError."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=silence_s)
        self.calls["WATCH"] = self.calls.get("WATCH", 0) + 1
        async with self.session().get(
            self.access.server + path, params=query, headers=await self._headers(), timeout=timeout,
            allow_redirects=False,
        ) as answer:  # fmt: skip
            await self._check(answer, f"WATCH {path}")
            yield answer.content

    async def _check(self, answer: aiohttp.ClientResponse, where: str) -> None:
        if answer.status == 401:
            self.access.token.refused()
        if answer.status >= 300:
            said = await answer.content.read(1 << 16)
            raise from_answer(answer.status, said, where=where, retry_after=answer.headers.get("Retry-After", ""))
        kind = answer.headers.get("Content-Type", "")
        if "json" not in kind:
            start = (await answer.content.read(80)).decode("utf-8", "replace").strip()
            raise Garbled(f"answered {kind or 'no type'}: {start!r}", where=where, status=answer.status)

    async def _headers(self) -> dict[str, str]:
        token = await self.access.token.get()
        bearer = {"Authorization": f"Bearer {token}"} if token else {}
        # Long lists are compressed for whoever does not forbid it, which takes longer than to send them.
        said = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": self._agent}
        return {**said, **bearer}

    def session(self) -> aiohttp.ClientSession:
        """Return the session, made at first use inside the running loop."""
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0, ssl=self.access.tls or True, keepalive_timeout=60)
            # Proxies and certificates from the environment must not decide whom we talk to.
            self._session = aiohttp.ClientSession(connector=connector, trust_env=False, read_bufsize=1 << 20)
        return self._session

    async def _pause(self, attempt: int, error: ApiError | None) -> None:
        wait = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2**attempt)
        wait = max(wait * (0.5 + random.random() / 2), error.retry_after_s if error else 0)  # noqa: S311 - jitter
        await asyncio.sleep(wait)


def _unreachable(error: BaseException, where: str) -> Unreachable:
    said = str(error) or type(error).__name__
    return Unreachable(f"no answer ({said})", where=where)


def _selectors(labels: str, fields: str) -> dict[str, str]:
    return {name: value for name, value in (("labelSelector", labels), ("fieldSelector", fields)) if value}


class _Named(Struct):
    metadata: dict[str, Any] = field(default_factory=dict)


def _name_in(raw: Raw) -> str:
    try:
        metadata = msgspec.json.decode(raw, type=_Named).metadata
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return "an object"
    return f"{metadata.get('namespace', '')}/{metadata.get('name', '')}".strip("/") or "an object"


def _decode(body: bytes, type_: type[_T], where: str) -> _T:
    try:
        return msgspec.json.decode(body, type=type_)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Garbled(f"cannot be read ({error})", where=where) from None


def decode(body: bytes, type_: type[_T]) -> _T:
    """Return the object in an answer.

    Raises:
        Garbled: it has another shape.
    """
    return _decode(body, type_, "answer")
