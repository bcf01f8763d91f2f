"""The backlog's fast path: pods that queue up are told their node before kube-scheduler gets to them.

kube-scheduler looks at a nominated node first and alone, with all its hard rules and our filter, so the cost of a pod
no longer grows with the cluster. Nominations are hints: each is checked again, and one that grows old is taken back.
"""

from __future__ import annotations

import asyncio
from typing import Any

from terrazzo.control.books import Books
from terrazzo.control.placing import Placer
from terrazzo.control.pods import PodRow, Standing
from terrazzo.kube.client import Client
from terrazzo.kube.errors import ApiError
from terrazzo.kube.kinds import POD
from terrazzo.model.errors import RequestError

AHEAD = 4
"""Pods at the head of the queue that kube-scheduler pops before a nomination could reach it."""
BATCH = 48
MOST = 256
"""Nominations outstanding at once: others' filtering has to count each of them."""
PATIENCE_S = 20.0


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
        self._ours: dict[str, tuple[str, float]] = {}

    async def round(self, now: float) -> int:
        """Nominate nodes for the next pods of a backlog and take old nominations back; return how many are new."""
        await self._take_back(now)
        queued = self._queued()
        if not self._backlog or len(queued) < self._backlog:
            return 0
        room = MOST - len(self._ours)
        plan = self.plan(queued[AHEAD : AHEAD + min(BATCH, room)]) if room > 0 else []
        for row, node in plan:
            self._ours[row.uid] = (node, now)
        await asyncio.gather(*(self._set(row, node) for row, node in plan))
        return len(plan)

    def _queued(self) -> list[PodRow]:
        found = [
            row
            for row in self._books.pods.values()
            if row.standing is Standing.QUEUED
            and row.scheduler == self._scheduler
            and not (row.soft or row.nominated or row.leaving or row.uid in self._ours)
        ]
        return sorted(found, key=lambda row: (-row.request.priority, row.request.created_s, row.version))

    def plan(self, rows: list[PodRow]) -> list[tuple[PodRow, str]]:
        """Return a node for each pod that fits now, all of them and all nominated pods together."""
        books, fleet = self._books, self._books.ledger.fleet
        found: list[tuple[PodRow, str]] = []
        taken: list[str] = []
        try:
            for node, pods in books.nominated.items():
                for row in pods.values():
                    allocation = None if fleet.allocation(row.uid) else books.engine.try_on(row.request, node)
                    if allocation is not None:
                        fleet.grant(allocation)
                        taken.append(row.uid)
            for row in rows:
                try:
                    request = books.resolve(row.request)
                except RequestError:
                    continue
                if books.barred(request) or fleet.allocation(row.uid) is not None:
                    continue
                allocation = books.engine.decide(request)
                if allocation is not None:
                    fleet.grant(allocation)
                    taken.append(row.uid)
                    found.append((row, allocation.node))
        finally:
            for uid in taken:
                fleet.release(uid)
        return found

    async def _take_back(self, now: float) -> None:
        for uid, (node, since) in list(self._ours.items()):
            row = self._books.pods.get(uid)
            if row is None or row.standing is Standing.BOUND or (row.nominated and row.nominated != node):
                del self._ours[uid]
            elif now - since > PATIENCE_S:
                del self._ours[uid]
                if row.nominated == node:
                    await self._set(row, "")

    async def _set(self, row: PodRow, node: str) -> None:
        body = {"metadata": {"uid": row.uid}, "status": {"nominatedNodeName": node or None}}
        try:
            await self._client.patch(POD, body, row.request.name, row.request.namespace, subresource="status")
        except ApiError as error:
            # It is bound already, or gone: nothing was lost.
            self._ours.pop(row.uid, None)
            self._log.debug("nominate", pod=row.request.title, error=str(error))
