"""``fragmentation``: take what is least worth to the requests that are popular.

The measure is that of FGD (Weng et al., USENIX ATC 2023) with three changes. Free capacity is counted in two
dimensions, memory and compute, and the scarcer counts. What a class could use of a node is capped by what the node's
CPU can feed, with a margin. Scores are the plain difference in coarse steps, ties go to a stable order.

A class can use a device if one device's worth of it fits there; of a node it can use the free shares of such devices,
if there are as many as one pod needs and CPU for one pod. The worth of a node is the mean of that over the popular
classes (``Landscape``). The score of a node is the share that the pod takes less the worth that is lost.
"""

from __future__ import annotations

import numpy as np

from terrazzo.placement.fleet import KIND
from terrazzo.placement.landscape import Floats, Landscape
from terrazzo.placement.strategies.base import Candidates, chosen_rows
from terrazzo.placement.tables import Ints

BUCKET = 40
"""Thousandths of a device that count as the same. 20 and 80 placed worse on the openb traces (``bench/openb.py``)."""
OFFSET = 1 << 20
"""Added to scores, which may be negative."""


class Fragmentation:
    """See the module."""

    def score(self, nodes: Candidates) -> tuple[Ints, Ints]:
        """Return scores and rows; see ``Strategy``."""
        land = nodes.landscape
        caps = land.caps(nodes.cpu_milli - nodes.pod_cpu_milli, land.looks[KIND].take(nodes.look[:, 0]))
        if nodes.table.devices == 1:
            return self._one(nodes, caps)
        chosen = chosen_rows(nodes)
        worth = land.weigh(land.part.take(np.where(chosen, nodes.then, nodes.look), axis=0).sum(axis=1), caps)
        taken = (nodes.table.amount.take(land.looks[KIND].take(nodes.look)) * chosen).sum(axis=1)
        steps = self._steps(land, taken, land.worth.take(nodes.columns), worth)
        return np.where(nodes.able(), OFFSET + steps, -1), chosen.argmax(axis=1)

    def _one(self, nodes: Candidates, caps: Floats) -> tuple[Ints, Ints]:
        """Try each device that fits, of those of one node that look alike the first."""
        land, columns = nodes.landscape, nodes.columns
        node, row = (nodes.fit & land.first.take(columns, axis=0)).nonzero()
        at, look, then = columns.take(node), nodes.look[node, row], nodes.then[node, row]
        usable = land.usable.take(at, axis=0) - land.part.take(look, axis=0) + land.part.take(then, axis=0)
        worth = land.weigh(usable, caps.take(node, axis=0))
        taken = nodes.table.amount.take(land.looks[KIND].take(look))
        score = np.full(nodes.fit.shape, -1)
        score[node, row] = OFFSET + self._steps(land, taken, land.worth.take(at), worth)
        return score.max(axis=1), score.argmax(axis=1)

    @staticmethod
    def _steps(land: Landscape, taken: Ints, before: Floats, worth: Floats) -> Ints:
        total = land.mix.total
        return np.floor((taken * total - before + worth) / (BUCKET * total)).astype(np.int64)
