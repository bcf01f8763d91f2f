"""Score rows: one line of numbers per class of request, refreshed where the fleet changed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from terrazzo.model.request import Ask, PodRequest
from terrazzo.placement.fleet import KIND, MIB, SHARERS, STATE, UNITS, Fleet
from terrazzo.placement.landscape import PLENTY, Landscape, Places
from terrazzo.placement.popularity import Popularity
from terrazzo.placement.protection import Reach, Reserve, Shield, reachable, reserves, shield
from terrazzo.placement.strategies import STRATEGIES, Candidates
from terrazzo.placement.tables import NEVER, Bools, Ints, Table, compile_ask, compile_mix

LIMIT = 2048
"""Rows kept; the oldest half goes when there are more, since classes that are not seen any more need none."""
AT_ONCE = 512
"""Nodes scored at once, so that what is worked on stays in the processor's cache."""
MISFIT, UNSEEN = -1, -2


def is_simple(request: PodRequest) -> bool:
    """Return whether one ask of one container decides everything, so that the row knows the answer exactly."""
    asks = [ask for container in request.containers for ask in container.asks]
    if len(asks) > 1 or request.numa_bind or request.device.include or request.device.exclude:
        return False
    return not asks or asks[0].count == 1 or not asks[0].profile


class After:
    """What one device's worth of an ask makes of each look, worked out when a look is first asked about.

    Attributes:
        table: the ask over the kinds of device.
    """

    def __init__(self, table: Table, landscape: Landscape) -> None:
        self.table = table
        self._landscape = landscape
        self._epoch = -1
        self._then: Places = np.zeros(0, dtype=np.intp)

    def of(self, look: Places) -> Places:
        """Return the looks of devices with the ask on them, ``MISFIT`` where it does not fit."""
        land = self._landscape
        if self._epoch != land.epoch:
            self._epoch = land.epoch
            self._then = np.full(len(land.share), UNSEEN)
        elif len(self._then) < len(land.share):
            self._then = np.pad(self._then, (0, len(land.share) - len(self._then)), constant_values=UNSEEN)
        then = self._then.take(look)
        if then.min(initial=MISFIT) == UNSEEN:
            new = np.unique(look[then == UNSEEN])
            self._then[new] = self._work_out(land.looks[:, new])
            then = self._then.take(look)
        return then

    def _work_out(self, looks: Ints) -> Places:
        table, kind = self.table, looks[KIND]
        fit = (looks[MIB] >= table.test_mib[kind]) & (looks[UNITS] >= table.test_units[kind])
        if table.placeable is not None:
            fit &= table.placeable[kind, looks[STATE]]
        then, kind = looks[:, fit], kind[fit]
        shut = table.alone[kind] | (then[SHARERS] < PLENTY)
        then[MIB] = np.where(shut, 0, np.maximum(0, then[MIB] - table.take_mib[kind]))
        then[UNITS] = np.where(shut, 0, np.maximum(0, then[UNITS] - table.take_units[kind]))
        then[SHARERS] = PLENTY
        if table.following is not None:
            then[STATE] = table.following[kind, then[STATE]]
        result = np.full(looks.shape[1], MISFIT)
        result[fit] = self._landscape.number(then.T)
        return result


