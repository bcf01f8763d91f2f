"""One reason per node, for all nodes at once: what a scheduler's event counts.

The same rules in the same order as ``noderules``, ``fit.reject`` and ``fit.why_not``, on columns: thousands of nodes
are told apart in the time in which those look at a few. Tests hold both against each other.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from terrazzo.model.device import Health
from terrazzo.model.reason import Reason
from terrazzo.model.request import Ask, PodRequest
from terrazzo.placement import noderules
from terrazzo.placement.demand import Misfit, need_on
from terrazzo.placement.engine import Engine
from terrazzo.placement.geometry import STATES, cuts_of
from terrazzo.placement.tables import Bools, Ints

Ranks = NDArray[np.int8]

REASONS = list(Reason)
RANK = {reason: rank for rank, reason in enumerate(REASONS, start=1)}
"""Later rules rank higher; 0 is "fits"."""
PERMANENT: Bools = np.array([False, *(reason.permanent for reason in REASONS)])
KEPT = 64
"""Sets of rules whose nodes are remembered."""


class _Fixed:
    """What rules and lists of devices exclude as long as no node changes.

    Attributes:
        layout: of the fleet, for which it holds.
        there: per column, whether the node is in the fleet now.
        empty: per column, the rank of why a node has no devices, 0 where it has some.
        rules: per column, the rank of what a node's own state or labels say, 0 when they allow the pod.
        other: per column, whether another resource is short.
        listed: per column and row, whether the pod's list of devices allows the device.
    """

    def __init__(self, engine: Engine, request: PodRequest) -> None:
        fleet = engine.fleet
        self.layout = fleet.layout
        self.there: Bools = np.zeros(len(fleet), dtype=bool)
        self.empty: Ranks = np.zeros(len(fleet), dtype=np.int8)
        self.rules: Ranks = np.zeros(len(fleet), dtype=np.int8)
        self.other: Bools = np.zeros(len(fleet), dtype=bool)
        self.listed: Bools = np.ones((len(fleet), fleet.kind.shape[1]), dtype=bool)
        lists = bool(request.device.include or request.device.exclude)
        for node in fleet.nodes():
            column = fleet.column(node.name)
            self.there[column] = True
            if not node.devices:
                self.empty[column] = RANK[Reason.INVENTORY_UNKNOWN if node.unknowns else Reason.NO_DEVICE]
            barred = noderules.allows(request.rules, node)
            self.rules[column] = RANK[barred.reason] if barred is not None else 0
            self.other[column] = any(amount > node.other.get(name, 0) for name, amount in request.other.items())
            if lists:
                for row, device in enumerate(node.devices):
                    self.listed[column, row] = request.device.matches(device.uuid)


class NodeReasons:
    """Why pods do not fit; remembers what does not change between two pods.

    Args:
        engine: decides who fits.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._tick = -1
        self._shut: Ranks = np.zeros((0, 0), dtype=np.int8)
        self._fixed: dict[object, _Fixed] = {}

    def of(self, request: PodRequest) -> dict[str, Reason]:
        """Return, for every node where the pod cannot be now, the reason."""
        fleet, size = self._engine.fleet, len(self._engine.fleet)
        fixed = self._fixed_of(request)
        rank = self._devices_short(request, fixed.listed)
        rank[fixed.empty > 0] = fixed.empty[fixed.empty > 0]
        rank[fixed.other] = RANK[Reason.OTHER_RESOURCE]
        rank[fleet.pods[:size] < 1] = RANK[Reason.PODS]
        rank[fleet.memory_mib[:size] < request.memory_mib] = RANK[Reason.HOST_MEMORY]
        rank[fleet.cpu_milli[:size] < request.cpu_milli] = RANK[Reason.CPU]
        rank = np.where(fixed.rules > 0, fixed.rules, rank)
        rank[self._engine.feasible(request) | ~fixed.there] = 0
        found = rank.tolist()
        return {fleet.name(at): REASONS[found[at] - 1] for at in np.flatnonzero(rank).tolist()}

    def _fixed_of(self, request: PodRequest) -> _Fixed:
        key = repr((request.rules, request.other, request.device))
        fixed = self._fixed.get(key)
        if fixed is None or fixed.layout != self._engine.fleet.layout:
            if len(self._fixed) >= KEPT:
                self._fixed.clear()
            fixed = self._fixed[key] = _Fixed(self._engine, request)
        return fixed

    def _devices_short(self, request: PodRequest, listed: Bools) -> Ranks:
        """Return, per column, the first ask's reason for which the devices do not do."""
        fleet, size = self._engine.fleet, len(self._engine.fleet)
        shut, there = self._refreshed(), fleet.kind[:size] > 0
        devices = there.sum(axis=1)
        rank: Ranks = np.zeros(size, dtype=np.int8)
        for ask in dict.fromkeys(ask for container in request.containers for ask in container.asks):
            each = self._device_ranks(request, ask, shut)
            each[~listed] = RANK[Reason.DEVICE]
            each[~there] = 0
            failed = (each > 0).sum(axis=1)
            fitting = devices - failed
            telling = each.max(axis=1, initial=0)
            few = (failed == 0) | ((devices < ask.count) & ~PERMANENT[telling])
            telling[few] = RANK[Reason.COUNT]
            short = (fitting < ask.count) & ((failed > 0) | (not ask.profile)) & (rank == 0)
            rank[short] = telling[short]
        rank[rank == 0] = RANK[Reason.NUMA if request.numa_bind else Reason.COUNT]
        return rank

    def _device_ranks(self, request: PodRequest, ask: Ask, shut: Ranks) -> Ranks:
        """Return, per column and row, which rule the device fails first, 0 when none."""
        fleet, size = self._engine.fleet, len(self._engine.fleet)
        kinds = fleet.kinds
        never: Ranks = np.zeros(len(kinds), dtype=np.int8)
        mib, units, sharers = (np.zeros(len(kinds), dtype=np.int64) for _ in range(3))
        alone: Bools = np.zeros(len(kinds), dtype=bool)
        placeable: Bools | None = None
        for number, device in enumerate(kinds):
            if device is None:
                continue
            need = need_on(request, ask, device)
            sharers[number] = device.sharers
            if isinstance(need, Misfit):
                never[number] = RANK[need.reason]
                continue
            alone[number] = need.alone
            if need.profile is None:
                mib[number], units[number] = need.memory_mib, max(need.units, 1)
            elif device.geometry is not None:
                placeable = np.ones((len(kinds), STATES), dtype=bool) if placeable is None else placeable
                placeable[number] = cuts_of(device.geometry).placeable(need.profile.name)
        kind: Ints = fleet.kind[:size]
        rank: Ranks = np.zeros(kind.shape, dtype=np.int8)
        rank[fleet.avail_units[:size] < units[kind]] = RANK[Reason.CORES]
        rank[fleet.avail_mib[:size] < mib[kind]] = RANK[Reason.MEMORY]
        if placeable is not None:
            rank[~placeable[kind, fleet.state[:size]]] = RANK[Reason.PLACEMENT]
        rank[shut == RANK[Reason.SHARERS]] = RANK[Reason.SHARERS]
        rank[alone[kind] & (fleet.sharers_left[:size] < sharers[kind])] = RANK[Reason.IN_USE]
        rank[shut == RANK[Reason.HELD_ALONE]] = RANK[Reason.HELD_ALONE]
        rank = np.where(never[kind] > 0, never[kind], rank)
        rank[(shut == RANK[Reason.HEALTH]) & (rank != RANK[Reason.VENDOR])] = RANK[Reason.HEALTH]
        return rank

    def _refreshed(self) -> Ranks:
        """Return, per column and row, why a device takes nobody more, brought up to date where the fleet changed."""
        fleet, size = self._engine.fleet, len(self._engine.fleet)
        if self._shut.shape != (size, fleet.kind.shape[1]):
            self._shut = np.zeros((size, fleet.kind.shape[1]), dtype=np.int8)
            self._tick = -1
        columns = np.flatnonzero(fleet.changed_at[:size] > self._tick)
        self._tick = fleet.tick
        self._shut[columns] = 0
        closed = (fleet.kind[columns] > 0) & (fleet.sharers_left[columns] == 0)
        for at, row in zip(*(axis.tolist() for axis in np.nonzero(closed)), strict=True):
            column = int(columns[at])
            self._shut[column, row] = RANK[self._closed_by(row, column)]
        return self._shut

    def _closed_by(self, row: int, column: int) -> Reason:
        fleet = self._engine.fleet
        device = fleet.device(row, column)
        if device.health is not Health.HEALTHY:
            return Reason.HEALTH
        held = fleet.uses(fleet.name(column), device.uuid).values()
        return Reason.HELD_ALONE if any(use.alone for use in held) else Reason.SHARERS
