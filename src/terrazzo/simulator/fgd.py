"""Fragmentation gradient descent: the published policy, as coded by its authors.

Source: Q. Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
Descent", USENIX ATC 2023, and github.com/hkust-adsl/kubernetes-scheduler-simulator. The mix of requests is given to it
beforehand, as there. Ties go to the first node of a fixed order: without that it places far worse.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from terrazzo.model.device import Device
from terrazzo.model.request import Ask, PodRequest
from terrazzo.placement.fleet import Fleet
from terrazzo.placement.popularity import RequestClass, class_of
from terrazzo.placement.tables import NEVER, Ints, Table, compile_ask
from terrazzo.simulator.baselines import Baseline, Candidates, Floats, taken_thousandths

COVER = 0.95
"""The shortest list of classes, most popular first, that makes this part of all requests is looked at."""


def typical(requests: Iterable[PodRequest]) -> tuple[tuple[RequestClass, float], ...]:
    """Return the popular classes and the part of each among them."""
    counts = Counter(class_of(request) for request in requests)
    ranked = sorted(counts.items(), key=lambda item: (item[1], _size(item[0])), reverse=True)
    enough, covered = COVER * counts.total(), 0
    chosen = []
    for kind, count in ranked:
        if covered >= enough:
            break
        chosen.append((kind, count))
        covered += count
    return tuple((kind, count / covered) for kind, count in chosen)


def _size(kind: RequestClass) -> tuple[object, ...]:
    """Order classes that are equally popular: larger ones go first."""
    ask = kind.ask or Ask(count=0)
    return (kind.cpu_milli, ask.whole, ask.cores_percent, ask.memory_percent, ask.memory_mib, ask.count,
            "|".join(kind.model.include), ask.profile, ask.vendors, ask.models, kind.vendor.include)  # fmt: skip


class Fragmentation:
    """Expected fragmentation of nodes for a mix: the idle thousandths that the next pod could not use.

    Args:
        mix: classes with their parts.
        fleet: for its kinds of device.
    """

    def __init__(self, mix: Sequence[tuple[RequestClass, float]], fleet: Fleet) -> None:
        kinds = fleet.kinds
        asks = [kind.ask or Ask(count=0) for kind, _ in mix]
        tables = [_table(kind, ask, kinds) for (kind, _), ask in zip(mix, asks, strict=True)]
        able = np.array([table.test_mib < NEVER for table in tables], dtype=bool).reshape(len(mix), len(kinds))
        takes = np.array([taken_thousandths(fleet, table) for table in tables], dtype=np.int64).reshape(able.shape)
        # A kind that a class cannot use never counts; giving it the class's size elsewhere leaves fewer sizes to test.
        takes = np.where(able, takes, np.where(able, takes, 0).max(axis=1, keepdims=True))
        sizes, self._size = np.unique(takes, axis=0, return_inverse=True)
        self._sizes: Ints = np.ascontiguousarray(sizes.T)
        self._size = self._size.reshape(-1)
        self._part = np.array([part for _, part in mix])
        self._total = self._part.sum()
        self._cpu = np.array([kind.cpu_milli for kind, _ in mix], dtype=np.int64)
        self._devices = np.array([ask.count for ask in asks], dtype=np.int64)
        self._able = np.ascontiguousarray((able & (self._devices > 0)[:, None]).T)

    def __call__(self, free: Ints, cpu_milli: Ints, kind: Ints) -> Floats:
        """Return the fragmentation per node, in thousandths of devices.

        Args:
            free: nodes × rows, thousandths left.
            cpu_milli: per node.
            kind: per node, kind of its devices.
        """
        fits = free[:, :, None] >= self._sizes[kind][:, None, :]
        count = fits.sum(1)
        usable = (free[:, :, None] * fits).sum(1)
        able = (count[:, self._size] >= self._devices) & (cpu_milli[:, None] >= self._cpu) & self._able[kind]
        lost: Floats = free.sum(1) * self._total - (self._part * able * usable[:, self._size]).sum(1)
        return lost


def _table(kind: RequestClass, ask: Ask, kinds: Sequence[Device | None]) -> Table:
    request = PodRequest(name="typical", vendor=kind.vendor, model=kind.model, exclusive=kind.exclusive)
    return compile_ask(request, ask, kinds, {})


class Fgd(Baseline):
    """Where expected fragmentation grows least.

    Args:
        fleet: the fleet.
        requests: all that will be submitted, for their mix.
    """

    def __init__(self, fleet: Fleet, requests: Iterable[PodRequest]) -> None:
        super().__init__(fleet)
        self._lost = Fragmentation(typical(requests), fleet)

    def _score(self, request: PodRequest, line: Table, nodes: Candidates) -> tuple[Floats, Ints]:
        kind = self.fleet.kind[nodes.columns, 0]
        cpu = nodes.cpu_milli - request.cpu_milli
        before = self._lost(nodes.free, nodes.cpu_milli, kind)
        if line.devices == 1 and (nodes.take < 1000).any():
            return self._one(nodes, before, cpu, kind)
        free = nodes.free.copy()
        if line.devices:
            rank = np.argsort(np.argsort(np.where(nodes.fit, free, 1 << 40), axis=1, kind="stable"), axis=1)
            chosen = nodes.fit & (rank < line.devices)
            free -= np.where(chosen, nodes.take[:, None], 0)
        score = _bucket(before - self._lost(free, cpu, kind))
        return score, np.full(len(score), -1, dtype=np.int64)

    def _one(self, nodes: Candidates, before: Floats, cpu: Ints, kind: Ints) -> tuple[Floats, Ints]:
        """Try every device that fits; the first of the best counts."""
        node, row = np.nonzero(nodes.fit)
        free = nodes.free[node]
        free[np.arange(len(node)), row] -= nodes.take[node]
        tried = np.full(nodes.fit.shape, -1.0)
        tried[node, row] = _bucket(before[node] - self._lost(free, cpu[node], kind[node]))
        best = tried.argmax(axis=1)
        return tried[np.arange(len(best)), best], best.astype(np.int64)


def _bucket(gain: Floats) -> Floats:
    """Return the published score of a fall in fragmentation: 0..100, in whole steps."""
    score: Floats = np.floor(100.0 / (1.0 + np.exp(-gain / 1000.0)))
    return score
