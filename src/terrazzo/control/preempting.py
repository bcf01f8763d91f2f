"""Preemption for devices: the cheapest victims are evicted for a pod that comes first.

kube-scheduler cannot do this: it does not know that a victim's devices would help. The order of steps is such that a
kill between any two leaves nothing behind: the pod is nominated first, which keeps others off what comes free, then
victims are evicted through the Eviction API, which honours disruption budgets. A nomination that leads nowhere is
taken back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from terrazzo.control.books import Books
from terrazzo.control.pods import PodRow
from terrazzo.kube.client import Client
from terrazzo.kube.errors import ApiError, NotFound
from terrazzo.kube.events import Subject, Teller
from terrazzo.kube.kinds import POD
from terrazzo.model.allocation import Allocation
from terrazzo.model.errors import RequestError
from terrazzo.placement.preempt import Budget, Victims, cheapest_victims
from terrazzo.wire import kubernetes as k8s

FIRST_WAIT_S = 2.0
LONGEST_WAIT_S = 120.0
NODES = 100
"""Nodes looked at for victims, as kube-scheduler's own preemption does (``minCandidateNodesAbsolute``)."""
PATIENCE_S = 60.0
"""A nominated pod that is still rejected this long after its victims went loses its nomination."""


class _Try(Struct):
    after: float
    wait_s: float


class Preemptor:
    """Evicts for pods that come first.

    Args:
        books: the cluster.
        client: the API server.
        teller: posts events.
        log: one line per preemption.
    """

    def __init__(self, books: Books, client: Client, teller: Teller, log: Any) -> None:
        self._books = books
        self._client = client
        self._teller = teller
        self._log = log
        self._budgets: dict[tuple[str, str], Budget] = {}
        self._tries: dict[str, _Try] = {}
        self._nominated_at: dict[str, float] = {}

    def budget_seen(self, each: k8s.DisruptionBudget) -> None:
        """Take a disruption budget as it is now. One that selects by expressions counts for its whole namespace."""
        selector = each.spec.selector or k8s.LabelSelector()
        labels = () if selector.match_expressions else tuple(sorted((selector.match_labels or {}).items()))
        key = (each.metadata.namespace, each.metadata.name)
        self._budgets[key] = Budget(each.metadata.namespace, labels, each.status.disruptions_allowed)

    def budget_gone(self, namespace: str, name: str) -> None:
        """Take a disruption budget out."""
        self._budgets.pop((namespace, name), None)

    def budgets_listed(self, items: Iterable[k8s.DisruptionBudget]) -> None:
        """Take all disruption budgets there are."""
        self._budgets.clear()
        for each in items:
            self.budget_seen(each)

    async def round(self, now: float) -> int:
        """Help the most urgent pods that wait; return for how many victims were evicted."""
        rows = self._books.waiting()
        alive = {row.uid for row in rows}
        for kept in (self._tries, self._nominated_at):
            for uid in [uid for uid in kept if uid not in alive]:
                del kept[uid]
        helped = 0
        for row in rows:
            if row.nominated:
                await self._take_back_late(row, now)
            elif row.preempts and self._is_due(row, now):
                helped += await self._help(row, now)
            if helped == 4:
                break
        return helped

    def _is_due(self, row: PodRow, now: float) -> bool:
        tried = self._tries.get(row.uid)
        return tried is None or now >= tried.after

    async def _help(self, row: PodRow, now: float) -> bool:
        before = self._tries.get(row.uid)
        wait_s = min(LONGEST_WAIT_S, before.wait_s * 2) if before is not None else FIRST_WAIT_S
        self._tries[row.uid] = _Try(now + wait_s, wait_s)
        victims = self.victims(row)
        if victims is None or not victims.pods or not await self._nominate(row, victims.node):
            return False
        self._nominated_at[row.uid] = now
        for victim in victims.pods:
            if not await self._evict(victim, row):
                await self._nominate(row, "")
                return False
        who = ", ".join(victim.title for victim in victims.pods)
        self._log.info("preempt", pod=row.request.title, uid=row.uid, node=victims.node, victims=who)
        return True

    def victims(self, row: PodRow) -> Victims | None:
        """Return who would have to go for a pod, without breaking a budget; None when that helps nobody."""
        books = self._books
        try:
            request = books.resolve(row.request)
        except RequestError:
            return None
        if books.barred(request):
            return None
        lower: dict[str, int] = {}
        leaving: set[str] = set()
        for held in books.ledger.fleet.allocations():
            other = books.pods.get(held.pod)
            if held.uses and held.priority < request.priority:
                lower[held.node] = lower.get(held.node, 0) + 1
            if other is not None and other.leaving:
                leaving.add(held.pod)
        among = sorted(lower, key=lambda node: (-lower[node], node))[:NODES]
        if not among:
            return None
        budgets = tuple(self._budgets.values())
        found = cheapest_victims(books.engine, request, budgets, among=among, leaving=leaving)
        return found if found is not None and not found.violations else None

    async def _nominate(self, row: PodRow, node: str) -> bool:
        body = {"metadata": {"uid": row.uid}, "status": {"nominatedNodeName": node or None}}
        try:
            await self._client.patch(POD, body, row.request.name, row.request.namespace, subresource="status")
        except ApiError as error:
            self._log.warning("nominate", pod=row.request.title, node=node, error=str(error))
            return False
        return True

    async def _evict(self, victim: Allocation, preemptor: PodRow) -> bool:
        """Evict one victim; False where a budget or the server does not let us."""
        note = (
            f"Preempted by pod {preemptor.request.title}, which has priority {preemptor.request.priority}, for devices."
        )
        condition = {
            "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": note,
        }  # fmt: skip
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": victim.name, "namespace": victim.namespace},
            "deleteOptions": {"preconditions": {"uid": victim.pod}},
        }
        try:
            await self._client.create(POD, body, victim.namespace, name=victim.name, subresource="eviction")
        except NotFound:
            return True
        except ApiError as error:
            self._log.warning("evict", victim=victim.title, preemptor=preemptor.request.title, error=str(error))
            return False
        try:
            # With the strategic form conditions are merged by their type instead of replaced.
            status = {"metadata": {"uid": victim.pod}, "status": {"conditions": [condition]}}
            form = "application/strategic-merge-patch+json"
            await self._client.patch(POD, status, victim.name, victim.namespace, subresource="status", form=form)
        except ApiError:
            return True
        finally:
            about = Subject("Pod", victim.name, victim.namespace, victim.pod)
            await self._teller.tell(about, "Preempted", note, action="Preempting")
        return True

    async def _take_back_late(self, row: PodRow, now: float) -> None:
        """Take back a nomination of ours that led nowhere. One of somebody else is not ours to take."""
        since = self._nominated_at.get(row.uid)
        if since is not None and now - since > PATIENCE_S and await self._nominate(row, ""):
            del self._nominated_at[row.uid]
