"""What one ask needs on one kind of device: the rules of fit, before anybody holds anything.

The same function serves the exact search, the vectorised pass and the explanation, so they cannot disagree.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import NamedTuple

from terrazzo.model.device import Device, Profile, SharingMode, step_up, units_for_percent
from terrazzo.model.reason import Reason
from terrazzo.model.request import Ask, PodRequest
from terrazzo.model.unknown import Unknown
from terrazzo.placement.geometry import cuts_of


class Need(NamedTuple):
    """Amounts that one device of an ask takes.

    Attributes:
        memory_mib, units: what is taken and accounted.
        alone: nobody else may hold the device meanwhile.
        profile: the slice to cut, or None.
    """

    memory_mib: int
    units: int
    alone: bool = False
    profile: Profile | None = None


class Misfit(NamedTuple):
    """Why devices of this kind never do for an ask, however empty."""

    reason: Reason
    needed: int = -1
    available: int = -1
    detail: str = ""


def usable_mib(device: Device) -> int:
    """Return the memory that grants add up to. 1 stands for a device whose memory nobody told: it can only be whole."""
    return 1 if isinstance(device.memory_mib, Unknown) else device.memory_mib


def need_on(request: PodRequest, ask: Ask, device: Device) -> Need | Misfit:
    """Return what ``ask`` of ``request`` takes on a device of this kind, or why it never can.

    Rounding: percent of memory becomes whole MiB downwards, then any amount of memory goes up to the next step the
    device enforces; percent of compute goes up to whole units, once.
    """
    wrong = _selected(request, ask, device)
    if wrong is not None:
        return wrong
    if ask.whole:
        return _whole(device)
    if ask.profile:
        return _by_profile(request, ask, device)
    return _fraction(request, ask, device)


def _selected(request: PodRequest, ask: Ask, device: Device) -> Misfit | None:
    if ask.vendors and device.vendor not in ask.vendors:
        return Misfit(Reason.VENDOR, detail=f"asks for {' or '.join(ask.vendors)}")
    if not request.vendor.matches(device.vendor):
        return Misfit(Reason.VENDOR, detail="terrazzo.io/vendor leaves it out")
    if ask.models and not _any_glob(ask.models, device.names):
        return Misfit(Reason.MODEL, detail=f"asks for {' or '.join(ask.models)}")
    if not request.model.matches(*device.names):
        return Misfit(Reason.MODEL, detail="the pod's model list leaves it out")
    return None


def _any_glob(globs: tuple[str, ...], names: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name.casefold(), glob.casefold()) for glob in globs for name in names)


def _whole(device: Device) -> Need | Misfit:
    if device.mode is SharingMode.GEOMETRY:
        if device.profile:
            return Misfit(Reason.MODE, detail=f"is a {device.profile} slice")
        if device.geometry is None or cuts_of(device.geometry).positional:
            return Misfit(Reason.MODE, detail="is cut into slices")
    return Need(usable_mib(device), device.units, alone=True)


def _by_profile(request: PodRequest, ask: Ask, device: Device) -> Need | Misfit:
    wanted = ask.profile.casefold()
    if device.profile:
        if device.profile.casefold() == wanted:
            return Need(usable_mib(device), device.units, alone=True)
        return Misfit(Reason.PROFILE, detail=f"is a {device.profile} slice")
    if device.mode is SharingMode.GEOMETRY and device.geometry is not None:
        profile = cuts_of(device.geometry).profile(ask.profile)
        if profile is not None:
            return _cut(request, profile, device)
    return Misfit(Reason.PROFILE, detail=f"{device.model} has no slice {ask.profile} here")


def _cut(request: PodRequest, profile: Profile, device: Device) -> Need:
    return Need(min(profile.memory_mib, usable_mib(device)), profile.units, alone=request.exclusive, profile=profile)


def _fraction(request: PodRequest, ask: Ask, device: Device) -> Need | Misfit:
    if device.mode is SharingMode.WHOLE and not device.profile:
        return Misfit(Reason.MODE, detail=f"{device.model} can only be given whole")
    if isinstance(device.memory_mib, Unknown):
        return Misfit(Reason.MEMORY_UNKNOWN, detail=device.memory_mib.reason)
    if device.profile:
        return _fraction_of_slice(ask, device, device.memory_mib)
    return _share(request, ask, device, device.memory_mib)


def _share(request: PodRequest, ask: Ask, device: Device, total: int) -> Need | Misfit:
    memory = wanted_mib(ask, device, total)
    units = units_for_percent(ask.cores_percent, device.units)
    if device.mode is SharingMode.GEOMETRY and device.geometry is not None:
        profile = cuts_of(device.geometry).smallest(memory, units)
        if profile is None:
            return Misfit(Reason.TOO_SMALL, memory, max(p.memory_mib for p in device.geometry.profiles))
        return _cut(request, profile, device)
    if memory > total:
        return Misfit(Reason.TOO_SMALL, memory, total)
    return Need(memory, units, alone=request.exclusive)


def wanted_mib(ask: Ask, device: Device, total: int) -> int:
    """Return the memory of a fraction on a device with ``total`` MiB, rounded up to the device's step."""
    step = device.memory_step_mib
    if ask.memory_mib:
        return step_up(ask.memory_mib, step)
    return min(step_up(max(1, total * ask.memory_percent // 100), step), total // step * step)


def _fraction_of_slice(ask: Ask, device: Device, total: int) -> Need | Misfit:
    """A slice that was cut beforehand serves a fraction that it covers; all of it is then taken."""
    parent = max((p.units for p in device.geometry.profiles), default=device.units) if device.geometry else device.units
    memory = ask.memory_mib or total * ask.memory_percent // 100
    units = units_for_percent(ask.cores_percent, parent)
    if memory > total:
        return Misfit(Reason.TOO_SMALL, memory, total)
    if units > device.units:
        return Misfit(Reason.CORES, units, device.units)
    return Need(total, device.units, alone=True)
