"""The backlog's fast path: pods that queue up are told their node before kube-scheduler gets to them.

kube-scheduler looks at a nominated node first and alone, with all its hard rules and our filter, so the cost of a pod
no longer grows with the cluster. Nominations are hints: each is checked again, and one that grows old is taken back.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from terrazzo.control.books import Books
from terrazzo.control.placing import Placer
from terrazzo.control.pods import PodRow, Standing
from terrazzo.kube.client import Client
from terrazzo.kube.errors import ApiError
from terrazzo.kube.kinds import POD
from terrazzo.model.allocation import Allocation
from terrazzo.model.errors import RequestError
from terrazzo.model.request import PodRequest

AHEAD = 24
"""Pods at the head of the queue that kube-scheduler pops before a nomination could reach it: a nomination that crosses
a bind is written in vain, and the bind has to look at the pod again."""
BATCH = 96
MOST = 384
"""Nominations outstanding at once: others' filtering has to count each of them."""
PATIENCE_S = 20.0


class _Promise(NamedTuple):
    """A node that a pod was told, and when."""

    request: PodRequest
    node: str
    since: float


class Nominator:
    """Nominates nodes for pods that queue up.

    Args:
        books: the cluster.
        placer: places nominated pods hypothetically.
        client: the API server.
        scheduler: name of the scheduler that asks our extender.
        backlog: queued pods from which on it is worth it; 0 = never.
        log: warnings.
    """

    def __init__(self, books: Books, placer: Placer, client: Client, *, scheduler: str, backlog: int, log: Any) -> None:
        self._books = books
        self._placer = placer
        self._client = client
        self._scheduler = scheduler
        self._backlog = backlog
        self._log = log
        self._ours: dict[str, _Promise] = {}

    async def round(self, now: float) -> int:
        """Nominate nodes for the next pods of a backlog and take old nominations back; return how many are new."""
        await self._take_back(now)
        queued = self._queued()
        if not self._backlog or len(queued) < self._backlog:
            return 0
        room = min(BATCH, MOST - len(self._ours))
        told = self._ours
        next_ = [row for row in queued[AHEAD:] if not (row.soft or row.nominated or row.uid in told)]
        plan = self.plan(next_[:room]) if room > 0 else []
        for row, node in plan:
            self._ours[row.uid] = _Promise(row.request, node, now)
        await asyncio.gather(*(self._set(row, node) for row, node in plan))
        return len(plan)

    def _queued(self) -> list[PodRow]:
        """Return the pods that queue up, in the order in which kube-scheduler takes them."""
        found = [
            row
            for row in self._books.unbound.values()
            if row.standing is Standing.QUEUED and row.scheduler == self._scheduler and not row.leaving
        ]
        # Of one second the books have them in the order in which they came.
        return sorted(found, key=lambda row: (-row.request.priority, row.request.created_s))

    def plan(self, rows: list[PodRow]) -> list[tuple[PodRow, str]]:
        """Return a node for each pod that fits now, all of them and all nominated pods together."""
        books, fleet = self._books, self._books.ledger.fleet
        promised = [(row.request, node) for node, pods in books.nominated.items() for row in pods.values()]
        told = {request.key for request, _ in promised}
        # What was written a moment ago the watch may not have told yet.
        promised += [(each.request, each.node) for uid, each in self._ours.items() if uid not in told]
        found: list[tuple[PodRow, str]] = []
        with self._placer.placed(promised):
            try:
                for row in rows:
                    allocation = self._decided(row)
                    if allocation is not None:
                        fleet.grant(allocation)
                        found.append((row, allocation.node))
            finally:
                for row, _ in found:
                    fleet.release(row.uid)
        return found

    def _decided(self, row: PodRow) -> Allocation | None:
        books = self._books
        try:
            request = books.resolve(row.request)
        except RequestError:
            return None
        if books.barred(request) or books.ledger.fleet.allocation(row.uid) is not None:
            return None
        allocation = books.engine.decide(request)
        if allocation is not None:
            self._placer.expect(allocation)
        return allocation

    async def _take_back(self, now: float) -> None:
        for uid, promise in list(self._ours.items()):
            row = self._books.pods.get(uid)
            if row is None or row.standing is Standing.BOUND or (row.nominated and row.nominated != promise.node):
                del self._ours[uid]
            elif now - promise.since > PATIENCE_S:
                del self._ours[uid]
                if row.nominated == promise.node:
                    await self._set(row, "")

    async def _set(self, row: PodRow, node: str) -> None:
        body = {"metadata": {"uid": row.uid}, "status": {"nominatedNodeName": node or None}}
        try:
            await self._client.patch(POD, body, row.request.name, row.request.namespace, subresource="status")
        except ApiError as error:
            # It is bound already, or gone: nothing was lost.
            self._ours.pop(row.uid, None)
            self._log.debug("nominate", pod=row.request.title, error=str(error))
