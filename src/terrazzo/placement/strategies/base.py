"""What a strategy sees, and the arithmetic that all share."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from terrazzo.model.device import Device
from terrazzo.placement.fleet import KIND, MIB, SHARE, SHARERS, STATE, UNITS
from terrazzo.placement.landscape import Landscape
from terrazzo.placement.tables import Bools, Ints, Table


class Candidates(NamedTuple):
    """Nodes that can take the pod, as columns cut out of the fleet.

    Attributes:
        columns (nodes): where in the fleet they are.
        grid (nodes × 6 × rows): their devices; see ``fleet.GRID``.
        fit (nodes × rows): whether the device can take one device's worth of the ask.
        cpu_milli (nodes): CPU left.
        pod_cpu_milli: CPU that the pod takes.
        table: the ask.
        landscape: what popular classes can use, node by node.
        total_mib, total_units (kinds): size of each kind of device.
        device: the device at a row and a column of the fleet.
    """

    columns: NDArray[np.intp]
    grid: Ints
    fit: Bools
    cpu_milli: Ints
    pod_cpu_milli: int
    table: Table
    landscape: Landscape
    total_mib: Ints
    total_units: Ints
    device: Callable[[int, int], Device]


class Strategy(Protocol):
    """A way to score."""

    def score(self, nodes: Candidates) -> tuple[Ints, Ints]:
        """Return, per node, the score (more is better) and the row of the device to use (first one of several)."""
        ...


def after(nodes: Candidates, grid: Ints) -> Ints:
    """Return devices (nodes × 6 × rows) after one device's worth of the ask went onto each; shares are not updated."""
    table = nodes.table
    kind = grid[:, KIND]
    then = grid.copy()
    then[:, MIB] -= table.take_mib.take(kind)
    then[:, UNITS] -= table.take_units.take(kind)
    shut = grid[:, SHARERS] <= 1
    if table.some_alone:
        shut |= table.alone.take(kind)
    np.maximum(then[:, MIB : UNITS + 1], 0, out=then[:, MIB : UNITS + 1])
    if shut.any():
        then[:, MIB : UNITS + 1] *= ~shut[:, None]
    if table.following is not None:
        then[:, STATE] = table.following[kind, grid[:, STATE]]
    return then


def shares(nodes: Candidates, grid: Ints) -> Ints:
    """Return the free part of devices (nodes × rows) in thousandths, the mean of memory and compute."""
    kind = grid[:, KIND]
    return (grid[:, MIB] * 1000 // nodes.total_mib[kind] + grid[:, UNITS] * 1000 // nodes.total_units[kind]) // 2


def chosen_rows(nodes: Candidates) -> Bools:
    """Return the devices that an ask of several takes on each node: fullest first, then by place."""
    rows = nodes.fit.shape[1]
    place = np.arange(rows, dtype=np.int64)
    key = np.where(nodes.fit, nodes.grid[:, SHARE] * rows + place, np.iinfo(np.int64).max)
    rank = np.empty_like(key)
    np.put_along_axis(rank, np.argsort(key, axis=1, kind="stable"), place[None, :], axis=1)
    return nodes.fit & (rank < nodes.table.devices)
