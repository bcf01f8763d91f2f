"""Devices as rows, whatever the vendor.

A whole card, a static partition of one and a card that is cut on demand differ only in these fields.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from terrazzo.model.unknown import Unknown


class SharingMode(StrEnum):
    """Which slices of a device exist."""

    CONTINUOUS = "continuous"
    GEOMETRY = "geometry"
    WHOLE = "whole"


class Health(StrEnum):
    """What the vendor or the node says of a device. Only ``HEALTHY`` takes new grants."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    LOST = "lost"


class Profile(Struct, frozen=True, gc=False):
    """One slice size of a geometry device.

    Attributes:
        name: the vendor's name, without the vendor's prefix: ``2g.20gb``, ``vir05_1c_16g``.
        memory_mib: memory of the slice.
        units: compute of the slice, in the device's own units.
        size: how many of the geometry's slots it covers.
        starts: legal first slots; empty where position does not matter (Ascend templates).
        aliases: other names of the same slice (``7g.79gb`` beside ``7g.80gb``).
    """

    name: str
    memory_mib: int
    units: int
    size: int
    starts: tuple[int, ...] = ()
    aliases: tuple[str, ...] = ()


class Geometry(Struct, frozen=True):
    """How one exact chip can be cut.

    Attributes:
        name: the chip this table is for, such as ``A100-80``.
        slots: places that profiles occupy (8 memory slices on an A100, 20 AI cores on a 910B3).
        profiles: in ascending order of size.
        source: where the figures come from.
    """

    name: str
    slots: int
    profiles: tuple[Profile, ...]
    source: str = ""

    def profile(self, name: str) -> Profile | None:
        """Return the profile of that name or alias, or None."""
        wanted = name.casefold()
        for profile in self.profiles:
            if profile.name.casefold() == wanted or wanted in (alias.casefold() for alias in profile.aliases):
                return profile
        return None


class Device(Struct, frozen=True, kw_only=True):
    """One accelerator, or one static partition of one, on one node.

    Attributes:
        node: name of the node that holds it.
        uuid: identity as the vendor states it; a partition is ``<parent>/<instance>``; unique within the node.
        vendor: ``nvidia``, ``ascend``, ``cambricon``, ``hygon``, ``mthreads``, or another lower-case word.
        model: our short name of the exact chip: ``A100-80``, ``910B3``, ``S4000``.
        product: the name as the node states it (``NVIDIA-A100-SXM4-80GB``); empty when not stated.
        family: the wider name that people select by (``A100``, ``910B``); empty when there is none.
        index: the vendor's number, for display only.
        memory_mib: usable memory: total less what the driver keeps.
        units: compute in the device's own units (100 where percent is enforceable, 16 on an S4000, 20 on a 910B3).
        mode: which slices exist.
        sharers: how many pods may hold it at once; 1 for ``whole``.
        memory_step_mib: grants of memory are multiples of this.
        geometry: the table of a ``geometry`` device.
        profile: for a static partition, the profile it was cut as; empty for a physical device.
        numa: NUMA node, None when not told.
        links: names of the link groups it belongs to (NVLink/NVSwitch, HCCS, MLU-Link, MT-Link); two devices with a
            group in common talk over it.
        health: whether it takes new grants.
        health_reason: why it does not.
        foreign_mib: memory used by processes that nobody granted anything.
    """

    node: str
    uuid: str
    vendor: str
    model: str
    product: str = ""
    family: str = ""
    index: int = 0
    memory_mib: int | Unknown
    units: int = 100
    mode: SharingMode = SharingMode.CONTINUOUS
    sharers: int = 64
    memory_step_mib: int = 1
    geometry: Geometry | None = None
    profile: str = ""
    numa: int | None = None
    links: tuple[str, ...] = ()
    health: Health = Health.HEALTHY
    health_reason: str = ""
    foreign_mib: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """Every name a selector may match: model, product, family."""
        return tuple(name for name in (self.model, self.product, self.family) if name)


def units_for_percent(percent: int, units: int) -> int:
    """Return compute units that cover ``percent`` of a device with ``units`` in total, rounded up once."""
    return -(-percent * units // 100)


def step_up(memory_mib: int, step_mib: int) -> int:
    """Return ``memory_mib`` rounded up to a multiple of ``step_mib``."""
    return -(-memory_mib // step_mib) * step_mib
