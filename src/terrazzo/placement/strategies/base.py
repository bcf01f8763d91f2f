"""What a strategy sees, and the arithmetic that all share."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from terrazzo.model.device import Device
from terrazzo.placement.tables import Bools, Ints, MixTable, Table


class Candidates(NamedTuple):
    """Nodes that can take the pod, as columns cut out of the fleet. Arrays are rows × nodes unless said otherwise.

    Attributes:
        kind, mib, units, sharers, state, share: as in ``Fleet``.
        fit: whether the device can take one device's worth of the ask.
        cpu_milli (nodes): CPU left.
        pod_cpu_milli: CPU that the pod takes.
        table: the ask.
        mix: popular classes.
        total_mib, total_units (kinds): size of each kind.
        columns (nodes): where in the fleet they are.
        device: the device at a row and a column of the fleet.
    """

    kind: Ints
    mib: Ints
    units: Ints
    sharers: Ints
    state: Ints
    share: Ints
    fit: Bools
    cpu_milli: Ints
    pod_cpu_milli: int
    table: Table
    mix: MixTable
    total_mib: Ints
    total_units: Ints
    columns: NDArray[np.intp]
    device: Callable[[int, int], Device]


class After(NamedTuple):
    """Devices after one device's worth of the ask was put on each; same shape as what was given."""

    mib: Ints
    units: Ints
    state: Ints
    share: Ints


class Strategy(Protocol):
    """A way to score."""

    def score(self, nodes: Candidates) -> tuple[Ints, Ints]:
        """Return, per node, the score (more is better) and the row of the device to use (first one of several)."""
        ...


class Devices(NamedTuple):
    """Some devices as they are, in any shape."""

    kind: Ints
    mib: Ints
    units: Ints
    sharers: Ints
    state: Ints


def everything(nodes: Candidates) -> Devices:
    """Return all devices of the candidates."""
    return Devices(nodes.kind, nodes.mib, nodes.units, nodes.sharers, nodes.state)


def some(nodes: Candidates, row: Ints, column: Ints) -> Devices:
    """Return the devices at these places."""
    return Devices(*(part[row, column] for part in everything(nodes)))


def after(nodes: Candidates, now: Devices) -> After:
    """Return these devices after one device's worth of the ask went onto each."""
    kind, mib, units, sharers, state = now
    table = nodes.table
    shut = table.alone[kind] | (sharers <= 1)
    left_mib = np.where(shut, 0, np.maximum(0, mib - table.take_mib[kind]))
    left_units = np.where(shut, 0, np.maximum(0, units - table.take_units[kind]))
    following = state if table.following is None else table.following[kind, state]
    return After(left_mib, left_units, following, share_of(nodes, kind, left_mib, left_units))


def share_of(nodes: Candidates, kind: Ints, mib: Ints, units: Ints) -> Ints:
    """Return the free part of devices in thousandths, the mean of memory and compute."""
    return (mib * 1000 // nodes.total_mib[kind] + units * 1000 // nodes.total_units[kind]) // 2


def chosen_rows(nodes: Candidates) -> Bools:
    """Return the devices that an ask of several takes on each node: fullest first, then by place."""
    rows = nodes.fit.shape[0]
    place = np.arange(rows, dtype=np.int64)[:, None]
    order = np.argsort(np.where(nodes.fit, nodes.share * rows + place, np.iinfo(np.int64).max), axis=0, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, place, axis=0)
    return nodes.fit & (rank < nodes.table.devices)
