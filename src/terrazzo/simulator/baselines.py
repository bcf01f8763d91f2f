"""Other ways to place, to compare with: BestFit, first fit and random, over the same columns as the engine.

BestFit is as coded in the simulator of "Beware of Fragmentation" (USENIX ATC 2023): its score, its choice of device,
its ties to the first node of a fixed order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from terrazzo.model.allocation import Allocation, ContainerGrant
from terrazzo.model.node import Node
from terrazzo.model.request import Ask, PodRequest
from terrazzo.placement import fit, noderules
from terrazzo.placement.demand import Need, need_on
from terrazzo.placement.fleet import Fleet
from terrazzo.placement.popularity import class_of
from terrazzo.placement.rows import is_simple
from terrazzo.placement.seat import DeviceView
from terrazzo.placement.shapes import PLENTY
from terrazzo.placement.tables import Bools, Ints, Table, compile_ask, totals

Floats = NDArray[np.float64]
NOWHERE = -np.inf
"""Score of a node that cannot take the pod."""
CPU_SCALE_MILLI, DEVICE_SCALE_MILLI = 128_000.0, 8_000.0
"""What BestFit divides by: the largest node of the openb trace."""


class Placer(Protocol):
    """Decides; the engine is one."""

    @property
    def fleet(self) -> Fleet:
        """The fleet that is decided on."""
        ...

    def learn(self, request: PodRequest) -> None:
        """See a request that was submitted."""
        ...

    def decide(self, request: PodRequest) -> Allocation | None:
        """Return where the pod goes and what it gets, or None when it fits nowhere. Nothing is taken yet."""
        ...


class Candidates(NamedTuple):
    """Nodes that can take the pod. In scores, the devices of a node count as alike; in fit and grants they need not be.

    Attributes:
        columns: where in the fleet they are.
        free (nodes × rows): thousandths left of each device.
        fit (nodes × rows): whether the device can take one device's worth of the ask.
        cpu_milli: CPU left per node.
        take (nodes): thousandths that the ask takes of one device there.
    """

    columns: NDArray[np.intp]
    free: Ints
    fit: Bools
    cpu_milli: Ints
    take: Ints


@dataclass(slots=True)
class Line:
    """Scores of one class of request, and the first device to use per node (-1: the fullest that fit)."""

    table: Table
    take: Ints
    score: Floats
    place: Ints
    tick: int = -1


def thousandths(fleet: Fleet, columns: NDArray[np.intp]) -> Ints:
    """Return what is left of each device (nodes × rows) in thousandths: of memory or of compute, the scarcer."""
    mib, units = totals(fleet.kinds)
    kind = fleet.kind[columns]
    left: Ints = np.minimum(
        fleet.avail_mib[columns] * 1000 // mib[kind], fleet.avail_units[columns] * 1000 // units[kind]
    )
    return left


def taken_thousandths(fleet: Fleet, table: Table) -> Ints:
    """Return what one device's worth of an ask takes of each kind of device, in thousandths."""
    mib, units = totals(fleet.kinds)
    taken: Ints = np.maximum(-(-table.take_mib * 1000 // mib), -(-table.take_units * 1000 // units))
    return taken


class Baseline:
    """A placer that gives every node a score and takes the first of the best.

    Score lines are kept per class of request and refreshed for nodes that changed.
    """

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self._lines: dict[tuple[object, ...], Line] = {}
        self._free: Ints = np.zeros((0, 0), dtype=np.int64)
        self._tick = -1

    def learn(self, request: PodRequest) -> None:
        """Baselines learn nothing."""

    def decide(self, request: PodRequest) -> Allocation | None:
        """Return where the pod goes and what it gets; see ``Placer``."""
        line = self._line(request)
        if not is_simple(request) or request.other or not noderules.is_plain(request.rules):
            return self._search(request, line)
        size = len(self.fleet)
        able = (self.fleet.memory_mib[:size] >= request.memory_mib) & (self.fleet.pods[:size] >= 1)
        column = self._pick(np.where(able, line.score, NOWHERE))
        return None if column is None else self._place(request, line, column)

    def _pick(self, scores: Floats) -> int | None:
        column = int(scores.argmax()) if len(scores) else -1
        return None if column < 0 or scores[column] == NOWHERE else column

    def _score(self, request: PodRequest, line: Table, nodes: Candidates) -> tuple[Floats, Ints]:
        """Return, per node, the score and the row of the device to use, -1 for the fullest that fit."""
        raise NotImplementedError

    def _line(self, request: PodRequest) -> Line:
        ask = class_of(request).ask
        key = (ask, request.exclusive, request.vendor, request.model, request.cpu_milli)
        line = self._lines.get(key)
        size = len(self.fleet)
        if line is None:
            table = compile_ask(request, ask or Ask(count=0), self.fleet.kinds, {})
            score, place = np.full(size, NOWHERE), np.full(size, -1, dtype=np.int64)
            line = self._lines[key] = Line(table, taken_thousandths(self.fleet, table), score, place)
        if line.tick != self.fleet.tick:
            self._refresh(request, line, np.flatnonzero(self.fleet.changed_at[:size] > line.tick))
            line.tick = self.fleet.tick
        return line

    def _refresh(self, request: PodRequest, line: Line, columns: NDArray[np.intp]) -> None:
        fleet = self.fleet
        free = self._thousandths()
        fits = fitting(fleet, line.table, columns)
        able = (fleet.usable[columns] > 0) & (fleet.cpu_milli[columns] >= request.cpu_milli)
        able &= fits.sum(axis=1) >= line.table.devices
        line.score[columns] = NOWHERE
        columns = columns[able]
        if len(columns):
            take = line.take[fleet.kind[columns, 0]]
            nodes = Candidates(columns, free[columns], fits[able], fleet.cpu_milli[columns], take)
            line.score[columns], line.place[columns] = self._score(request, line.table, nodes)

    def _thousandths(self) -> Ints:
        """Return what is left of all devices, brought up to date where nodes changed."""
        fleet = self.fleet
        if len(self._free) != len(fleet):
            self._free, self._tick = np.zeros((len(fleet), fleet.kind.shape[1]), dtype=np.int64), -1
        if self._tick != fleet.tick:
            columns = np.flatnonzero(fleet.changed_at[: len(fleet)] > self._tick)
            self._free[columns] = thousandths(fleet, columns)
            self._tick = fleet.tick
        return self._free

    # -- devices -------------------------------------------------------------------------------------------------

    def _place(self, request: PodRequest, line: Line, column: int) -> Allocation | None:
        """Place a pod of one ask on the devices that its line chose."""
        name = self.fleet.name(column)
        asking = [(c.name, ask) for c in request.containers for ask in c.asks]
        if not asking:
            return fit.allocation_of(request, name, (), ())
        container, ask = asking[0]
        rows = self._devices(line, column)
        devices = [self.fleet.device(row, column) for row in rows]
        if line.table.placeable is not None or ask.profile:
            views = self.fleet.devices(name)
            return fit.place(request, name, [views[row] for row in rows], fullest)
        grants, uses = [], []
        for device in devices:
            need = need_on(request, ask, device)
            assert isinstance(need, Need)  # noqa: S101 - the line said it fits
            grant, use = fit.grant_of(request, ask, device, need, None)
            grants.append(grant)
            uses.append(use)
        return fit.allocation_of(request, name, (ContainerGrant(container, tuple(grants)),), tuple(uses))

    def _devices(self, line: Line, column: int) -> list[int]:
        """Return the rows to use: what the line chose, else those with least left that fit."""
        if line.place[column] >= 0:
            return [int(line.place[column])]
        free = self._thousandths()[column]
        rows = np.flatnonzero(fitting(self.fleet, line.table, np.array([column]))[0])
        return sorted(int(row) for row in rows[np.argsort(free[rows], kind="stable")][: line.table.devices])

    def _search(self, request: PodRequest, line: Line) -> Allocation | None:
        """Try one node after the other, best first: for pods of several asks or with rules about nodes."""
        for column in np.argsort(-line.score, kind="stable"):
            node = self.fleet.node(self.fleet.name(int(column)))
            if node is None or line.score[column] == NOWHERE or not self._allowed(request, node, int(column)):
                continue
            found = self._on_node(request, node)
            if found is not None:
                return found
        return None

    def _on_node(self, request: PodRequest, node: Node) -> Allocation | None:
        """Place any pod on a node that it is allowed on."""
        return fit.place(request, node.name, self.fleet.devices(node.name), fullest)

    def _allowed(self, request: PodRequest, node: Node, column: int) -> bool:
        fleet = self.fleet
        short = noderules.host_shortage(
            request, node, int(fleet.cpu_milli[column]), int(fleet.memory_mib[column]), int(fleet.pods[column])
        )
        return short is None and noderules.allows(request.rules, node) is None


def fitting(fleet: Fleet, table: Table, columns: NDArray[np.intp]) -> Bools:
    """Return which devices (nodes × rows) can take one device's worth of an ask."""
    kind = fleet.kind[columns]
    fits: Bools = (fleet.avail_mib[columns] >= table.test_mib[kind]) & (
        fleet.avail_units[columns] >= table.test_units[kind]
    )
    if table.placeable is not None:
        fits &= table.placeable[kind, fleet.state[columns]]
    return fits


def fullest(view: DeviceView) -> tuple[int, ...]:
    """Order devices by what is left, least first."""
    return (view.free_mib, view.free_units)


class BestFit(Baseline):
    """The node that has least left afterwards, CPU and devices weighing the same; there the fullest device."""

    def _score(self, request: PodRequest, line: Table, nodes: Candidates) -> tuple[Floats, Ints]:
        taken = nodes.take * line.devices
        cpu = np.where(nodes.cpu_milli < PLENTY // 2, nodes.cpu_milli - request.cpu_milli, 0)
        left = cpu / CPU_SCALE_MILLI * 0.5 + (nodes.free.sum(axis=1) - taken) / DEVICE_SCALE_MILLI * 0.5
        return np.trunc((1 - left) * 100), np.full(len(taken), -1, dtype=np.int64)


class FirstFit(Baseline):
    """The first node, and there the first devices, that take the pod."""

    def _score(self, request: PodRequest, line: Table, nodes: Candidates) -> tuple[Floats, Ints]:  # noqa: ARG002
        first = nodes.fit.argmax(axis=1) if line.devices == 1 else np.full(len(nodes.fit), -1)
        return np.zeros(len(nodes.fit)), first.astype(np.int64)

    def _devices(self, line: Line, column: int) -> list[int]:
        rows = np.flatnonzero(fitting(self.fleet, line.table, np.array([column]))[0])
        return [int(row) for row in rows[: line.table.devices]]


class Random(FirstFit):
    """Any node and any devices that take the pod."""

    def __init__(self, fleet: Fleet, rng: np.random.Generator) -> None:
        super().__init__(fleet)
        self._rng = rng

    def _pick(self, scores: Floats) -> int | None:
        able = np.flatnonzero(scores > NOWHERE)
        return int(able[self._rng.integers(len(able))]) if len(able) else None

    def _devices(self, line: Line, column: int) -> list[int]:
        rows = np.flatnonzero(fitting(self.fleet, line.table, np.array([column]))[0])
        drawn = self._rng.permutation(len(rows))[: line.table.devices]
        return sorted(int(row) for row in rows[drawn])
