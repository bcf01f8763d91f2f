"""One device of one node, and who holds it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from terrazzo.model.allocation import DeviceUse, Slice
from terrazzo.model.device import Device, Health, SharingMode
from terrazzo.placement.demand import usable_mib
from terrazzo.placement.geometry import STATES, cuts_of


class DeviceView(NamedTuple):
    """One device now.

    Attributes:
        device: its row.
        free_mib: memory that a new grant may take (foreign use already subtracted); 0 when memory is unknown.
        free_units: compute not reserved.
        holders: keys of the pods that hold it, in order of grant.
        alone: whether its only holder keeps others out.
        slices: placed profiles.
        state: geometry state, 0 elsewhere.
    """

    device: Device
    free_mib: int
    free_units: int
    holders: tuple[str, ...]
    alone: bool
    slices: tuple[Slice, ...]
    state: int = 0


class Free(NamedTuple):
    """What a new grant may still take of a device: nothing where it is sick, held alone or full of sharers."""

    mib: int
    units: int
    sharers: int


class Seat:
    """A device and its holders; everything else is computed from them, so that undo is exact by construction."""

    __slots__ = ("device", "held")

    def __init__(self, device: Device) -> None:
        self.device = device
        self.held: dict[str, DeviceUse] = {}

    @property
    def is_cut(self) -> bool:
        """Whether slices are cut from the device on demand."""
        return self.device.mode is SharingMode.GEOMETRY and self.device.geometry is not None and not self.device.profile

    def free(self) -> Free:
        """Return what a new grant may take."""
        device = self.device
        mib, units, alone = usable_mib(device) - device.foreign_mib, device.units, False
        for use in self.held.values():
            mib -= use.memory_mib
            units -= use.units
            alone = alone or use.alone
        left = max(0, device.sharers - len(self.held))
        if alone or not left or device.health is not Health.HEALTHY:
            return Free(0, 0, 0)
        return Free(max(0, mib), max(0, units), left)

    def state(self) -> int:
        """Return the geometry state. Adopted slices whose place nobody wrote down are put where they harm least."""
        geometry = self.device.geometry
        if geometry is None or not self.is_cut:
            return 0
        state, cuts = 0, cuts_of(geometry)
        placed = [cut for use in self.held.values() for cut in use.slices]
        for cut in sorted(placed, key=lambda each: -each.start):
            profile = cuts.profile(cut.profile)
            if profile is None:
                continue
            if cuts.positional and cut.start < 0:
                start = cuts.best_start(profile, state, {})
                state = state if start is None else cuts.take(state, Slice(profile.name, start))
            else:
                state = cuts.take(state, Slice(profile.name, cut.start))
        return min(state, STATES - 1)

    def exceeded(self) -> bool:
        """Return whether the holders together take more than there is, or than they allow each other."""
        held = self.held.values()
        return (
            sum(use.memory_mib for use in held) > usable_mib(self.device)
            or sum(use.units for use in held) > self.device.units
            or len(held) > self.device.sharers
            or (len(held) > 1 and any(use.alone for use in held))
            or self._overlaps()
        )

    def _overlaps(self) -> bool:
        geometry = self.device.geometry
        if geometry is None or not self.is_cut:
            return False
        cuts, state = cuts_of(geometry), 0
        for cut in (cut for use in self.held.values() for cut in use.slices):
            if cuts.positional and cut.start < 0:
                continue
            if not cuts.legal(state, cut):
                return True
            state = cuts.take(state, cut)
        return False

    def refusal(self, use: DeviceUse, title: Callable[[str], str]) -> str:
        """Return why a new grant cannot be taken; empty when it can.

        Args:
            use: what it would take.
            title: name of a holder by its key.
        """
        others = ", ".join(map(title, self.held))
        free = self.free()
        if use.alone and self.held:
            return f"asks to be alone, {others} holds it"
        if not free.sharers:
            return f"takes no further pod ({others or self.device.health})"
        if use.slices:
            return self._cannot_cut(use.slices)
        for taken, left, unit in ((use.memory_mib, free.mib, "MiB"), (use.units, free.units, "units")):
            if taken > left:
                return f"would take {taken} {unit} of {left} left; held by {others}"
        return ""

    def _cannot_cut(self, slices: tuple[Slice, ...]) -> str:
        state = self.state()
        cuts = cuts_of(self.device.geometry) if self.device.geometry else None
        for cut in slices:
            if cuts is None or not cuts.legal(state, cut):
                return f"slice {cut.profile} at {cut.start} cannot be placed"
            state = cuts.take(state, cut)
        return ""

    def view(self) -> DeviceView:
        """Return the device as it is now."""
        free = self.free()
        return DeviceView(
            device=self.device,
            free_mib=free.mib,
            free_units=free.units,
            holders=tuple(self.held),
            alone=any(use.alone for use in self.held.values()),
            slices=tuple(cut for use in self.held.values() for cut in use.slices),
            state=self.state(),
        )
