"""etcd itself: every version of every object that the API server ever wrote, and forgetting them on purpose.

Watches through the API server show what a client happened to see. What stands in etcd is what was true at each moment,
so tests that promise something of every moment read it here.
"""

from __future__ import annotations

import base64
import secrets
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import msgspec

from terrazzo.model.errors import TerrazzoError

FLAGS = ("--storage-media-type=application/json", "--etcd-compaction-interval=0")
"""Of an API server whose history is to be read: objects as JSON, and none forgotten."""
DEADLINE_S = 30.0
_MARK = b"/terrazzo/mark"


class Version(NamedTuple):
    """One version of one object.

    Attributes:
        revision: of etcd, which is the ``resourceVersion``; they only grow.
        kind: plural name, such as ``pods``.
        name: ``NAMESPACE/NAME``, or the name alone where there are no namespaces.
        body: the object; None when this revision deleted it.
    """

    revision: int
    kind: str
    name: str
    body: dict[str, Any] | None


class _Header(msgspec.Struct):
    revision: str = "0"


class _Value(msgspec.Struct):
    key: bytes
    mod_revision: str
    value: bytes = b""


class _Event(msgspec.Struct):
    kv: _Value
    type: Literal["PUT", "DELETE"] = "PUT"


class _Result(msgspec.Struct):
    events: list[_Event] = []
    canceled: bool = False
    cancel_reason: str = ""
    compact_revision: str = "0"


class _Answer(msgspec.Struct):
    header: _Header = msgspec.field(default_factory=_Header)


class _Line(msgspec.Struct):
    result: _Result = msgspec.field(default_factory=_Result)


class Store:
    """An etcd by its JSON gateway (etcd documentation, "gRPC gateway").

    Args:
        url: of its clients.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def history(self, *kinds: str, since: int = 0) -> Iterator[Version]:
        """Yield all versions of all objects of these kinds up to now, in the order in which they came about.

        Args:
            *kinds: plural names, such as ``pods``.
            since: only what came after this revision.

        Raises:
            TerrazzoError: etcd does not answer, has forgotten that revision, or holds what is not JSON (start the API
                server with ``FLAGS``).
        """
        last = self._put(_MARK, secrets.token_bytes(8))
        wanted = {kind.encode() for kind in kinds}
        request = {"key": b"/", "range_end": b"0", "start_revision": str(since + 1)}
        decoder = msgspec.json.Decoder(_Line)
        with self._open("/v3/watch", {"create_request": request}) as stream:
            for line in stream:
                result = decoder.decode(line).result
                if result.canceled:
                    what = f"cannot tell its history ({result.cancel_reason or result.compact_revision})"
                    raise TerrazzoError(what, where=self.url)
                for event in result.events:
                    version = _version(event, wanted)
                    if version is not None:
                        yield version
                    if int(event.kv.mod_revision) >= last:
                        return

    def compact(self) -> int:
        """Forget all versions but the present ones, as etcd does now and then; return the revision of that.

        A watch that goes on from before it gets 410 Gone.
        """
        revision = self._put(_MARK, secrets.token_bytes(8))
        with self._open("/v3/kv/compaction", {"revision": str(revision), "physical": True}):
            return revision

    def _put(self, key: bytes, value: bytes) -> int:
        with self._open("/v3/kv/put", {"key": key, "value": value}) as answer:
            return int(msgspec.json.decode(answer.read(), type=_Answer).header.revision)

    def _open(self, path: str, body: dict[str, Any]) -> Any:
        request = urllib.request.Request(self.url + path, msgspec.json.encode(body), method="POST")  # noqa: S310 - ours
        try:
            return self._opener.open(request, timeout=DEADLINE_S)
        except (urllib.error.URLError, OSError) as error:
            raise TerrazzoError(f"does not answer ({error})", where=self.url + path) from None


def _version(event: _Event, wanted: set[bytes]) -> Version | None:
    # /registry/KIND/[NAMESPACE/]NAME; groups do not show, except those of custom resources.
    parts = event.kv.key.split(b"/")
    if len(parts) < 4 or parts[1] != b"registry" or parts[2] not in wanted:
        return None
    name = b"/".join(parts[3:]).decode()
    try:
        body = None if event.type == "DELETE" else msgspec.json.decode(event.kv.value)
    except (msgspec.DecodeError, UnicodeDecodeError):
        start = base64.b64encode(event.kv.value[:12]).decode()
        raise TerrazzoError(
            f"{name} is not JSON ({start}…)", where="etcd", remedy=f"start the API server with {' '.join(FLAGS)}"
        ) from None
    return Version(int(event.kv.mod_revision), parts[2].decode(), name, body)
