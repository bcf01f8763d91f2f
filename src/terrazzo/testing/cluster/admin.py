"""The cluster's API for tests that are plain functions: ``terrazzo.kube`` in a loop of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable
from typing import Any, Self, TypeVar

import msgspec

from terrazzo.kube.access import Access
from terrazzo.kube.client import MERGE, Client
from terrazzo.kube.errors import NotFound
from terrazzo.kube.kinds import Kind

_T = TypeVar("_T")


class Admin:
    """Plain calls to an API server; objects go in and come out as dicts.

    Args:
        access: the way there.

    Attributes:
        client: what it calls with; use it from coroutines given to ``run``.
    """

    def __init__(self, access: Access) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="admin", daemon=True)
        self._thread.start()
        self.client: Client = self.run(self._connect(access))

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    @staticmethod
    async def _connect(access: Access) -> Client:
        return Client(access, agent="terrazzo-harness", deadline_s=60.0)

    def run(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Return what a coroutine returns that runs in the loop of the client."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def call(self, verb: str, path: str, body: Any = None, *, form: str = "application/json") -> dict[str, Any]:
        """Return the answer to one call.

        Raises:
            ApiError: see ``terrazzo.kube.errors``.
        """
        answer: dict[str, Any] = msgspec.json.decode(self.run(self.client.call(verb, path, body=body, form=form)))
        return answer

    def get(self, kind: Kind, name: str, namespace: str = "") -> dict[str, Any]:
        """Return an object."""
        return self.call("GET", kind.path(namespace, name))

    def find(self, kind: Kind, name: str, namespace: str = "") -> dict[str, Any] | None:
        """Return an object, None when there is none."""
        try:
            return self.get(kind, name, namespace)
        except NotFound:
            return None

    def list(self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = "") -> list[dict[str, Any]]:
        """Return all objects of a kind."""
        type_ = dict[str, Any]
        return self.run(self.client.list(kind, type_, namespace, labels=labels, fields=fields)).items

    def create(self, kind: Kind, body: dict[str, Any], namespace: str = "") -> dict[str, Any]:
        """Create an object and return it."""
        return self.call("POST", kind.path(namespace), body)

    def create_all(self, kind: Kind, bodies: Iterable[dict[str, Any]], namespace: str = "") -> None:
        """Create many objects, as many at once as the client allows."""

        async def every() -> None:
            await asyncio.gather(*(self.client.create(kind, body, namespace) for body in bodies))

        self.run(every())

    def patch(
        self, kind: Kind, body: Any, name: str, namespace: str = "", *, subresource: str = "", form: str = MERGE
    ) -> dict[str, Any]:
        """Patch an object and return it."""
        return self.call("PATCH", kind.path(namespace, name, subresource), body, form=form)

    def delete(self, kind: Kind, name: str, namespace: str = "", *, grace_s: int | None = None) -> bool:
        """Delete an object; False when it is not there."""
        return self.run(self.client.delete(kind, name, namespace, grace_s=grace_s))

    def close(self) -> None:
        """Close the connections and end the loop."""
        self.run(self.client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
