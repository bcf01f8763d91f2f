"""The fleet as columns: what every device holds now. STUB of the signatures; being filled."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from terrazzo.model.allocation import Allocation, Slice
from terrazzo.model.device import Device
from terrazzo.model.node import Node


class DeviceView(NamedTuple):
    """One device now.

    Attributes:
        device: its row.
        free_mib: memory that a new grant may take (foreign use already subtracted); 0 when memory is unknown.
        free_units: compute not reserved.
        holders: keys of the pods that hold it, in order of grant.
        alone: whether its only holder keeps others out.
        slices: placed profiles.
    """

    device: Device
    free_mib: int
    free_units: int
    holders: tuple[str, ...]
    alone: bool
    slices: tuple[Slice, ...]


class Fleet:
    """Nodes, devices and grants."""

    def __init__(self, nodes: Iterable[Node] = ()) -> None: ...
    def put_node(self, node: Node) -> None:
        """Add or replace a node; grants on devices that remain stay; grants on vanished devices stay as 'orphaned'."""

    def drop_node(self, name: str) -> None: ...
    def grant(self, allocation: Allocation, *, adopt: bool = False) -> None:
        """Take; raises LedgerError and changes nothing if a device would be exceeded, unless ``adopt``."""

    def release(self, pod: str) -> Allocation | None:
        """Give back everything of the pod; None when it holds nothing."""

    def allocation(self, pod: str) -> Allocation | None: ...
    def allocations(self) -> Iterable[Allocation]: ...
    def allocations_on(self, node: str) -> tuple[Allocation, ...]: ...
    def node(self, name: str) -> Node | None: ...
    def nodes(self) -> Iterable[Node]: ...
    def devices(self, node: str) -> tuple[DeviceView, ...]: ...
