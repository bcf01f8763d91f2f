"""Score rows: one line of numbers per class of request, refreshed where the fleet changed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from terrazzo.model.request import Ask, PodRequest
from terrazzo.placement.fleet import Fleet
from terrazzo.placement.popularity import Popularity
from terrazzo.placement.protection import Reserve, allowed, reserves
from terrazzo.placement.strategies import STRATEGIES, Candidates
from terrazzo.placement.tables import NEVER, Bools, Ints, MixTable, Table, compile_ask, compile_mix, totals

LIMIT = 2048
"""Rows kept; the oldest half goes when there are more, since classes that are not seen any more need none."""


def is_simple(request: PodRequest) -> bool:
    """Return whether one ask of one container decides everything, so that the row knows the answer exactly."""
    asks = [ask for container in request.containers for ask in container.asks]
    if len(asks) > 1 or request.numa_bind or request.device.include or request.device.exclude:
        return False
    return not asks or asks[0].count == 1 or not asks[0].profile


@dataclass(slots=True)
class Row:
    """Scores of one class of request.

    Attributes:
        score: per column, negative where it does not fit.
        place: per column, the row of the device to use.
        table: the ask over the kinds of device.
        tick: the fleet's tick at the last refresh.
        scored: nodes scored so far, over all refreshes; what tests count instead of time.
    """

    score: Ints
    place: Ints
    table: Table
    tick: int = -1
    scored: int = 0


class Rows:
    """All rows over a fleet."""

    def __init__(self, fleet: Fleet, popularity: Popularity) -> None:
        self.fleet = fleet
        self.popularity = popularity
        self.scored = 0
        self._rows: dict[tuple[object, ...], Row] = {}
        self._generation = -1
        self._kinds = 0
        self._mix: MixTable = compile_mix((), ())
        self._levels: tuple[Reserve, ...] = ()
        self._totals: tuple[Ints, Ints] = totals(())

    def _prepare(self) -> None:
        """Start anew when the popular mix or the kinds of device have changed."""
        fleet = self.fleet
        if self._generation == self.popularity.generation and self._kinds == len(fleet.kinds):
            return
        self._generation, self._kinds = self.popularity.generation, len(fleet.kinds)
        self._mix = compile_mix(self.popularity.mix(), fleet.kinds)
        self._totals = totals(fleet.kinds)
        present = np.isin(np.arange(len(fleet.kinds)), fleet.kind)
        present[0] = False
        self._levels = reserves(compile_mix(self.popularity.everything(), fleet.kinds), present)
        self._rows.clear()

    def row(self, request: PodRequest, strategy: str, ask: Ask | None = None) -> Row:
        """Return the row of a request (of one of its asks, when given), up to date."""
        self._prepare()
        if ask is None:
            ask = next((ask for container in request.containers for ask in container.asks), None)
        key = (ask, request.exclusive, request.vendor, request.model, request.cpu_milli, request.memory_mib, strategy)
        row = self._rows.get(key)
        size = len(self.fleet)
        if row is None:
            if len(self._rows) >= LIMIT:
                for old in list(self._rows)[: LIMIT // 2]:
                    del self._rows[old]
            wanted = ask or Ask(count=0)
            table = compile_ask(request, wanted, self.fleet.kinds, self.popularity.profiles())
            row = self._rows[key] = Row(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), table)
        if len(row.score) < size:
            grown = size - len(row.score)
            row.score = np.concatenate([row.score, np.full(grown, -1, dtype=np.int64)])
            row.place = np.concatenate([row.place, np.zeros(grown, dtype=np.int64)])
        if row.tick != self.fleet.tick:
            changed = np.flatnonzero(self.fleet.changed_at[:size] > row.tick)
            self._refresh(row, request, changed, strategy)
            row.tick = self.fleet.tick
            row.scored += len(changed)
            self.scored += len(changed)
        return row

    def _refresh(self, row: Row, request: PodRequest, columns: NDArray[np.intp], strategy: str) -> None:
        fleet, table = self.fleet, row.table
        row.score[columns] = -1
        ready = (
            (fleet.usable[columns] > 0)
            & (fleet.cpu_milli[columns] >= request.cpu_milli)
            & (fleet.memory_mib[columns] >= request.memory_mib)
            & (fleet.pods[columns] >= 1)
        )
        fit = self._fit(table, columns)
        able = np.flatnonzero(ready & (fit.sum(axis=0) >= table.devices))
        if not len(able):
            return
        columns = columns[able]
        nodes = Candidates(
            kind=fleet.kind[:, columns],
            mib=fleet.avail_mib[:, columns],
            units=fleet.avail_units[:, columns],
            sharers=fleet.sharers_left[:, columns],
            state=fleet.state[:, columns],
            share=fleet.share[:, columns],
            fit=fit[:, able],
            cpu_milli=fleet.cpu_milli[columns],
            pod_cpu_milli=request.cpu_milli,
            table=table,
            mix=self._mix,
            total_mib=self._totals[0],
            total_units=self._totals[1],
            columns=columns,
            device=fleet.device,
        )
        row.score[columns], row.place[columns] = STRATEGIES[strategy].score(nodes)

    def _fit(self, table: Table, columns: NDArray[np.intp]) -> Bools:
        fleet = self.fleet
        kind = fleet.kind[:, columns]
        fit: Bools = (fleet.avail_mib[:, columns] >= table.test_mib[kind]) & (
            fleet.avail_units[:, columns] >= table.test_units[kind]
        )
        if table.placeable is not None:
            fit &= table.placeable[kind, fleet.state[:, columns]]
        return fit

    def fitting(self, request: PodRequest, column: int) -> list[int]:
        """Return the rows of the devices of one node that can take the pod's only ask."""
        row = self.row(request, "fragmentation")
        return [int(r) for r in np.flatnonzero(self._fit(row.table, np.array([column]))[:, 0])]

    def combined(self, request: PodRequest, strategy: str) -> Ints:
        """Return a copy-free line of scores; for several asks the sum where each could fit alone, else -1."""
        asks = list(dict.fromkeys(ask for container in request.containers for ask in container.asks))
        first = self.row(request, strategy).score
        if len(asks) < 2:
            return first
        lines = [self.row(request, strategy, ask).score for ask in asks]
        every: Ints = np.where(np.all([line >= 0 for line in lines], axis=0), np.sum(lines, axis=0), -1)
        return every

    def unreserved(self, request: PodRequest) -> Bools | None:
        """Return the kinds that a pod may use without touching what restricted requests need, or None = any."""
        if not self._levels:
            return None
        table = self.row(request, "fragmentation").table
        return allowed(table.test_mib < NEVER, self.fleet.idle, self._levels) if table.devices else None
