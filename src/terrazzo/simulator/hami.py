"""HAMi's default placement, as far as it decides who fits where.

Source: github.com/Project-HAMi/HAMi, v2.10, scheduler defaults: ten slots per device, the node that is fullest before
the pod is there, on it the emptiest devices, containers one after the other without going back. A whole card is all
of its memory and no cores.
"""

from __future__ import annotations

import numpy as np
from msgspec import structs

from terrazzo.model.allocation import Allocation, ContainerGrant, DeviceUse
from terrazzo.model.node import Node
from terrazzo.model.request import PodRequest
from terrazzo.placement import fit
from terrazzo.placement.demand import usable_mib
from terrazzo.placement.fleet import Fleet
from terrazzo.placement.geometry import cuts_of
from terrazzo.placement.seat import DeviceView
from terrazzo.placement.tables import Ints, Table
from terrazzo.simulator.baselines import Baseline, Candidates, Floats, Line, fitting

SLOTS = 10


def with_slots(node: Node) -> Node:
    """Return the node with ten slots on every device that could be shared."""
    devices = tuple(
        structs.replace(device, sharers=SLOTS if device.sharers > 1 else device.sharers) for device in node.devices
    )
    return structs.replace(node, devices=devices)


class Hami(Baseline):
    """Fullest node, emptiest devices."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet)
        self._used: Floats = np.zeros(0)
        self._used_at = -1

    def _score(self, request: PodRequest, line: Table, nodes: Candidates) -> tuple[Floats, Ints]:  # noqa: ARG002
        return self._usage()[nodes.columns], np.full(len(nodes.columns), -1, dtype=np.int64)

    def _usage(self) -> Floats:
        """Return how full each node is: slots, cores and memory, each as a part of all there is."""
        fleet = self.fleet
        if len(self._used) != len(fleet):
            self._used, self._used_at = np.zeros(len(fleet)), -1
        if self._used_at != fleet.tick:
            for column in np.flatnonzero(fleet.changed_at[: len(fleet)] > self._used_at):
                parts = [usage(fleet, view) for view in fleet.devices(fleet.name(int(column)))]
                self._used[column] = sum(parts) / len(parts) if parts else 0.0
            self._used_at = fleet.tick
        return self._used

    def _devices(self, line: Line, column: int) -> list[int]:
        views = self.fleet.devices(self.fleet.name(column))
        rows = np.flatnonzero(fitting(self.fleet, line.table, np.array([column]))[0])
        emptiest = sorted((int(row) for row in rows), key=lambda row: (usage(self.fleet, views[row]), row))
        return sorted(emptiest[: line.table.devices])

    def _on_node(self, request: PodRequest, node: Node) -> Allocation | None:
        """Place containers one after the other; what the first takes is gone for the second."""
        views = list(self.fleet.devices(node.name))
        grants: list[ContainerGrant] = []
        uses: dict[str, DeviceUse] = {}
        for container in request.containers:
            if not container.asks:
                continue
            alone = structs.replace(request, containers=(container,))
            found = fit.place(alone, node.name, views, self._emptiest)
            if found is None:
                return None
            grants.extend(found.containers)
            for use in found.uses:
                uses[use.uuid] = _added(uses.get(use.uuid), use)
            taken = {use.uuid: use for use in found.uses}
            views = [_less(view, taken.get(view.device.uuid)) for view in views]
        return fit.allocation_of(request, node.name, tuple(grants), tuple(uses.values()))

    def _emptiest(self, view: DeviceView) -> tuple[int, ...]:
        return (-view.free_mib, -view.free_units)


def usage(fleet: Fleet, view: DeviceView) -> float:
    """Return how full one device is, 0..3: slots, cores and memory, each as a part of all there is."""
    device = view.device
    held = fleet.uses(device.node, device.uuid).values()
    cores = sum(0 if use.alone else use.units for use in held)
    memory = sum(use.memory_mib for use in held)
    return len(held) / device.sharers + cores / device.units + memory / usable_mib(device)


def _added(before: DeviceUse | None, use: DeviceUse) -> DeviceUse:
    if before is None:
        return use
    return DeviceUse(
        use.uuid,
        before.memory_mib + use.memory_mib,
        before.units + use.units,
        alone=before.alone or use.alone,
        slices=before.slices + use.slices,
    )


def _less(view: DeviceView, use: DeviceUse | None) -> DeviceView:
    """Return the device after one more container of the same pod took its part."""
    if use is None:
        return view
    state = view.state
    if use.slices and view.device.geometry is not None:
        for cut in use.slices:
            state = cuts_of(view.device.geometry).take(state, cut)
    return view._replace(
        free_mib=view.free_mib - use.memory_mib,
        free_units=view.free_units - use.units,
        alone=view.alone or use.alone,
        state=state,
    )
