"""Score rows: one line of numbers per class of request, refreshed where the fleet changed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from terrazzo.model.request import Ask, PodRequest
from terrazzo.placement.fleet import KIND, MIB, STATE, UNITS, Fleet
from terrazzo.placement.landscape import Landscape
from terrazzo.placement.popularity import Popularity
from terrazzo.placement.protection import Reach, Reserve, Shield, reachable, reserves, shield, unreserved
from terrazzo.placement.strategies import STRATEGIES, Candidates
from terrazzo.placement.tables import NEVER, Bools, Ints, Table, compile_ask, compile_mix, totals

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
        shield: what it should leave to restricted requests, None when there is nothing.
        tick: the fleet's tick at the last refresh.
        scored: nodes scored so far, over all refreshes; what tests count instead of time.
    """

    score: Ints
    place: Ints
    table: Table
    shield: Shield | None = None
    tick: int = -1
    scored: int = 0


class Rows:
    """All rows over a fleet."""

    def __init__(self, fleet: Fleet, popularity: Popularity) -> None:
        self.fleet = fleet
        self.popularity = popularity
        self.scored = 0
        self._rows: dict[tuple[object, ...], Row] = {}
        self._made_for: tuple[object, ...] = ()
        self._landscape = Landscape(fleet, compile_mix((), ()))
        self._levels: tuple[Reserve, ...] = ()
        self._reach: Reach = {}
        self._totals: tuple[Ints, Ints] = totals(())

    def _prepare(self) -> None:
        """Start anew when the popular mix or the kinds of device have changed."""
        fleet = self.fleet
        made_for = (self.popularity.generation, len(fleet.kinds), fleet.grid.shape)
        if self._made_for == made_for:
            return
        self._made_for = made_for
        self._landscape = Landscape(fleet, compile_mix(self.popularity.mix(), fleet.kinds))
        self._totals = totals(fleet.kinds)
        present = np.isin(np.arange(len(fleet.kinds)), fleet.kind)
        present[0] = False
        self._reach = fleet.reach()
        self._levels = reserves(compile_mix(self.popularity.everything(), fleet.kinds), present, self._reach)
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
            concern = self._concern(request, table) if ask is not None else None
            nothing = np.zeros(0, dtype=np.int64)
            row = self._rows[key] = Row(nothing, nothing, table, concern)
        if len(row.score) < size:
            grown = size - len(row.score)
            row.score = np.concatenate([row.score, np.full(grown, -1, dtype=np.int64)])
            row.place = np.concatenate([row.place, np.zeros(grown, dtype=np.int64)])
        if row.tick != self.fleet.tick:
            changed = np.flatnonzero(self.fleet.changed_at[:size] > row.tick)
            # Where the pod did not fit and nothing was freed since, it does not fit now.
            hopeful = (row.score[changed] >= 0) | (self.fleet.gained_at[changed] > row.tick)
            changed = changed[hopeful]
            if len(changed):
                self._refresh(row, request, changed, strategy)
            row.tick = self.fleet.tick
            row.scored += len(changed)
            self.scored += len(changed)
        return row

    def _concern(self, request: PodRequest, table: Table) -> Shield | None:
        can = reachable(table.test_mib < NEVER, table.devices, request.cpu_milli, self._reach)
        return shield(can, self._levels)

    def _refresh(self, row: Row, request: PodRequest, columns: NDArray[np.intp], strategy: str) -> None:
        fleet, table = self.fleet, row.table
        row.score[columns] = -1
        grid, hosts = fleet.grid[columns], fleet.hosts[:, columns]
        needed = np.array([request.cpu_milli, request.memory_mib, 1, 1])
        ready = (hosts[:4] >= needed[:, None]).all(axis=0)
        fit = _fit(table, grid)
        able = np.flatnonzero(ready & (fit.sum(axis=1) >= table.devices))
        if not len(able):
            return
        columns = columns[able]
        self._landscape.refresh()
        nodes = Candidates(
            columns=columns,
            grid=grid[able],
            fit=fit[able],
            cpu_milli=hosts[0, able],
            pod_cpu_milli=request.cpu_milli,
            table=table,
            landscape=self._landscape,
            total_mib=self._totals[0],
            total_units=self._totals[1],
            device=fleet.device,
        )
        row.score[columns], row.place[columns] = STRATEGIES[strategy].score(nodes)

    def fitting(self, row: Row, column: int) -> list[int]:
        """Return the places of the devices of one node that can take one device's worth of the ask."""
        return [int(r) for r in np.flatnonzero(_fit(row.table, self.fleet.grid[column : column + 1])[0])]

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
        concern = self.row(request, "fragmentation").shield
        if concern is None:
            return None
        may = unreserved(concern, self.fleet.idle)
        return None if (may == concern.can).all() else may


def _fit(table: Table, grid: Ints) -> Bools:
    """Return which devices (nodes × rows, from nodes × 6 × rows) can take one device's worth of the ask."""
    kind = grid[:, KIND]
    fit: Bools = (grid[:, MIB] >= table.test_mib[kind]) & (grid[:, UNITS] >= table.test_units[kind])
    if table.placeable is not None:
        fit &= table.placeable[kind, grid[:, STATE]]
    return fit
