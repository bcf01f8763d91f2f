"""The fleet as columns: what every device holds now, and what a new grant may still take.

Every node has one entry in the columns, in order of arrival; that order is the last tie-break of every decision. A
node that left keeps its entry while pods hold something there; then a new node may take it. What is known of one node's
devices lies together in memory, because a decision looks at the few nodes that changed and not at all of them. Each
change notes its node, so that whoever caches something refreshes only that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from heapq import heappop, heappush

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from terrazzo.model.allocation import Allocation, DeviceUse
from terrazzo.model.device import Device
from terrazzo.model.errors import LedgerError
from terrazzo.model.node import Node
from terrazzo.placement.demand import usable_mib
from terrazzo.placement.seat import DeviceView, Seat
from terrazzo.placement.shapes import PLENTY, Shapes

GRID = ("kind", "avail_mib", "avail_units", "sharers_left", "state", "share")
KIND, MIB, UNITS, SHARERS, STATE, SHARE = range(len(GRID))
HOSTS = ("cpu_milli", "memory_mib", "pods", "usable", "changed_at", "gained_at")


class Fleet:
    """Nodes, devices and grants.

    Columns (nodes × rows unless said otherwise; a row is the place of a device on its node), all integers:
        kind: index into ``kinds``; 0 is "no device".
        avail_mib, avail_units: what a new grant may take: 0 where the device is sick, held alone or full of sharers.
        sharers_left: pods that may still join.
        state: geometry state.
        share: free part of the device in thousandths, mean of memory and compute.
        cpu_milli, memory_mib, pods (nodes): what is left on the host.
        usable (nodes): present, ready and not cordoned.
        changed_at, gained_at (nodes): the tick of the last change, and of the last that freed something; ``tick``
            counts changes, ``layout`` changes of nodes, ``shapes`` says which nodes have a kind.
        idle (kinds): free shares of all devices of a kind together.
    """

    def __init__(self, nodes: Iterable[Node] = ()) -> None:
        self.kinds: list[Device | None] = [None]
        self._kind_ids: dict[tuple[object, ...], int] = {}
        self._index: dict[str, int] = {}
        self._names: list[str] = []
        self._nodes: list[Node | None] = []
        self._seats: list[list[Seat]] = []
        self._by_uuid: list[dict[str, int]] = []
        self._allocations: dict[str, Allocation] = {}
        self._pods_on: list[dict[str, None]] = []
        self._orphans: dict[tuple[str, str], dict[str, DeviceUse]] = {}
        self.tick = 0
        self.layout = 0
        self.shapes = Shapes()
        self._vacant: list[int] = []
        self.idle = np.zeros(1, dtype=np.int64)
        self._allocate(8, 64)
        for node in nodes:
            self.put_node(node)

    def _allocate(self, rows: int, columns: int) -> None:
        """Make room; what was there stays. ``grid`` and ``hosts`` hold the named columns, which are views of them."""
        grid: NDArray[np.int64] = np.zeros((columns, len(GRID), rows), dtype=np.int64)
        hosts: NDArray[np.int64] = np.zeros((len(HOSTS), columns), dtype=np.int64)
        if hasattr(self, "grid"):
            old_columns, _, old_rows = self.grid.shape
            grid[:old_columns, :, :old_rows] = self.grid
            hosts[:, :old_columns] = self.hosts
        self.grid, self.hosts = grid, hosts
        for place, name in enumerate(GRID):
            setattr(self, name, grid[:, place])
        for place, name in enumerate(HOSTS):
            setattr(self, name, hosts[place])

    grid: NDArray[np.int64]
    hosts: NDArray[np.int64]
    kind: NDArray[np.int64]
    avail_mib: NDArray[np.int64]
    avail_units: NDArray[np.int64]
    sharers_left: NDArray[np.int64]
    state: NDArray[np.int64]
    share: NDArray[np.int64]
    cpu_milli: NDArray[np.int64]
    memory_mib: NDArray[np.int64]
    pods: NDArray[np.int64]
    usable: NDArray[np.int64]
    changed_at: NDArray[np.int64]
    gained_at: NDArray[np.int64]

    # -- nodes ---------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Number of columns, including those of nodes that left."""
        return len(self._names)

    def put_node(self, node: Node) -> None:
        """Add a node or replace what is known about it.

        Grants on devices that remain stay. Grants on devices that are gone stay in the books too, and take hold
        again when the device returns.
        """
        column = self._index.get(node.name)
        if column is None:
            column = self._new_column(node.name)
        columns, rows = self.kind.shape
        if column >= columns or len(node.devices) > rows:
            self._allocate(max(rows, len(node.devices)), max(columns, 2 * column) if column >= columns else columns)
        for seat in self._seats[column]:
            if seat.held:
                self._orphans[node.name, seat.device.uuid] = seat.held
        self._nodes[column] = node
        self._seats[column] = [Seat(device) for device in node.devices]
        self._by_uuid[column] = {device.uuid: row for row, device in enumerate(node.devices)}
        np.subtract.at(self.idle, self.kind[column], self.share[column])
        self.kind[column] = self.share[column] = 0
        for row, seat in enumerate(self._seats[column]):
            self.kind[column, row] = self._kind_of(seat.device)
            seat.held = self._orphans.pop((node.name, seat.device.uuid), {})
        self.shapes.put(column, node.cpu_milli, self.kind[column, : len(node.devices)].tolist())
        self._refresh(column)
        self.layout += 1

    def drop_node(self, name: str) -> None:
        """Take a node out. Its grants stay in the books until their pods go."""
        column = self._index.get(name)
        if column is None or self._nodes[column] is None:
            return
        self.put_node(Node(name=name, cpu_milli=0, memory_mib=0, max_pods=0, ready=False))
        self._nodes[column] = None
        self.usable[column] = 0
        self._vacate(column)

    def _new_column(self, name: str) -> int:
        """Return the entry of a new node: one that is vacant, else one more."""
        while self._vacant:
            column = heappop(self._vacant)
            if self._nodes[column] is None and not self._pods_on[column]:
                del self._index[self._names[column]]
                self._index[name], self._names[column] = column, name
                return column
        column = self._index[name] = len(self._names)
        self._names.append(name)
        self._nodes.append(None)
        self._seats.append([])
        self._by_uuid.append({})
        self._pods_on.append({})
        return column

    def _vacate(self, column: int) -> None:
        if self._nodes[column] is None and not self._pods_on[column]:
            heappush(self._vacant, column)

    def _kind_of(self, device: Device) -> int:
        key = (
            device.vendor, device.model, device.product, device.family,
            device.memory_mib if isinstance(device.memory_mib, int) else None, device.units, device.mode,
            device.sharers, device.memory_step_mib, device.geometry, device.profile,
        )  # fmt: skip
        found = self._kind_ids.get(key)
        if found is None:
            found = self._kind_ids[key] = len(self.kinds)
            self.kinds.append(device)
            self.idle = np.append(self.idle, 0)
        return found

    def _touch(self, column: int, *, gained: bool = True) -> None:
        self.tick += 1
        self.changed_at[column] = self.tick
        if gained:
            self.gained_at[column] = self.tick

    def _refresh(self, column: int) -> None:
        node = self._nodes[column]
        held = [self._allocations[pod] for pod in self._pods_on[column]]
        cpu = node.cpu_milli if node is not None else 0
        memory = node.memory_mib if node is not None else 0
        slots = node.max_pods if node is not None else 0
        self.cpu_milli[column] = PLENTY if cpu is None else cpu - sum(a.cpu_milli for a in held)
        self.memory_mib[column] = PLENTY if memory is None else memory - sum(a.memory_mib for a in held)
        self.pods[column] = PLENTY if slots is None else slots - len(held)
        self.usable[column] = bool(node is not None and node.ready and not node.unschedulable)
        self.avail_mib[column] = self.avail_units[column] = 0
        self.sharers_left[column] = self.state[column] = 0
        for row in range(len(self._seats[column])):
            self._refresh_device(row, column)
        self._touch(column)

    def _refresh_device(self, row: int, column: int) -> None:
        seat = self._seats[column][row]
        device = seat.device
        mib, units, left = seat.free()
        self.avail_mib[column, row] = mib
        self.avail_units[column, row] = units
        self.sharers_left[column, row] = left
        share = (mib * 1000 // usable_mib(device) + units * 1000 // device.units) // 2 if left else 0
        self.idle[self.kind[column, row]] += share - self.share[column, row]
        self.share[column, row] = share
        if seat.is_cut:
            self.state[column, row] = seat.state()

    # -- grants --------------------------------------------------------------------------------------------------

    def grant(self, allocation: Allocation, *, adopt: bool = False) -> None:
        """Take what ``allocation`` says.

        Args:
            allocation: of a pod that holds nothing yet.
            adopt: take it even where it exceeds a device or names one that is not there: it is running already.

        Raises:
            LedgerError: the pod holds something, or a device would be exceeded. Nothing has changed then.
        """
        if allocation.pod in self._allocations:
            raise LedgerError("the pod already holds devices", where=f"pod {allocation.title}")
        column = self._index.get(allocation.node)
        if column is None:
            if not adopt:
                raise LedgerError(f"node {allocation.node} is not in the fleet", where=f"pod {allocation.title}")
            self.put_node(Node(name=allocation.node, ready=False, max_pods=0, cpu_milli=0, memory_mib=0))
            self.drop_node(allocation.node)
            column = self._index[allocation.node]
        if not adopt:
            for use in allocation.uses:
                self._check(allocation, use, column)
        self._allocations[allocation.pod] = allocation
        self._pods_on[column][allocation.pod] = None
        for use in allocation.uses:
            row = self._by_uuid[column].get(use.uuid)
            if row is None:
                self._orphans.setdefault((allocation.node, use.uuid), {})[allocation.pod] = use
            else:
                self._seats[column][row].held[allocation.pod] = use
                self._refresh_device(row, column)
        self._host(allocation, column, -1)

    def release(self, pod: str) -> Allocation | None:
        """Give back everything that the pod holds and return it; None when it holds nothing."""
        allocation = self._allocations.pop(pod, None)
        if allocation is None:
            return None
        column = self._index[allocation.node]
        del self._pods_on[column][pod]
        for use in allocation.uses:
            row = self._by_uuid[column].get(use.uuid)
            if row is None:
                held = self._orphans[allocation.node, use.uuid]
                del held[pod]
                if not held:
                    del self._orphans[allocation.node, use.uuid]
            else:
                del self._seats[column][row].held[pod]
                self._refresh_device(row, column)
        self._host(allocation, column, +1)
        self._vacate(column)
        return allocation

    def relabel(self, pod: str, priority: int, labels: tuple[tuple[str, str], ...]) -> None:
        """Note who the holder is now, for those who choose among holders; what it holds stays."""
        held = self._allocations[pod]
        self._allocations[pod] = structs.replace(held, priority=priority, labels=labels)

    @contextmanager
    def without(self, pods: Iterable[str]) -> Iterator[None]:
        """Give back what these pods hold while the block runs, then take it again, whatever the block did.

        The block may grant and release other pods, as long as it undoes that itself.
        """
        order: dict[tuple[int, int], list[str]] = {}
        residents: dict[int, list[str]] = {}
        given: list[Allocation] = []
        for pod in pods:
            held = self._allocations.get(pod)
            if held is None:
                continue
            column = self._index[held.node]
            residents.setdefault(column, list(self._pods_on[column]))
            for use in held.uses:
                row = self._by_uuid[column].get(use.uuid)
                if row is not None:
                    order.setdefault((column, row), list(self._seats[column][row].held))
            self.release(pod)
            given.append(held)
        try:
            yield
        finally:
            for held in given:
                self.grant(held, adopt=True)
            for (column, row), names in order.items():
                seat = self._seats[column][row]
                seat.held = {pod: seat.held[pod] for pod in names if pod in seat.held} | seat.held
            for column, names in residents.items():
                here = self._pods_on[column]
                self._pods_on[column] = dict.fromkeys([pod for pod in names if pod in here]) | here

    def _host(self, allocation: Allocation, column: int, sign: int) -> None:
        if self.cpu_milli[column] != PLENTY:
            self.cpu_milli[column] += sign * allocation.cpu_milli
        if self.memory_mib[column] != PLENTY:
            self.memory_mib[column] += sign * allocation.memory_mib
        if self.pods[column] != PLENTY:
            self.pods[column] += sign
        self._touch(column, gained=sign > 0)

    def _check(self, allocation: Allocation, use: DeviceUse, column: int) -> None:
        where = f"pod {allocation.title} on {allocation.node}, device {use.uuid}"
        row = self._by_uuid[column].get(use.uuid)
        if row is None:
            raise LedgerError("the device is not there", where=where)
        refusal = self._seats[column][row].refusal(use, lambda pod: self._allocations[pod].title)
        if refusal:
            raise LedgerError(refusal, where=where)

    # -- reading -------------------------------------------------------------------------------------------------

    def allocation(self, pod: str) -> Allocation | None:
        """Return what the pod holds."""
        return self._allocations.get(pod)

    def allocations(self) -> Iterable[Allocation]:
        """Return all allocations, in no particular order."""
        return self._allocations.values()

    def allocations_on(self, node: str) -> tuple[Allocation, ...]:
        """Return the allocations of one node, oldest grant first."""
        column = self._index.get(node)
        return () if column is None else tuple(self._allocations[pod] for pod in self._pods_on[column])

    def column(self, node: str) -> int | None:
        """Return the column of a node that is in the fleet."""
        column = self._index.get(node)
        return None if column is None or self._nodes[column] is None else column

    def columns(self, names: Iterable[str]) -> NDArray[np.int64]:
        """Return the columns of the nodes among ``names`` that were ever in the fleet."""
        found = [column for column in map(self._index.get, names) if column is not None]
        return np.array(found, dtype=np.int64)

    def name(self, column: int) -> str:
        """Return the name of the node of a column."""
        return self._names[column]

    def node(self, name: str) -> Node | None:
        """Return the node of that name."""
        column = self._index.get(name)
        return None if column is None else self._nodes[column]

    def nodes(self) -> Iterable[Node]:
        """Return all nodes, in order of arrival."""
        return (node for node in self._nodes if node is not None)

    def devices(self, node: str) -> tuple[DeviceView, ...]:
        """Return the devices of a node as they are now, in order."""
        column = self._index.get(node)
        if column is None:
            return ()
        return tuple(seat.view() for seat in self._seats[column])

    def device(self, row: int, column: int) -> Device:
        """Return the device at a row of a column."""
        return self._seats[column][row].device

    def exceeded(self, node: str, uuid: str) -> bool:
        """Return whether what is held of a device is more than it has, or more than its holders allow each other.

        A device that is not there is not exceeded.
        """
        column = self._index.get(node)
        row = self._by_uuid[column].get(uuid) if column is not None else None
        if column is None or row is None:
            return False
        return self._seats[column][row].exceeded()

    def uses(self, node: str, uuid: str) -> dict[str, DeviceUse]:
        """Return who holds a device and how much, also of a device that is gone."""
        column = self._index.get(node)
        row = self._by_uuid[column].get(uuid) if column is not None else None
        if column is None or row is None:
            return dict(self._orphans.get((node, uuid), {}))
        return dict(self._seats[column][row].held)
