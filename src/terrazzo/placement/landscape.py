"""What popular classes of request could use of each node: kept per node, shared by all score rows.

Figures are whole numbers held as floats (below 2**53, so sums are exact in any order and on any machine): a matrix
product then does the weighing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from terrazzo.placement.fleet import KIND, MIB, STATE, UNITS, Fleet
from terrazzo.placement.tables import ROUNDING, Bools, Ints, MixTable

Floats = NDArray[np.float64]
Parts = NDArray[np.float32]

MARGIN = 2.0
"""What a node's CPU can feed of a class is counted with this margin: a mix needs less CPU than its hungriest."""


class Landscape:
    """Per shape of the mix and node.

    Attributes:
        mix: the popular classes.
        parts (nodes × rows × shapes): what the shape could use of each device, in thousandths.
        usable (nodes × shapes): their sum.
        count (nodes × classes that ask for several devices): devices that fit.
        worth (nodes): weighted sum over classes of what each can use.
    """

    def __init__(self, fleet: Fleet, mix: MixTable) -> None:
        self.mix = mix
        self._fleet = fleet
        self._tick = -1
        shapes, (columns, _, rows) = mix.can.shape[1], fleet.grid.shape
        self.parts: Parts = np.zeros((columns, rows, shapes), dtype=np.float32)
        self.usable: Parts = np.zeros((columns, shapes), dtype=np.float32)
        self._several = np.flatnonzero(mix.devices > 1)
        self._several_shapes = mix.shape[self._several]
        self.count: Ints = np.zeros((columns, len(self._several)), dtype=np.int64)
        self.worth: Floats = np.zeros(columns)
        self._own_shapes = np.array_equal(mix.shape, np.arange(shapes))
        self._weight = mix.weight.astype(np.float64)
        self._devices = mix.devices[self._several]
        # A class that asks for no CPU is fed by any amount of it, even none.
        self._cpu = np.maximum(mix.cpu_milli.astype(np.float64), 1e-9)
        self._spare = np.where(mix.cpu_milli > 0, 0.0, 1.0)
        self._feeds = mix.amount[:, mix.shape] * mix.devices * MARGIN

    def refresh(self) -> None:
        """Bring all nodes that changed up to date."""
        fleet = self._fleet
        if self._tick == fleet.tick:
            return
        columns = np.flatnonzero(fleet.changed_at > self._tick)
        self._tick = fleet.tick
        grid = fleet.grid[columns]
        parts = self.parts_of(grid)
        self.parts[columns] = parts
        self.usable[columns] = usable = parts.sum(axis=1)
        self.count[columns] = count = self.counted(parts).sum(axis=1)
        self.worth[columns] = self.weigh(count, usable, self.caps(fleet.cpu_milli[columns], grid[:, KIND, 0]))

    def parts_of(self, grid: Ints) -> Parts:
        """Return, per shape, what it could use of devices that it fits on, in thousandths, else 0.

        What runs out first counts: memory left over without compute is of no use to a shape that needs both, and
        compute is of no account to one that needs none.

        Args:
            grid: nodes × 6 × rows, as in the fleet.

        Returns:
            Array of nodes × rows × shapes.
        """
        mix, kind = self.mix, grid[:, KIND]
        rates = mix.rates.take(kind, axis=0)
        worth = np.minimum(grid[:, MIB, :, None] * rates[:, :, 0], grid[:, UNITS, :, None] * rates[:, :, 1])
        fits: Bools = worth >= rates[:, :, 2]
        if mix.placeable is not None:
            fits &= mix.placeable[kind, grid[:, STATE]]
        worth += ROUNDING
        worth *= fits
        parts: Parts = np.floor(worth, out=worth).astype(np.float32)
        return parts

    def caps(self, cpu_milli: Ints, main: Ints) -> Floats:
        """Return, per node and class, the shares that the node's CPU can feed.

        Args:
            cpu_milli: per node, CPU left.
            main: per node, kind of its first device.
        """
        fed = np.floor(cpu_milli[:, None] / self._cpu + self._spare)
        caps: Floats = fed * self._feeds.take(main, axis=0)
        return caps

    def counted(self, parts: Parts) -> Bools:
        """Return, per device, whether the classes that ask for several fit on it.

        Args:
            parts: … × shapes, from ``parts_of``.
        """
        fits: Bools = parts[..., self._several_shapes] > 0
        return fits

    def weigh(self, count: Ints, usable: Parts, caps: Floats) -> Floats:
        """Return the worth of nodes.

        Args:
            count: nodes × classes that ask for several devices, devices that fit.
            usable: nodes × shapes, their free shares together.
            caps: nodes × classes, from ``caps``.
        """
        can_use = usable if self._own_shapes else usable.take(self.mix.shape, axis=1)
        worth = np.minimum(can_use, caps)
        if len(self._several):
            worth[:, self._several] *= count >= self._devices
        weighed: Floats = worth @ self._weight
        return weighed
