"""``fragmentation``: take what is least worth to the requests that are popular.

The measure is that of FGD (Weng et al., USENIX ATC 2023) with three changes. Free capacity is counted in two
dimensions (memory and compute, by their mean). What a class could use of a node is capped by what the node's CPU can
feed, with a margin. Scores are the plain difference in coarse steps, ties go to a stable order.

A class can use a device if one device's worth of it fits there; of a node it can use the free shares of such devices,
if there are as many as one pod needs and CPU for one pod. The worth of a node is the mean of that over the popular
classes. The score of a node is the share that the pod takes less the worth that is lost.
"""

from __future__ import annotations

import numpy as np

from terrazzo.placement.strategies.base import After, Candidates, after, chosen_rows, everything, some
from terrazzo.placement.tables import Bools, Ints, MixTable

BUCKET = 40
"""Thousandths of a device that count as the same. 20 and 80 placed worse on the openb traces (``bench/openb.py``)."""
CAP_HALVES = 3
"""What CPU can feed, in halves: 3 is a margin of one half, since a mix of pods needs less CPU than its hungriest."""
OFFSET = 1 << 20
"""Added to scores, which may be negative."""


class Fragmentation:
    """See the module."""

    def score(self, nodes: Candidates) -> tuple[Ints, Ints]:
        """Return scores and rows; see ``Strategy``."""
        mix = nodes.mix
        fits, parts = _parts(mix, nodes.kind, After(nodes.mib, nodes.units, nodes.state, nodes.share))
        count, usable = fits.sum(axis=1), parts.sum(axis=1)
        main = nodes.kind[0]
        before = _worth(mix, count, usable, nodes.cpu_milli, main)
        cpu = nodes.cpu_milli - nodes.pod_cpu_milli
        if nodes.table.devices == 0:
            lost = before - _worth(mix, count, usable, cpu, main)
            return OFFSET + -lost // (BUCKET * mix.total), np.zeros(len(lost), dtype=np.int64)
        if nodes.table.devices > 1:
            return self._several(nodes, before, cpu)
        column, row = np.nonzero(_distinct(nodes).T)
        kind = nodes.kind[row, column]
        then = after(nodes, some(nodes, row, column))
        fits_then, parts_then = _parts(mix, kind, then)
        worth = _worth(
            mix,
            count[:, column] - fits[:, row, column] + fits_then,
            usable[:, column] - parts[:, row, column] + parts_then,
            cpu[column],
            main[column],
        )
        taken = nodes.share[row, column] - then.share
        score = (taken * mix.total - before[column] + worth) // (BUCKET * mix.total)
        return _best(score, column, row, nodes.fit.shape)

    @staticmethod
    def _several(nodes: Candidates, before: Ints, cpu: Ints) -> tuple[Ints, Ints]:
        chosen = chosen_rows(nodes)
        full = after(nodes, everything(nodes))
        then = After(
            np.where(chosen, full.mib, nodes.mib),
            np.where(chosen, full.units, nodes.units),
            np.where(chosen, full.state, nodes.state),
            np.where(chosen, full.share, nodes.share),
        )
        fits, parts = _parts(nodes.mix, nodes.kind, then)
        worth = _worth(nodes.mix, fits.sum(axis=1), parts.sum(axis=1), cpu, nodes.kind[0])
        taken = (nodes.share - then.share).sum(axis=0)
        score = (taken * nodes.mix.total - before + worth) // (BUCKET * nodes.mix.total)
        return OFFSET + score, chosen.argmax(axis=0).astype(np.int64)


def _parts(mix: MixTable, kind: Ints, now: After) -> tuple[Bools, Ints]:
    """Return, per shape and device, whether it fits, and the share it then could use."""
    fits: Bools = (now.mib >= mix.test_mib[:, kind]) & (now.units >= mix.test_units[:, kind])
    if mix.placeable is not None:
        fits &= mix.placeable[:, kind, now.state]
    return fits, fits * now.share


def _worth(mix: MixTable, count: Ints, usable: Ints, cpu_milli: Ints, main: Ints) -> Ints:
    """Return the worth of nodes: what each class can use, weighted.

    Args:
        mix: popular classes.
        count: shapes × nodes, devices that fit.
        usable: shapes × nodes, their free shares together.
        cpu_milli: nodes.
        main: nodes, kind of the first device.
    """
    shape = mix.shape
    cpu = mix.cpu_milli[:, None]
    can = (count[shape] >= mix.devices[:, None]) & (cpu_milli >= cpu)
    fed = np.where(cpu > 0, cpu_milli // np.maximum(cpu, 1), 1 << 20)
    cap = fed * mix.devices[:, None] * mix.amount[shape[:, None], main] * CAP_HALVES // 2
    worth: Ints = (mix.weight[:, None] * np.where(can, np.minimum(usable[shape], cap), 0)).sum(axis=0)
    return worth


def _distinct(nodes: Candidates) -> Bools:
    """Return the fitting devices, without those that equal an earlier one of the same node."""
    key = ((nodes.kind * 4096 + nodes.units) * 1024 + nodes.state) * (1 << 24) + nodes.mib
    same = (key[:, None, :] == key[None, :, :]) & nodes.fit[None, :, :]
    earlier = np.tri(len(key), k=-1, dtype=bool)[:, :, None]
    repeated: Bools = (same & earlier).any(axis=1)
    return nodes.fit & ~repeated


def _best(score: Ints, column: Ints, row: Ints, shape: tuple[int, ...]) -> tuple[Ints, Ints]:
    """Return the best score per node and the first row that has it. ``column`` is sorted."""
    rows, _ = shape
    starts = np.flatnonzero(np.diff(column, prepend=-1))
    best = np.maximum.reduceat((score + OFFSET) * rows + (rows - 1 - row), starts)
    return best // rows, rows - 1 - best % rows
