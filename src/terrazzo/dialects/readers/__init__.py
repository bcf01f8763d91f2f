"""Readers of node inventories in other people's words.

Each reader looks at one node and returns what it found, or None when the node does not speak its words. The registry
in ``inventory`` fixes who is asked first; a later reader adds only vendors that no earlier one knew.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

from terrazzo.model.device import Device, Health
from terrazzo.model.errors import InputError
from terrazzo.model.quantity import parse_quantity
from terrazzo.model.unknown import Unknown
from terrazzo.wire.kubernetes import ConfigMap, Node, ResourceSlice

MOST_DEVICES = 1024
"""On one node. A resource that says more counts something else: percent, MiB, units of memory."""
MOST_MIB = 1 << 40
"""An exbibyte; a figure beyond it is no memory of a device."""


class Source(NamedTuple):
    """All that a dump tells about one node.

    Attributes:
        node: the Node object.
        config_maps: config maps by name.
        slices: its ResourceSlices.
        settled: vendors whose devices an earlier reader has told.
    """

    node: Node
    config_maps: dict[str, ConfigMap]
    slices: tuple[ResourceSlice, ...] = ()
    settled: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """Name of the node."""
        return self.node.metadata.name

    @property
    def labels(self) -> dict[str, str]:
        """Labels of the node."""
        return self.node.metadata.labels or {}

    @property
    def annotations(self) -> dict[str, str]:
        """Annotations of the node."""
        return self.node.metadata.annotations or {}

    def where(self, what: str) -> str:
        """Return the place of ``what`` on this node, for messages."""
        return f"node {self.name}: {what}"

    def allocatable(self, resource: str) -> int | None:
        """Return an allocatable count, or None when the node does not list it."""
        return self._amount("allocatable", self.node.status.allocatable, resource)

    def capacity(self, resource: str) -> int | None:
        """Return a capacity, or None when the node does not list it."""
        return self._amount("capacity", self.node.status.capacity, resource)

    def _amount(self, section: str, amounts: dict[str, str | int | float] | None, resource: str) -> int | None:
        value = (amounts or {}).get(resource)
        if value is None:
            return None
        try:
            return max(0, int(parse_quantity(value)))
        except InputError as error:
            where = self.where(f"status.{section}[{resource}]")
            raise InputError(error.what, where=where, remedy=error.remedy) from None

    def resources(self) -> tuple[str, ...]:
        """Return the names of all extended resources that the node lists, sorted."""
        listed = {**(self.node.status.capacity or {}), **(self.node.status.allocatable or {})}
        return tuple(sorted(name for name in listed if "/" in name))

    def listed(self, resource: str) -> tuple[int, int]:
        """Return (present, usable) of a resource: capacity, and what of it is allocatable."""
        usable = self.allocatable(resource)
        present = self.capacity(resource)
        if usable is None:
            usable = present or 0
        return max(present if present is not None else usable, usable), usable


class Found(NamedTuple):
    """What a reader found on a node.

    Attributes:
        devices: rows.
        unknowns: what could not be learnt, with reasons.
        vendors: vendors that are settled hereby, also when there is no device of theirs.
    """

    devices: tuple[Device, ...] = ()
    unknowns: tuple[Unknown, ...] = ()
    vendors: tuple[str, ...] = ()


class Reader(Protocol):
    """A reader."""

    def __call__(self, source: Source) -> Found | None:
        """Return what the node says in this reader's words, or None."""
        ...


def made_up(source: Source, vendor: str, index: int) -> str:
    """Return a stable identity for a device whose dump names none; plainly not a vendor's."""
    return f"{source.name}/{vendor}-{index}"


def health(ok: bool, why: str = "the device plugin offers fewer than the node has") -> dict[str, Any]:
    """Return the health fields of a device, for a builder."""
    return {"health": Health.HEALTHY} if ok else {"health": Health.DEGRADED, "health_reason": why}


def no_twins(devices: Iterable[Device], where: str) -> None:
    """Refuse a list that names a device twice: which of the two rows is true, nobody can say.

    Raises:
        InputError: with ``where`` and the UUID.
    """
    seen: set[str] = set()
    for device in devices:
        if device.uuid in seen:
            raise InputError(
                f"lists device {device.uuid} twice",
                where=where,
                remedy="restart the plugin or agent that wrote it, or delete one of the two",
            )
        seen.add(device.uuid)
