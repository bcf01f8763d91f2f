"""Pods that wait for devices: woken when there is something for them, and told meanwhile what they wait for.

kube-scheduler does not know when devices come free, so a waiting pod is changed a little, which makes it look again.
Only pods that would fit now, one beside the other, are woken: a release does not start a stampede.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from terrazzo.control.books import Books
from terrazzo.control.pods import GATE, PodRow, Standing
from terrazzo.kube.client import JSON, Client
from terrazzo.kube.errors import ApiError
from terrazzo.kube.events import Subject, Teller
from terrazzo.kube.kinds import POD
from terrazzo.model.errors import RequestError
from terrazzo.model.request import PodRequest
from terrazzo.placement.explain import explain
from terrazzo.placement.sentences import counts_line

WOKEN = "terrazzo.io/woken"
"""Annotation that changes when a pod is to be looked at again: the moment of the fleet."""
MOST = 64
"""Pods woken in one round."""
FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 60.0
"""A pod that is woken in vain, because of rules that only kube-scheduler knows, is left alone longer each time."""
SMALL_FLEET = 200
"""Nodes up to which the nearest change is looked for; beyond, one look would hold up decisions."""


class _Try(Struct):
    """When a pod may be woken again."""

    after: float
    wait_s: float


class Waiters:
    """Looks after waiting pods.

    Args:
        books: the cluster.
        client: the API server.
        teller: posts events.
    """

    def __init__(self, books: Books, client: Client, teller: Teller) -> None:
        self._books = books
        self._client = client
        self._teller = teller
        self._tries: dict[str, _Try] = {}
        self._told: dict[str, float] = {}
        self._looked_at: tuple[object, ...] = ()

    async def round(self, now: float) -> int:
        """Wake who would fit now; return how many.

        Args:
            now: seconds of a clock that never jumps.
        """
        rows = self._books.waiting()
        self._forget({row.uid for row in rows})
        state = self._state(rows)
        due = any(row.uid in self._tries for row in rows)
        if not rows or (state == self._looked_at and not due):
            return 0
        self._looked_at = state
        chosen = self.who_fits(rows, now)
        # Trying changed nothing, so it must not count as news.
        self._looked_at = self._state(rows)
        for row in chosen:
            await self._wake(row, now)
        return len(chosen)

    def _state(self, rows: Iterable[PodRow]) -> tuple[object, ...]:
        """Return all that decides about these pods: as long as it is the same, so is the answer."""
        books = self._books
        return books.ledger.fleet.tick, books.policy, dict(books.mapped), frozenset(row.uid for row in rows)

    def who_fits(self, rows: Iterable[PodRow], now: float) -> list[PodRow]:
        """Return the pods that fit now, all together; one of each kind that does not fit is tried."""
        fleet, engine = self._books.ledger.fleet, self._books.engine
        chosen: list[PodRow] = []
        taken: list[str] = []
        hopeless: set[str] = set()
        try:
            for row in rows:
                kind = kind_of(row.request)
                if kind in hopeless or fleet.allocation(row.uid) is not None:
                    continue
                try:
                    request = self._books.resolve(row.request)
                except RequestError:
                    continue
                found = None if self._books.barred(request) else engine.decide(request)
                if found is None:
                    hopeless.add(kind)
                    continue
                fleet.grant(found)
                taken.append(row.uid)
                tried = self._tries.get(row.uid)
                if tried is None or now >= tried.after:
                    chosen.append(row)
                if len(chosen) == MOST:
                    break
        finally:
            for uid in taken:
                fleet.release(uid)
        return chosen

    async def _wake(self, row: PodRow, now: float) -> None:
        before = self._tries.get(row.uid)
        wait_s = min(LONGEST_WAIT_S, before.wait_s * 2) if before is not None else FIRST_WAIT_S
        self._tries[row.uid] = _Try(now + wait_s, wait_s)
        request = row.request
        try:
            if row.standing is Standing.GATED:
                body: object = [
                    {"op": "test", "path": "/metadata/uid", "value": row.uid},
                    {"op": "test", "path": "/spec/schedulingGates/0/name", "value": GATE},
                    {"op": "remove", "path": "/spec/schedulingGates/0"},
                ]
                await self._client.patch(POD, body, request.name, request.namespace, form=JSON)
            else:
                mark = {WOKEN: str(self._books.ledger.fleet.tick)}
                body = {"metadata": {"uid": row.uid, "annotations": mark}}
                await self._client.patch(POD, body, request.name, request.namespace)
        except ApiError:
            # It is gone, bound or changed: the watch tells.
            return

    def _forget(self, alive: set[str]) -> None:
        for kept in (self._tries, self._told):
            for uid in [uid for uid in kept if uid not in alive]:
                del kept[uid]

    # -- what they wait for --------------------------------------------------------------------------------------

    async def tell(self, now: float, most: int = 20, every_s: float = 60.0) -> int:
        """Tell some waiting pods what they wait for, each at most once in ``every_s``; return how many."""
        told = 0
        for row in self._books.waiting():
            if told == most:
                break
            if now - self._told.get(row.uid, -every_s) < every_s:
                continue
            self._told[row.uid] = now
            note = self.sentence(row.request)
            about = Subject("Pod", row.request.name, row.request.namespace, row.uid)
            if note:
                told += await self._teller.tell(about, "WaitsForDevices", note, action="Waiting")
        return told

    def sentence(self, request: PodRequest) -> str:
        """Return what a pod waits for and what would help, or an empty string when it waits for nothing of ours."""
        books = self._books
        try:
            request = books.resolve(request)
        except RequestError as error:
            return str(error)
        barred = books.barred(request)
        if barred:
            return barred
        if books.engine.fits(request):
            return ""
        nodes = sum(1 for _ in books.ledger.fleet.nodes())
        why = counts_line(books.reasons.of(request).values(), nodes)
        if nodes > SMALL_FLEET:
            return f"{why}."
        requests = {uid: row.request for uid, row in books.pods.items()}
        changes = [change.describe() for change in explain(books.engine, request, most=2, requests=requests).changes]
        return f"{why}. What would fit: {'; or '.join(changes)}." if changes else f"{why}."


def kind_of(request: PodRequest) -> str:
    """Return what pods that can only be placed alike have in common."""
    return repr(
        (
            [(container.kind, container.asks, container.image) for container in request.containers],
            request.namespace, request.vendor, request.model, request.device, request.strategy, request.exclusive,
            request.numa_bind, request.cpu_milli, request.memory_mib, request.other, request.rules,
        )
    )  # fmt: skip
