"""``fragmentation``: take what is least worth to the requests that are popular.

The measure is that of FGD (Weng et al., USENIX ATC 2023) with three changes. Free capacity is counted in two
dimensions (memory and compute, by their mean). What a class could use of a node is capped by what the node's CPU can
feed, with a margin. Scores are the plain difference in coarse steps, ties go to a stable order.

A class can use a device if one device's worth of it fits there; of a node it can use the free shares of such devices,
if there are as many as one pod needs and CPU for one pod. The worth of a node is the mean of that over the popular
classes (``Landscape``). The score of a node is the share that the pod takes less the worth that is lost.
"""

from __future__ import annotations

import numpy as np

from terrazzo.placement.fleet import KIND, SHARE
from terrazzo.placement.landscape import Floats
from terrazzo.placement.strategies.base import Candidates, after, chosen_rows
from terrazzo.placement.tables import Bools, Ints

BUCKET = 40
"""Thousandths of a device that count as the same. 20 and 80 placed worse on the openb traces (``bench/openb.py``)."""
OFFSET = 1 << 20
"""Added to scores, which may be negative."""


class Fragmentation:
    """See the module."""

    def score(self, nodes: Candidates) -> tuple[Ints, Ints]:
        """Return scores and rows; see ``Strategy``."""
        land = nodes.landscape
        caps = land.caps(nodes.cpu_milli - nodes.pod_cpu_milli, nodes.grid[:, KIND, 0])
        before = land.worth[nodes.columns]
        if nodes.table.devices == 1:
            return self._one(nodes, caps, before)
        chosen = chosen_rows(nodes)
        then = np.where(chosen[:, None, :], after(nodes, nodes.grid), nodes.grid)
        parts = land.parts_of(then)
        worth = land.weigh(land.counted(parts).sum(axis=1), parts.sum(axis=1), caps)
        taken = nodes.table.amount[nodes.grid[:, KIND]] * chosen
        return OFFSET + self._steps(nodes, taken.sum(axis=1), before, worth), chosen.argmax(axis=1).astype(np.int64)

    def _one(self, nodes: Candidates, caps: Floats, before: Floats) -> tuple[Ints, Ints]:
        """Try each device of each node that fits."""
        land = nodes.landscape
        node, row = np.nonzero(_distinct(nodes))
        at = nodes.columns[node]
        now = nodes.grid[node, :, row][:, :, None]
        then = after(nodes, now)
        was = land.parts[at, row]
        parts = land.parts_of(then)[:, 0]
        count = land.count[at]
        if count.shape[1]:
            count = count - land.counted(was) + land.counted(parts)
        worth = land.weigh(count, land.usable[at] - was + parts, caps[node])
        score = self._steps(nodes, nodes.table.amount[now[:, KIND, 0]], before[node], worth)
        return _best(score, node, row, nodes.fit.shape[1])

    @staticmethod
    def _steps(nodes: Candidates, taken: Ints, before: Floats, worth: Floats) -> Ints:
        total = nodes.landscape.mix.total
        return np.floor((taken * total - before + worth) / (BUCKET * total)).astype(np.int64)


def _distinct(nodes: Candidates) -> Bools:
    """Return the fitting devices; of several wholly free ones of a node only the first, since they are alike."""
    free = nodes.fit & (nodes.grid[:, SHARE] >= 1000)
    kind = nodes.grid[:, KIND]
    repeated = free & (free.cumsum(axis=1) > 1) & (kind == kind[:, :1])
    distinct: Bools = nodes.fit & ~repeated
    return distinct


def _best(score: Ints, node: Ints, row: Ints, rows: int) -> tuple[Ints, Ints]:
    """Return the best score per node and the first row that has it. ``node`` is sorted and names every node."""
    first = np.empty(len(node), dtype=bool)
    first[0] = True
    np.not_equal(node[1:], node[:-1], out=first[1:])
    best = np.maximum.reduceat((score + OFFSET) * rows + (rows - 1 - row), np.flatnonzero(first))
    return best // rows, rows - 1 - best % rows
