"""What popular classes of request could use of each node: kept per node, shared by all score rows.

Figures are whole numbers held as floats (below 2**53, so sums are exact in any order and on any machine): a matrix
product then does the weighing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from terrazzo.placement.fleet import Fleet
from terrazzo.placement.tables import Bools, Ints, MixTable

Floats = NDArray[np.float64]
Parts = NDArray[np.float32]

MARGIN = 1.5
"""What a node's CPU can feed of a class is counted with this margin: a mix needs less CPU than its hungriest."""


class Landscape:
    """Per shape of the mix and node.

    Attributes:
        mix: the popular classes.
        parts (shapes × rows × nodes): free share of each device that the shape fits on, else 0.
        usable (shapes × nodes): their sum.
        count (shapes × nodes): devices that fit.
        worth (nodes): weighted sum over classes of what each can use.
    """

    def __init__(self, fleet: Fleet, mix: MixTable) -> None:
        self.mix = mix
        self._fleet = fleet
        self._tick = -1
        shapes, (_, rows, columns) = len(mix.test_mib), fleet.grid.shape
        self.parts: Parts = np.zeros((shapes, rows, columns), dtype=np.float32)
        self.usable: Parts = np.zeros((shapes, columns), dtype=np.float32)
        self.count: Parts = np.zeros((shapes, columns), dtype=np.float32)
        self.worth: Floats = np.zeros(columns)
        self._weight = mix.weight.astype(np.float64)
        self._devices = mix.devices.astype(np.float32)[:, None]
        self._cpu = np.maximum(mix.cpu_milli, 1).astype(np.float64)[:, None]
        self._needs_cpu = (mix.cpu_milli > 0)[:, None]
        amount = mix.amount[mix.shape] if len(mix.shape) else np.zeros((0, len(fleet.kinds)), dtype=np.int64)
        self._feeds = amount * mix.devices[:, None] * MARGIN

    def refresh(self) -> None:
        """Bring all nodes that changed up to date."""
        fleet = self._fleet
        if self._tick == fleet.tick:
            return
        columns = np.flatnonzero(fleet.changed_at > self._tick)
        self._tick = fleet.tick
        grid = fleet.grid[:, :, columns]
        parts = self.parts_of(grid[0], grid[1], grid[2], grid[4], grid[5])
        self.parts[:, :, columns] = parts
        self.usable[:, columns] = usable = parts.sum(axis=1)
        self.count[:, columns] = count = (parts > 0).sum(axis=1)
        self.worth[columns] = self.weigh(count, usable, self.caps(fleet.cpu_milli[columns], grid[0, 0]))

    def parts_of(self, kind: Ints, mib: Ints, units: Ints, state: Ints, share: Ints) -> Parts:
        """Return, per shape, the free share of these devices (any shape of array) where the shape fits, else 0."""
        mix = self.mix
        fits: Bools = (mib >= mix.test_mib.take(kind, axis=1)) & (units >= mix.test_units.take(kind, axis=1))
        if mix.placeable is not None:
            fits &= mix.placeable[:, kind, state]
        parts: Parts = np.multiply(fits, share, dtype=np.float32)
        return parts

    def caps(self, cpu_milli: Ints, main: Ints) -> Floats:
        """Return, per class and node, the shares that the node's CPU can feed.

        Args:
            cpu_milli: per node, CPU left.
            main: per node, kind of its first device.
        """
        fed = np.where(self._needs_cpu, np.floor(cpu_milli / self._cpu), 1 << 20)
        caps: Floats = fed * self._feeds.take(main, axis=1)
        return caps

    def weigh(self, count: Parts, usable: Parts, caps: Floats) -> Floats:
        """Return the worth of nodes.

        Args:
            count: shapes × nodes, devices that fit.
            usable: shapes × nodes, their free shares together.
            caps: classes × nodes, from ``caps``.
        """
        shape = self.mix.shape
        enough = count.take(shape, axis=0) >= self._devices
        worth: Floats = self._weight @ np.minimum(usable.take(shape, axis=0) * enough, caps)
        return worth
