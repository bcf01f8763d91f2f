"""The small port that every vendor's backend implements, as frozen values.

A backend runs in a child process (see ``probing``): it may block or crash, and its answers cross a pipe. Therefore
everything here is plain data. An answer is either the value or a ``Failure``: "zero devices" is an empty
``Discovery``, "the tool printed nothing" and "the tool failed" are failures of two kinds, and only the first of the
three may shrink the list of devices.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from terrazzo.model.device import Device, Health
from terrazzo.model.unknown import Unknown


class Trouble(StrEnum):
    """In which way a vendor's library or tool gave no answer."""

    ABSENT = "absent"
    SILENT = "silent"
    FAILED = "failed"
    GARBLED = "garbled"
    HUNG = "hung"
    CRASHED = "crashed"


class Failure(Struct, frozen=True, tag="failure"):
    """No answer, and why. Never a reason to believe that devices are gone.

    Attributes:
        trouble: the kind.
        reason: one sentence for a person: what was called and what came back.
        remedy: what to do about it; empty when nothing general can be said.
    """

    trouble: Trouble
    reason: str
    remedy: str = ""


class Found(Struct, frozen=True, kw_only=True):
    """One device as the vendor states it, with what the agent needs to publish and to grant it.

    Attributes:
        device: the row; its ``node`` is empty until the agent fills it in.
        label: the stable readable name, ``nvidia-0000-3b-00-0``, also the device's name in a ResourceSlice.
        parent: uuid of the physical device that a static partition was cut from; empty for a physical device.
        pci: the bus address ``0000:3b:00.0``; empty when the vendor does not tell.
        minor: number of the device's node below ``/dev``; None when the vendor does not tell.
        nodes: device nodes that belong to this device alone (``/dev/nvidia0``).
        driver: version of the driver; empty when not told.
    """

    device: Device
    label: str
    parent: str = ""
    pci: str = ""
    minor: int | None = None
    nodes: tuple[str, ...] = ()
    driver: str = ""


class Discovery(Struct, frozen=True, tag="discovery"):
    """What is there. An empty one means the vendor answered, and there are no devices.

    Attributes:
        found: devices in the vendor's order.
        source: which library or tool answered, with its version where told.
        unreadable: one sentence for each device that the vendor lists and cannot be asked.
    """

    found: tuple[Found, ...]
    source: str
    unreadable: tuple[str, ...] = ()

    @property
    def devices(self) -> tuple[Device, ...]:
        """Only the rows."""
        return tuple(found.device for found in self.found)


class Condition(Struct, frozen=True):
    """State of one device's health.

    Attributes:
        uuid: the device, or the partition alone when the event named one.
        health: healthy, degraded (holders keep it, no new grants) or lost.
        reason: why, in the vendor's terms; empty when healthy.
        code: the vendor's number of the fault (an Xid); None for none.
        lasting: whether it stays until a reset, so that a later poll that finds nothing wrong does not clear it.
    """

    uuid: str
    health: Health
    reason: str = ""
    code: int | None = None
    lasting: bool = False


class Conditions(Struct, frozen=True, tag="conditions"):
    """Health of every device that could be asked. A device missing here is one that did not answer."""

    conditions: tuple[Condition, ...]


class Occupant(Struct, frozen=True):
    """One process on a device.

    Attributes:
        pid: in the host's PID namespace.
        memory_mib: memory it holds there.
    """

    pid: int
    memory_mib: int | Unknown


class Use(Struct, frozen=True):
    """How much of one device is in use now.

    Attributes:
        uuid: the device or partition.
        used_mib: memory in use, without what the driver keeps.
        busy_percent: share of the last sample period in which it computed.
        occupants: processes on it; Unknown where the vendor does not tell.
    """

    uuid: str
    used_mib: int | Unknown
    busy_percent: float | Unknown
    occupants: tuple[Occupant, ...] | Unknown


class Uses(Struct, frozen=True, tag="uses"):
    """Use of every device that could be asked."""

    uses: tuple[Use, ...]


