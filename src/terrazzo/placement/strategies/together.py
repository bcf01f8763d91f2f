"""``topology``: the nodes whose free devices are tied best, then fragmentation.

One device alone goes where it breaks up no group that is wholly free; several go where they talk over the vendor's
links, else where they share a NUMA node.
"""

from __future__ import annotations

import numpy as np

from terrazzo.placement import topology
from terrazzo.placement.strategies.base import Candidates
from terrazzo.placement.strategies.fragmentation import Fragmentation
from terrazzo.placement.tables import Ints

RANGE = 1 << 22
"""One step of quality outweighs any difference of fragmentation."""


class Topology:
    """See the module."""

    def __init__(self) -> None:
        self._fragmentation = Fragmentation()

    def score(self, nodes: Candidates) -> tuple[Ints, Ints]:
        """Return scores and rows; see ``Strategy``."""
        score, row = self._fragmentation.score(nodes)
        devices = nodes.table.devices
        if devices < 2:
            return score, row
        pairs = devices * (devices - 1) // 2
        for node in np.flatnonzero(score >= 0):
            free = [nodes.device(int(row), int(nodes.columns[node])) for row in np.flatnonzero(nodes.fit[node])]
            chosen = topology.together(free, devices)
            score[node] += RANGE * (topology.quality([free[i] for i in chosen]) * 4 // (10 * pairs))
        return score, row
