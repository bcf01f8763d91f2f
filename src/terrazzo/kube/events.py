"""Kubernetes Events (events.k8s.io/v1): what ``kubectl describe`` shows below an object."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from terrazzo.kube.client import Client
from terrazzo.kube.errors import ApiError
from terrazzo.kube.kinds import EVENT

LONGEST_NOTE = 1024
"""API reference, Event v1: ``note`` is at most 1 kB."""
REMEMBERED = 4096


class Subject(Struct, frozen=True):
    """What an event is about."""

    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    api_version: str = "v1"


class Teller:
    """Posts events; the same sentence about the same object again within ``quiet_s`` is not repeated.

    Args:
        client: the API server.
        reporter: who speaks, such as ``terrazzo-reconciler``.
        instance: which replica.
        quiet_s: silence after a sentence.
    """

    def __init__(self, client: Client, reporter: str, instance: str, quiet_s: float = 300) -> None:
        self._client = client
        self._reporter = f"terrazzo.io/{reporter}"
        self._instance = instance[:128]
        self._quiet_s = quiet_s
        self._told: OrderedDict[tuple[str, str, str], float] = OrderedDict()

    async def tell(self, about: Subject, reason: str, note: str, *, warning: bool = False, action: str = "") -> bool:
        """Post an event; False when it was said lately or cannot be said. An event is never worth failing for."""
        now = datetime.now(UTC)
        key = (about.uid or f"{about.kind} {about.namespace}/{about.name}", reason, note)
        if time.monotonic() - self._told.get(key, -self._quiet_s) < self._quiet_s:
            return False
        self._told[key] = time.monotonic()
        self._told.move_to_end(key)
        while len(self._told) > REMEMBERED:
            self._told.popitem(last=False)
        try:
            await self._client.create(EVENT, self._event(about, reason, note, warning, action, now), _home(about))
        except ApiError:
            self._told.pop(key, None)
            return False
        return True

    def _event(
        self, about: Subject, reason: str, note: str, warning: bool, action: str, now: datetime
    ) -> dict[str, Any]:
        mark = hashlib.sha256(f"{about}{reason}{note}{now.timestamp()}".encode()).hexdigest()[:16]
        note = (
            note
            if len(note.encode()) <= LONGEST_NOTE
            else note.encode()[: LONGEST_NOTE - 3].decode("utf-8", "ignore") + "…"
        )
        return {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.name,
            "metadata": {"name": f"{about.name[:200].rstrip('-.')}.{mark}", "namespace": _home(about)},
            "eventTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": self._reporter,
            "reportingInstance": self._instance,
            "action": action or reason,
            "reason": reason,
            "type": "Warning" if warning else "Normal",
            "note": note,
            "regarding": {
                "apiVersion": about.api_version,
                "kind": about.kind,
                "namespace": about.namespace,
                "name": about.name,
                "uid": about.uid,
            },
        }


def _home(about: Subject) -> str:
    return about.namespace or "default"
