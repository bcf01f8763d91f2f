"""Claims as they should be: one for each bound pod of a ``dra`` node, none for anybody else.

The API server's objects are compared with the books again and again, so it does not matter who was killed where:
half-written binds are undone, and a claim that somebody deleted while its pod lives is written again under its name.
"""

from __future__ import annotations

import time
from collections.abc import Collection

from msgspec import Struct

from terrazzo.control import claims
from terrazzo.control.binding import Binder, granted
from terrazzo.control.books import Books
from terrazzo.control.pods import Standing
from terrazzo.dialects import holdings
from terrazzo.kube.client import Client, decode
from terrazzo.kube.errors import ApiError, Conflict
from terrazzo.kube.kinds import CLAIM
from terrazzo.model.errors import TerrazzoError
from terrazzo.wire.claims import Claim

STALE_S = 5.0
"""A claim that no pod refers to is left alone for this long: its bind may still be under way, here or elsewhere."""


class ClaimRow(Struct, frozen=True):
    """A claim of ours, as it was last seen.

    Attributes:
        namespace, name, uid: identity.
        pod: UID of the pod that owns it.
        allocated: it has devices.
        leaving: it is being deleted.
        since: our clock when it was first seen.
    """

    namespace: str
    name: str
    uid: str
    pod: str
    allocated: bool
    leaving: bool
    since: float


class Claims:
    """The claims of ours that the API server has.

    Args:
        books: the cluster.
        binder: knows which binds are under way here, and takes claims back.
        client: the API server.
    """

    def __init__(self, books: Books, binder: Binder, client: Client) -> None:
        self._books = books
        self._binder = binder
        self._client = client
        self._rows: dict[str, ClaimRow] = {}

    def seen(self, claim: Claim) -> None:
        """Take a claim as it is now; claims of others are left alone."""
        meta = claim.metadata
        ours = (meta.labels or {}).get(claims.OURS) == claims.MANAGER
        owner = next((o.uid for o in meta.owner_references or () if o.kind == "Pod" and o.controller), "")
        if not ours or not owner:
            self._rows.pop(meta.uid, None)
            return
        before = self._rows.get(meta.uid)
        self._rows[meta.uid] = ClaimRow(
            meta.namespace, meta.name, meta.uid, owner, claim.status.allocation is not None,
            meta.deletion_timestamp is not None, before.since if before else time.monotonic(),
        )  # fmt: skip

    def gone(self, uid: str) -> None:
        """Take a claim out."""
        self._rows.pop(uid, None)

    def listed(self, items: Collection[Claim]) -> None:
        """Take all claims there are; the others are gone."""
        alive = {claim.metadata.uid for claim in items}
        for uid in [uid for uid in self._rows if uid not in alive]:
            del self._rows[uid]
        for claim in items:
            self.seen(claim)

    def stale(self, now: float) -> list[ClaimRow]:
        """Return the claims that belong to no pod as it is now."""
        return [row for row in self._rows.values() if now - row.since >= STALE_S and not self._is_used(row)]

    def _is_used(self, row: ClaimRow) -> bool:
        if row.pod in self._binder.running:
            return True
        pod = self._books.pods.get(row.pod)
        return (
            pod is not None
            and pod.standing is Standing.BOUND
            and pod.claim == row.name
            and row.namespace == pod.request.namespace
        )

    def missing(self) -> list[str]:
        """Return the UIDs of bound pods whose claim is not there, or is on its way out."""
        there = {(row.namespace, row.name) for row in self._rows.values() if row.allocated and not row.leaving}
        return [
            uid
            for uid, pod in self._books.pods.items()
            if pod.claim
            and pod.standing is Standing.BOUND
            and not pod.leaving
            and (pod.request.namespace, pod.claim) not in there
            and self._books.ledger.fleet.allocation(uid) is not None
            and uid not in self._binder.running
        ]

    async def mend(self, now: float) -> dict[str, int]:
        """Delete what is stale and rebuild what is missing; return how many of each."""
        done = {"stale claim": 0, "missing claim": 0}
        for row in self.stale(now):
            await self._binder.undo(row.namespace, row.name, row.uid)
            done["stale claim"] += 1
        for uid in self.missing():
            done["missing claim"] += await self.rebuild(uid)
        return done

    async def rebuild(self, uid: str) -> bool:
        """Write the claim of a bound pod again, under the name that the pod's status has; False where that failed."""
        pod, allocation = self._books.pods[uid], self._books.ledger.fleet.allocation(uid)
        if allocation is None or not allocation.uses:
            return False
        namespace, name = pod.request.namespace, pod.claim
        body = claims.claim(name, pod.request, allocation, holdings.written(allocation), granted(allocation))
        try:
            status = claims.status(pod.request, allocation, self._books.device_names.get(allocation.node, {}))
            try:
                made = decode(await self._client.create(CLAIM, body, namespace), Claim)
            except Conflict:
                made = await self._client.get(CLAIM, Claim, name, namespace)
                if made.metadata.deletion_timestamp is not None:
                    # Somebody deleted it and our finalizer holds it: let it go, the next round writes it again.
                    await self._binder.undo(namespace, name, made.metadata.uid)
                    return False
                if made.status.allocation is not None:
                    return False
            body["metadata"].update(uid=made.metadata.uid, resourceVersion=made.metadata.resource_version)
            await self._client.replace(CLAIM, {**body, "status": status}, name, namespace, subresource="status")
        except (ApiError, TerrazzoError):
            return False
        return True