class Near(Struct, frozen=True):
    """Where one device sits.

    Attributes:
        uuid: the device.
        numa: its NUMA node; None when not told.
        groups: names of link groups; two devices with one in common talk over the vendor's link.
    """

    uuid: str
    numa: int | None
    groups: tuple[str, ...] = ()


class Topology(Struct, frozen=True, tag="topology"):
    """Where the devices sit to each other."""

    devices: tuple[Near, ...]


class Grant(Struct, frozen=True, kw_only=True):
    """What one container was granted of one device.

    Attributes:
        found: the device or static partition.
        memory_mib: memory of the grant.
        units: compute of the grant, in the device's own units.
        whole: whether it is the whole device.
        profile: name of a slice that was made for it; empty for none.
        slice_id: the vendor's identity of that slice; empty for none.
    """

    found: Found
    memory_mib: int
    units: int
    whole: bool
    profile: str = ""
    slice_id: str = ""


class Mount(Struct, frozen=True):
    """One bind mount, read-only unless ``writable``."""

    host: str
    container: str
    writable: bool = False


class Needs(Struct, frozen=True, tag="needs"):
    """What a container needs to use its grants of one vendor.

    Attributes:
        device_nodes: paths below ``/dev``, the same inside and outside the container.
        env: environment, later names win over the image's.
        mounts: driver libraries and tools.
        library_folders: folders inside the container that its loader must search.
    """

    device_nodes: tuple[str, ...]
    env: dict[str, str]
    mounts: tuple[Mount, ...] = ()
    library_folders: tuple[str, ...] = ()


class Slice(Struct, frozen=True, tag="slice"):
    """A slice that was made: the vendor's identity of it, and what it needs below ``/dev``."""

    uuid: str
    profile: str
    nodes: tuple[str, ...] = ()


class Done(Struct, frozen=True, tag="done"):
    """It was done, or there was nothing left to do."""


class Backend(Protocol):
    """One vendor on this node. Every method may be called in any order and asks the vendor afresh."""

    vendor: str

    def discover(self) -> Discovery | Failure:
        """List devices and static partitions."""
        ...

    def health(self, wait_s: float) -> Conditions | Failure:
        """State the health of every device, waiting at most ``wait_s`` seconds for the vendor's next event.

        A backend whose vendor has no events polls and returns at once.
        """
        ...

    def use(self) -> Uses | Failure:
        """State memory, load and processes of every device."""
        ...

    def topology(self) -> Topology | Failure:
        """State NUMA nodes and link groups."""
        ...

    def needs(self, grants: tuple[Grant, ...]) -> Needs | Failure:
        """State what a container with all these grants (of this vendor) needs. Asks nothing of the driver."""
        ...


class Cutter(Protocol):
    """Beside ``Backend``: a vendor whose devices are cut by the driver (MIG, vNPU, MIM, MPC)."""

    def make_slice(self, device: Found, profile: str, start: int | None) -> Slice | Failure:
        """Cut ``profile`` from ``device``, at slot ``start`` where position matters."""
        ...

    def unmake_slice(self, device: Found, slice_id: str) -> Done | Failure:
        """Give a slice back. One that does not exist any more is ``Done``."""
        ...


Answer = Discovery | Conditions | Uses | Topology | Needs | Slice | Done | Failure
"""Whatever a backend may answer, told apart on the wire by its tag."""


def label(vendor: str, pci: str, chip: int | None = None) -> str:
    """Return the readable stable name of a device: ``nvidia-0000-3b-00-0``, with ``-chip`` where two share an address.

    A domain of eight digits is cut to the four that matter when the upper four are zero (NVML prints eight).
    """
    domain, _, rest = pci.casefold().partition(":")
    if len(domain) > 4 and domain[:-4].strip("0") == "":
        domain = domain[-4:]
    name = f"{vendor}-{domain}-{rest}".replace(":", "-").replace(".", "-")
    return name if chip is None else f"{name}-{chip}"