@dataclass(slots=True)
class Row:
    """Scores of one class of request.

    Attributes:
        score: per column, negative where it does not fit.
        place: per column, the row of the device to use.
        host (4 × 1): what the node must have left, as the first columns of ``fleet.HOSTS``.
        after: the ask, and what it makes of devices.
        shield: what it should leave to restricted requests, None when there is nothing.
        tick: the fleet's tick at the last refresh.
        scored: nodes scored so far, over all refreshes; what tests count instead of time.
    """

    score: Ints
    place: Ints
    host: Ints
    after: After
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
        self._afters: dict[tuple[object, ...], After] = {}
        self._made_for: tuple[object, ...] = ()
        self._landscape = Landscape(fleet, compile_mix((), ()))
        self._profiles: dict[str, int] = {}
        self._levels: tuple[Reserve, ...] = ()
        self._reach: Reach = {}

    def _prepare(self) -> None:
        """Start anew when the popular mix, the kinds of device or the shapes of nodes have changed."""
        fleet = self.fleet
        made_for = (self.popularity.generation, len(fleet.kinds), fleet.grid.shape, fleet.shapes.generation)
        if self._made_for == made_for:
            return
        self._made_for = made_for
        self._profiles = dict(self.popularity.profiles())
        self._landscape = Landscape(fleet, compile_mix(self.popularity.mix(), fleet.kinds))
        self._reach = fleet.shapes.reach()
        present = np.isin(np.arange(len(fleet.kinds)), list(self._reach))
        self._levels = reserves(compile_mix(self.popularity.everything(), fleet.kinds), present, self._reach)
        self._rows.clear()
        self._afters.clear()

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
            after = self._after(request, ask or Ask(count=0))
            concern = self._concern(request, after.table) if ask is not None else None
            nothing = np.zeros(0, dtype=np.int64)
            host = np.array([[request.cpu_milli], [request.memory_mib], [1], [1]], dtype=np.int64)
            row = self._rows[key] = Row(nothing, nothing, host, after, concern)
        if len(row.score) < size:
            grown = size - len(row.score)
            row.score = np.concatenate([row.score, np.full(grown, -1, dtype=np.int64)])
            row.place = np.concatenate([row.place, np.zeros(grown, dtype=np.int64)])
        if row.tick != self.fleet.tick:
            changed = (self.fleet.changed_at[:size] > row.tick).nonzero()[0]
            # Where the pod did not fit and nothing was freed since, it does not fit now.
            hopeful = (row.score[changed] >= 0) | (self.fleet.gained_at[changed] > row.tick)
            changed = changed[hopeful]
            for part in range(0, len(changed), AT_ONCE):
                self._refresh(row, request, changed[part : part + AT_ONCE], strategy)
            row.tick = self.fleet.tick
            row.scored += len(changed)
            self.scored += len(changed)
        return row

    def _after(self, request: PodRequest, ask: Ask) -> After:
        key = (ask, request.exclusive, request.vendor, request.model)
        after = self._afters.get(key)
        if after is None:
            if len(self._afters) >= LIMIT:
                self._afters.clear()
            table = compile_ask(request, ask, self.fleet.kinds, self._profiles)
            after = self._afters[key] = After(table, self._landscape)
        return after

    def _concern(self, request: PodRequest, table: Table) -> Shield | None:
        can = reachable(table.test_mib < NEVER, table.devices, request.cpu_milli, self._reach)
        return shield(can, self._levels)

    def _refresh(self, row: Row, request: PodRequest, columns: Places, strategy: str) -> None:
        fleet, land = self.fleet, self._landscape
        land.refresh()
        hosts = fleet.hosts[:4].take(columns, axis=1)
        ready: Bools = np.logical_and.reduce(hosts >= row.host, axis=0)
        look = land.look.take(columns, axis=0)
        then = row.after.of(look)
        nodes = Candidates(
            columns=columns,
            look=look,
            then=then,
            fit=(then >= 0) & ready[:, None],
            ready=ready,
            cpu_milli=hosts[0],
            pod_cpu_milli=request.cpu_milli,
            table=row.after.table,
            landscape=land,
            device=fleet.device,
        )
        row.score[columns], row.place[columns] = STRATEGIES[strategy].score(nodes)

    def fitting(self, row: Row, column: int) -> list[int]:
        """Return the places of the devices of one node that can take one device's worth of the ask."""
        self._landscape.refresh()
        return [int(place) for place in np.flatnonzero(row.after.of(self._landscape.look[column]) >= 0)]

    def combined(self, request: PodRequest, strategy: str) -> Ints:
        """Return a copy-free line of scores; for several asks the sum where each could fit alone, else -1."""
        asks = list(dict.fromkeys(ask for container in request.containers for ask in container.asks))
        first = self.row(request, strategy).score
        if len(asks) < 2:
            return first
        lines = [self.row(request, strategy, ask).score for ask in asks]
        every: Ints = np.where(np.all([line >= 0 for line in lines], axis=0), np.sum(lines, axis=0), -1)
        return every
