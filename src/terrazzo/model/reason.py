"""Rejections are data: reason, device, needed, available. Text is made at the edge."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Reason(StrEnum):
    """Why a node or a device does not do, in the order in which the engine checks."""

    # of the node
    NOT_READY = "node not ready"
    CORDONED = "node cordoned"
    TAINT = "untolerated taint"
    SELECTOR = "node selector or affinity"
    CPU = "host CPU"
    HOST_MEMORY = "host memory"
    PODS = "pod slots"
    OTHER_RESOURCE = "other resource"
    NO_DEVICE = "no accelerator"
    INVENTORY_UNKNOWN = "devices unknown"
    # of the device
    VENDOR = "vendor"
    MODEL = "model"
    DEVICE = "device list"
    HEALTH = "unhealthy"
    MODE = "cannot be shared that way"
    PROFILE = "profile does not exist"
    TOO_SMALL = "device too small"
    MEMORY_UNKNOWN = "memory unknown"
    HELD_ALONE = "held by one pod alone"
    IN_USE = "in use, asked alone"
    SHARERS = "sharer limit"
    MEMORY = "memory"
    CORES = "cores"
    PLACEMENT = "no legal placement left"
    # of the set of devices
    COUNT = "too few devices"
    NUMA = "NUMA"
    VENDOR_UNDECIDED = "vendor undecided"

    @property
    def permanent(self) -> bool:
        """Whether no eviction on the node can mend it."""
        return self in _PERMANENT


_PERMANENT = frozenset(
    {
        Reason.NOT_READY, Reason.CORDONED, Reason.TAINT, Reason.SELECTOR, Reason.NO_DEVICE, Reason.INVENTORY_UNKNOWN,
        Reason.VENDOR, Reason.MODEL, Reason.DEVICE, Reason.HEALTH, Reason.MODE, Reason.PROFILE, Reason.TOO_SMALL,
        Reason.MEMORY_UNKNOWN, Reason.VENDOR_UNDECIDED,
    }
)  # fmt: skip


class DeviceRejection(Struct, frozen=True):
    """Why one device does not do.

    Attributes:
        uuid, index: the device.
        reason: the first rule it fails.
        needed, available: MiB, units or sharers, by the reason; -1 where no number applies.
        holders: titles of the pods that hold it.
        detail: free text such as the health reason.
    """

    uuid: str
    index: int
    reason: Reason
    needed: int = -1
    available: int = -1
    holders: tuple[str, ...] = ()
    detail: str = ""


class NodeRejection(Struct, frozen=True):
    """Why one node does not do.

    Attributes:
        node: its name.
        reason: of the node, or the commonest reason among its devices that were nearest to fitting.
        needed, available: devices, or milli-CPU, MiB and so on, by the reason; -1 where no number applies.
        devices: per device, for those that failed.
        detail: free text such as the taint.
    """

    node: str
    reason: Reason
    needed: int = -1
    available: int = -1
    devices: tuple[DeviceRejection, ...] = ()
    detail: str = ""
