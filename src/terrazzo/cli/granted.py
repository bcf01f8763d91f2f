"""What the command line says of a grant."""

from __future__ import annotations

from terrazzo.cli.render import gib, percent
from terrazzo.model.allocation import DeviceGrant
from terrazzo.model.device import Device


def units(amount: int, device: Device) -> str:
    """Return compute as percent, with the device's own units where they are no percent: ``31% (5/16)``."""
    if not amount:
        return "idle only"
    percent = f"{amount * 100 / device.units:.0f}%"
    return percent if device.units == 100 else f"{percent} ({amount}/{device.units})"


def device(device: Device, grant: DeviceGrant) -> str:
    """Return the model of a device, and the slice of it that a grant cuts."""
    model = device.model or device.product or device.vendor
    return f"{model} {grant.profile}" if grant.profile and grant.profile not in model else model


def grant(grant: DeviceGrant, device: Device, left: tuple[int, int]) -> tuple[str, str, str]:
    """Return memory, compute, and what the device has left, in words.

    Args:
        grant: of one container.
        device: it is on.
        left: MiB and units that the device has left.
    """
    if not isinstance(device.memory_mib, int):
        return "all ?", "all", "–"
    if grant.whole:
        return f"all {gib(grant.memory_mib)}Gi", "all", "–"
    remains = f"{memory(left[0], down=True)}, {percent(left[1], device.units)}" if any(left) else "–"
    return memory(grant.memory_mib), units(grant.units, device), remains


def memory(mib: int, *, down: bool = False) -> str:
    """Return memory as ``14Gi`` or ``512Mi``; ``down`` rounds down, for what is left."""
    return f"{gib(mib, down=down)}Gi" if mib >= 1024 else f"{mib}Mi"
