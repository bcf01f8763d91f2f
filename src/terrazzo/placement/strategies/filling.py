"""``pack`` and ``spread``: fullest or emptiest first, by the free part of node and device after the pod is there."""

from __future__ import annotations

import numpy as np

from terrazzo.placement.fleet import KIND
from terrazzo.placement.strategies.base import Candidates, chosen_rows
from terrazzo.placement.tables import Ints

STEPS = 50
"""Scores come in fiftieths of a node, so that nearly equal nodes tie."""


class Pack:
    """Fullest first."""

    sign = -1

    def score(self, nodes: Candidates) -> tuple[Ints, Ints]:
        """Return scores and rows; see ``Strategy``."""
        share, kind = nodes.landscape.share, nodes.landscape.looks[KIND]
        now = share.take(nodes.look)
        then = np.where(nodes.fit, share.take(nodes.then), now)
        if nodes.table.devices == 1:
            row = np.where(nodes.fit, self.sign * then, np.iinfo(np.int64).min).argmax(axis=1)
            taken = np.zeros_like(nodes.fit)
            taken[np.arange(len(row)), row] = True
        else:
            taken = chosen_rows(nodes)
            row = taken.argmax(axis=1)
        left = np.where(taken, then, now).sum(axis=1)
        devices = np.maximum(1, (kind.take(nodes.look) > 0).sum(axis=1))
        device = np.where(taken, then, 0).sum(axis=1) // max(1, nodes.table.devices)
        scaled = left * STEPS // (devices * 1000)
        score = self.sign * (scaled * STEPS + device * STEPS // 1000) + 2 * STEPS * STEPS
        return np.where(nodes.able(), score, -1), row


class Spread(Pack):
    """Emptiest first."""

    sign = 1
