"""What popular classes of request could use of each node: kept per node, shared by all score rows.

Devices that look alike share a number, their *look*, and every figure of a device is worked out once per look: a
decision then looks figures up for the few devices that changed.

Figures are whole numbers held as floats (below 2**53, so sums are exact in any order and on any machine): a matrix
product then does the weighing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from terrazzo.placement.fleet import KIND, MIB, SHARE, SHARERS, STATE, UNITS, Fleet
from terrazzo.placement.tables import ROUNDING, Bools, Ints, MixTable, totals

Floats = NDArray[np.float64]
Parts = NDArray[np.float32]
Places = NDArray[np.intp]

MARGIN = 2.0
"""What a node's CPU can feed of a class is counted with this margin: a mix needs less CPU than its hungriest."""
PLENTY = 2
"""Sharers that a look tells apart: none, one (who comes next closes the device), and this many or more."""
SPARE = 1 << 17
"""Looks kept beside those of the devices as they are. With more, numbering starts anew."""


class Landscape:
    """Per node and class of the mix, and per look.

    What a class could use is followed, for each class that asks for several devices, by whether it fits at all.

    Attributes:
        mix: the popular classes.
        looks (5 × looks): the columns of ``fleet.GRID`` before the share.
        part (looks × (classes + several)): what the class could use of a device that looks so, in thousandths.
        share (looks): free part of such a device in thousandths, the mean of memory and compute.
        epoch: grows when looks get new numbers.
        look (nodes × rows): the look of each device.
        first (nodes × rows): whether no device before it on the node looks the same.
        usable (nodes × (classes + several)): sum of ``part`` over the devices of the node.
        worth (nodes): weighted sum over classes of what each can use.
    """

    def __init__(self, fleet: Fleet, mix: MixTable) -> None:
        self.mix = mix
        self.epoch = 0
        self._fleet = fleet
        self._tick = -1
        self._totals = totals(fleet.kinds)
        # Those that ask for several come last, so that they are a slice.
        order = np.argsort(mix.devices > 1, kind="stable")
        self._classes = len(order)
        self._single = int((mix.devices <= 1).sum())
        self._shape = mix.shape[order]
        self._devices = mix.devices[order][self._single :].astype(np.float32)
        self._weight = mix.weight[order].astype(np.float64)
        # A class that asks for no CPU is fed by any amount of it, even none.
        self._cpu = np.maximum(mix.cpu_milli[order].astype(np.float64), 1e-9)
        self._feeds = mix.amount[:, self._shape] * mix.devices[order] * MARGIN
        columns, _, rows = fleet.grid.shape
        width = self._classes + len(self._devices)
        self._numbers: dict[bytes, int] = {}
        self.looks: Ints = np.zeros((SHARE, 256), dtype=np.int64)
        self.part: Parts = np.zeros((256, width), dtype=np.float32)
        self.share: Ints = np.zeros(256, dtype=np.int64)
        self.look: Places = np.zeros((columns, rows), dtype=np.intp)
        self.first: Bools = np.zeros((columns, rows), dtype=bool)
        self.usable: Parts = np.zeros((columns, width), dtype=np.float32)
        self.worth: Floats = np.zeros(columns)

    # -- looks ---------------------------------------------------------------------------------------------------

    def number(self, looks: Ints) -> Places:
        """Return the numbers of looks.

        Args:
            looks: looks × 5, in the order of ``fleet.GRID``.
        """
        numbers, known = self._numbers, len(self._numbers)
        as_bytes = np.ascontiguousarray(looks).view(f"V{looks.itemsize * SHARE}").ravel().tolist()
        found = np.array([numbers.setdefault(look, len(numbers)) for look in as_bytes], dtype=np.intp)
        if len(numbers) > known:
            new = np.flatnonzero(found >= known)
            self._make_room(len(numbers))
            self.looks[:, found[new]] = looks[new].T
            self._work_out(known, len(numbers))
        return found

    def _make_room(self, size: int) -> None:
        more = max(size, 2 * len(self.share)) - len(self.share)
        if size > len(self.share):
            self.looks = np.pad(self.looks, ((0, 0), (0, more)))
            self.part = np.pad(self.part, ((0, more), (0, 0)))
            self.share = np.pad(self.share, (0, more))

    def _work_out(self, first: int, end: int) -> None:
        """Work out the figures of new looks."""
        looks = self.looks[:, first:end]
        self.part[first:end] = self._parts_of(looks)
        mib, units = (total[looks[KIND]] for total in self._totals)
        self.share[first:end] = (looks[MIB] * 1000 // mib + looks[UNITS] * 1000 // units) // 2

    def _parts_of(self, looks: Ints) -> Parts:
        """Return rows of ``part``: what the class could use of the device if it fits there, else 0.

        What runs out first counts: memory left over without compute is of no use to a class that needs both, and
        compute is of no account to one that needs none.
        """
        mix, kind = self.mix, looks[KIND]
        rates = mix.rates[kind]
        worth = np.minimum(looks[MIB, :, None] * rates[:, 0], looks[UNITS, :, None] * rates[:, 1])
        fits: Bools = worth >= rates[:, 2]
        if mix.placeable is not None:
            fits &= mix.placeable[kind, looks[STATE]]
        parts = np.floor((worth + ROUNDING) * fits)[:, self._shape]
        whole: Parts = np.hstack([parts, parts[:, self._single :] > 0]).astype(np.float32)
        return whole

    # -- nodes ---------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Bring all nodes that changed up to date."""
        fleet = self._fleet
        if self._tick == fleet.tick:
            return
        if len(self._numbers) > SPARE + self.look.size:
            self._numbers.clear()
            self.epoch += 1
            self._tick = -1
        columns = (fleet.changed_at[: len(fleet)] > self._tick).nonzero()[0]
        self._tick = fleet.tick
        looks = fleet.grid.take(columns, axis=0)[:, :SHARE].transpose(0, 2, 1).reshape(-1, SHARE)
        np.minimum(looks[:, SHARERS], PLENTY, out=looks[:, SHARERS])
        look = self.number(looks).reshape(len(columns), -1)
        alike = look[:, :, None] == look[:, None, :]
        self.look[columns] = look
        self.first[columns] = alike.argmax(axis=2) == np.arange(look.shape[1])
        self.usable[columns] = usable = self.part.take(look, axis=0).sum(axis=1)
        main = self.looks[KIND].take(look[:, 0])
        self.worth[columns] = self.weigh(usable, self.caps(fleet.cpu_milli.take(columns), main))

    def caps(self, cpu_milli: Ints, main: Ints) -> Floats:
        """Return, per node and class, the shares that the node's CPU can feed.

        Args:
            cpu_milli: per node, CPU left.
            main: per node, kind of its first device.
        """
        # Half a thousandth more changes no quotient of whole numbers, but is plenty for who needs none.
        caps: Floats = np.floor((np.maximum(cpu_milli, 0) + 0.5)[:, None] / self._cpu)
        caps *= self._feeds.take(main, axis=0)
        return caps

    def weigh(self, usable: Parts, caps: Floats) -> Floats:
        """Return the worth of nodes.

        Args:
            usable: nodes × (classes + several), as ``usable`` of this.
            caps: nodes × classes, from ``caps``.
        """
        worth = np.minimum(usable[:, : self._classes], caps)
        worth[:, self._single :] *= usable[:, self._classes :] >= self._devices
        weighed: Floats = worth @ self._weight
        return weighed
