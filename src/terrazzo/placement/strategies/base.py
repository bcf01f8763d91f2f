"""What a strategy sees, and the arithmetic that all share."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from terrazzo.model.device import Device
from terrazzo.placement.landscape import Landscape, Places
from terrazzo.placement.tables import Bools, Ints, Table


class Candidates(NamedTuple):
    """Nodes to score, as columns cut out of the fleet.

    Attributes:
        columns (nodes): where in the fleet they are.
        look (nodes × rows): how their devices look; see ``Landscape``.
        then (nodes × rows): how each would look with one device's worth of the ask on it; negative where it won't fit.
        fit (nodes × rows): whether it fits, the host included.
        ready (nodes): whether the host has what the pod needs.
        cpu_milli (nodes): CPU left.
        pod_cpu_milli: CPU that the pod takes.
        table: the ask.
        landscape: what popular classes can use, node by node and look by look.
        device: the device at a row and a column of the fleet.
    """

    columns: Places
    look: Places
    then: Places
    fit: Bools
    ready: Bools
    cpu_milli: Ints
    pod_cpu_milli: int
    table: Table
    landscape: Landscape
    device: Callable[[int, int], Device]

    def able(self) -> Bools:
        """Return which nodes can take the pod."""
        able: Bools = self.ready & (self.fit.sum(axis=1) >= self.table.devices)
        return able


class Strategy(Protocol):
    """A way to score."""

    def score(self, nodes: Candidates) -> tuple[Ints, Ints]:
        """Return, per node, the score and the row of the device to use (the first one of several).

        More is better; negative where the node cannot take the pod.
        """
        ...


def chosen_rows(nodes: Candidates) -> Bools:
    """Return the devices that an ask of several takes on each node: fullest first, then by place."""
    rows = nodes.fit.shape[1]
    place = np.arange(rows, dtype=np.int64)
    key = np.where(nodes.fit, nodes.landscape.share.take(nodes.look) * rows + place, np.iinfo(np.int64).max)
    rank = np.empty_like(key)
    np.put_along_axis(rank, np.argsort(key, axis=1, kind="stable"), place[None, :], axis=1)
    return nodes.fit & (rank < nodes.table.devices)
