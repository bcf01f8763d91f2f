"""What is done again and again until the cluster is as the books say. Only the holder of a Lease does it."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Any

from terrazzo.control.binding import Binder
from terrazzo.control.books import Books
from terrazzo.control.healing import Claims
from terrazzo.control.nominating import Nominator
from terrazzo.control.observed import Figures
from terrazzo.control.pods import Standing
from terrazzo.control.preempting import Preemptor
from terrazzo.control.waiting import Waiters
from terrazzo.dialects import holdings
from terrazzo.kube.client import Client
from terrazzo.kube.errors import ApiError
from terrazzo.kube.events import Subject, Teller
from terrazzo.kube.kinds import POD
from terrazzo.model.allocation import Allocation
from terrazzo.model.errors import LedgerError
from terrazzo.placement import instructions as ins
from terrazzo.placement import invariants
from terrazzo.wire.state import ALLOCATION

BEAT_S = 0.1
"""Shortest time between two rounds; changes within it are looked at together."""
SLOW_S = 1.0
"""Between two rounds of what is not urgent."""
MOST_PENDING = 4096
CHECK_S = 5.0
SLOWEST_S, PODS_PER_S = 10.0, 5000
"""Claims are compared with pods each second, more seldom in a large cluster: one look at all of them takes its time."""
MOST_CHECKED, MOST_CHECKED_NODES = 2000, 250
"""Grants and nodes up to which the books are checked against themselves: thousands of nodes take seconds, in which
nobody is nominated or woken."""


class Reconciler:
    """Brings the cluster in line with the books.

    Args:
        books: the cluster.
        client: the API server.
        binder: takes claims back.
        claims: those that the API server has.
        waiters, preemptor, nominator: look after pods without a node.
        teller: posts events.
        figures: counts.
        log: what was put right.
    """

    def __init__(
        self, books: Books, client: Client, binder: Binder, claims: Claims, waiters: Waiters,
        preemptor: Preemptor | None, nominator: Nominator, teller: Teller, figures: Figures, log: Any,
    ) -> None:  # fmt: skip
        self._books = books
        self._client = client
        self._binder = binder
        self._claims = claims
        self._waiters = waiters
        self._preemptor = preemptor
        self._nominator = nominator
        self._teller = teller
        self._figures = figures
        self._log = log
        self._todo: deque[ins.Instruction] = deque(maxlen=MOST_PENDING)
        self._changed = asyncio.Event()
        self._checked_at = self._mended_at = -float("inf")
        self._noticed: set[tuple[str, str]] = set()
        books.watchers.append(lambda _: self._changed.set())

    def told(self, instructions: tuple[ins.Instruction, ...]) -> None:
        """Take instructions of the ledger; who does not lead drops them after a while, and sees the state anyway."""
        self._todo.extend(instructions)
        if instructions:
            self._changed.set()

    async def run(self) -> None:
        """Work until cancelled."""
        self._figures.leads.set(1)
        slow = 0.0
        try:
            while True:
                await self._quick()
                if time.monotonic() - slow >= SLOW_S:
                    await self._slow()
                    slow = time.monotonic()
                self._changed.clear()
                await asyncio.sleep(BEAT_S)
                try:
                    await asyncio.wait_for(self._changed.wait(), max(0.0, SLOW_S - (time.monotonic() - slow)))
                except TimeoutError:
                    continue
        finally:
            self._figures.leads.set(0)

    async def _quick(self) -> None:
        while self._todo:
            await self._do(self._todo.popleft())
        now = time.monotonic()
        self._count("woken", await self._waiters.round(now))
        self._count("nominated", await self._nominator.round(now))

    async def _slow(self) -> None:
        now = time.monotonic()
        if now - self._mended_at >= min(SLOWEST_S, len(self._books.pods) / PODS_PER_S):
            self._mended_at = now
            for what, number in (await self._claims.mend(now)).items():
                self._count(what, number)
        if self._preemptor is not None:
            self._count("preempted", await self._preemptor.round(now))
        await self._take_back_losers()
        await self._waiters.tell(now)
        if now - self._checked_at >= CHECK_S:
            self._checked_at = now
            self._check()

    def _check(self) -> None:
        """Look whether the books contradict themselves; in a large cluster that would hold up decisions."""
        ledger = self._books.ledger
        if len(ledger.stage) > MOST_CHECKED or len(ledger.fleet) > MOST_CHECKED_NODES:
            return
        try:
            invariants.check(ledger)
        except LedgerError as error:
            self._figures.faults.inc()
            self._log.error("the books contradict themselves", said=str(error))

    def _count(self, what: str, number: int) -> None:
        if number:
            self._figures.mended.labels(what).inc(number)
            self._log.info("mended", what=what, number=number)

    # -- instructions --------------------------------------------------------------------------------------------

    async def _do(self, told: ins.Instruction) -> None:
        match told:
            case ins.Rebuild():
                await self._rebuild(told.allocation)
            case ins.TellHolders():
                for pod in told.pods:
                    note = f"Device {told.uuid} of node {told.node}: {told.reason}. It takes no new pods."
                    await self._tell(pod, "DeviceUnhealthy", note)
            case ins.TellForeign():
                note = f"Device {told.uuid}: processes that nobody granted anything use {told.foreign_mib} MiB of it."
                about = Subject("Node", told.node)
                await self._teller.tell(about, "ForeignUse", note, warning=True)
            case _:
                # Writes are the binder's, waking is looked at as a whole, losers are taken back by state.
                return

    async def _rebuild(self, allocation: Allocation) -> None:
        """Write the annotation of a bound pod again that somebody took away."""
        body = {"metadata": {"uid": allocation.pod, "annotations": {ALLOCATION: holdings.written(allocation)}}}
        try:
            await self._client.patch(POD, body, allocation.name, allocation.namespace)
        except ApiError as error:
            self._log.warning("rebuild", pod=allocation.title, error=str(error))
            return
        self._count("missing annotation", 1)

    async def _take_back_losers(self) -> None:
        """Take back pods that exceed a device together with others, as long as they have not started.

        A pod that runs is left running, and both are told: ending it is a person's decision.
        """
        over = set(self._books.ledger.over.items())
        self._noticed &= {pair for _, pair in over}
        for (node, uuid), (loser, keeper) in over:
            row = self._books.pods.get(loser)
            if row is None or row.leaving or row.standing is not Standing.BOUND or loser == keeper:
                continue
            titles = [self._books.engine.title(pod) for pod in (loser, keeper)]
            if row.request.phase != "Pending":
                if (loser, keeper) not in self._noticed:
                    self._noticed.add((loser, keeper))
                    note = (
                        f"Pods {titles[0]} and {titles[1]} together exceed device {uuid} of node {node}; both run on."
                    )
                    await self._tell(loser, "DeviceExceeded", note)
                    await self._tell(keeper, "DeviceExceeded", note)
                continue
            note = f"Pod {titles[0]} is taken back: with {titles[1]} it would exceed device {uuid} of node {node}."
            await self._tell(loser, "TakenBack", note)
            try:
                await self._client.delete(POD, row.request.name, row.request.namespace, uid=loser, grace_s=0)
            except ApiError as error:
                self._log.warning("take back", pod=titles[0], error=str(error))
                continue
            self._count("taken back", 1)

    async def _tell(self, uid: str, reason: str, note: str) -> None:
        held = self._books.ledger.fleet.allocation(uid)
        if held is not None:
            about = Subject("Pod", held.name, held.namespace, uid)
            await self._teller.tell(about, reason, note, warning=True)
