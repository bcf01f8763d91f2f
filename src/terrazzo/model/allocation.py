"""What was granted, and to whom."""

from __future__ import annotations

from msgspec import Struct


class DeviceGrant(Struct, frozen=True, gc=False):
    """One container's part of one device: what *it* may use.

    Attributes:
        uuid: the device.
        memory_mib: memory granted, after rounding up to what the device enforces.
        units: compute granted, in the device's units; 0 reserves none.
        whole: the device is this pod's alone.
        profile: geometry profile, empty otherwise.
        start: first slot of the profile; -1 where position does not matter.
    """

    uuid: str
    memory_mib: int
    units: int
    whole: bool = False
    profile: str = ""
    start: int = -1


class ContainerGrant(Struct, frozen=True):
    """The devices of one container."""

    container: str
    devices: tuple[DeviceGrant, ...]


class Slice(Struct, frozen=True, gc=False, order=True):
    """One placed profile on a geometry device."""

    profile: str
    start: int = -1


class DeviceUse(Struct, frozen=True, gc=False):
    """What a pod takes from one device, as the books hold it.

    It is the maximum over the pod's lifetime: the sum over app containers and sidecars, or an init container beside
    the sidecars started before it, whichever is more.

    Attributes:
        uuid: the device.
        memory_mib, units: amounts taken from the device.
        alone: nobody else may hold the device meanwhile (whole, or exclusive).
        slices: placed profiles on a geometry device.
    """

    uuid: str
    memory_mib: int
    units: int
    alone: bool = False
    slices: tuple[Slice, ...] = ()


class Allocation(Struct, frozen=True, kw_only=True):
    """All devices of one pod: decided at once, written at once, undone at once.

    Attributes:
        pod: the pod's UID (``PodRequest.key``).
        namespace, name: the pod, for people.
        node: where.
        containers: what each container may use.
        uses: what the books hold per device.
        priority: of the pod, for preemption.
        created_s: of the pod, for preemption (youngest first).
        labels: of the pod, for disruption budgets.
        cpu_milli, memory_mib: host resources that go with the pod.
    """

    pod: str
    namespace: str
    name: str
    node: str
    containers: tuple[ContainerGrant, ...] = ()
    uses: tuple[DeviceUse, ...] = ()
    priority: int = 0
    created_s: int = 0
    labels: tuple[tuple[str, str], ...] = ()
    cpu_milli: int = 0
    memory_mib: int = 0

    @property
    def title(self) -> str:
        """``namespace/name``, for messages."""
        return f"{self.namespace}/{self.name}"
