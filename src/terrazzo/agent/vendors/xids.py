"""Classes of NVIDIA's Xid fault numbers, and the lines in which the kernel logs them.

Source: NVIDIA's Xid catalogue and the defaults of its device plugin, which ignores 13, 31, 43, 45, 68 and 109.
"""

from __future__ import annotations

import re
from enum import StrEnum

from msgspec import Struct

from terrazzo.model.device import Health


class Class(StrEnum):
    """What a fault number means for the device.

    ``APPLICATION`` faults are counted only, ``WARNING`` is told and takes nothing away, ``DEGRADED`` stops new
    grants, ``FATAL`` means the device is lost to its holders too, and ``ASK`` leaves it to the driver's own
    recovery action.
    """

    APPLICATION = "application"
    WARNING = "warning"
    DEGRADED = "degraded"
    FATAL = "fatal"
    ASK = "ask"


class Xid(Struct, frozen=True):
    """One fault number.

    Attributes:
        code: the number.
        kind: what it means for the device.
        meaning: in words, for an event.
    """

    code: int
    kind: Class
    meaning: str

    @property
    def reason(self) -> str:
        """What people read."""
        return f"Xid {self.code}: {self.meaning}"


_KNOWN = {
    xid.code: xid
    for xid in (
        Xid(13, Class.APPLICATION, "graphics engine exception"),
        Xid(31, Class.APPLICATION, "memory page fault"),
        Xid(43, Class.APPLICATION, "channel stopped"),
        Xid(45, Class.APPLICATION, "channel preempted"),
        Xid(68, Class.APPLICATION, "video processor exception"),
        Xid(109, Class.APPLICATION, "context switch timeout"),
        Xid(48, Class.DEGRADED, "double-bit memory error"),
        Xid(94, Class.DEGRADED, "contained memory error"),
        Xid(63, Class.DEGRADED, "memory row remapped, a reset is due when idle"),
        Xid(64, Class.FATAL, "memory row could not be remapped"),
        Xid(74, Class.DEGRADED, "NVLink error"),
        Xid(79, Class.FATAL, "fallen off the bus"),
        Xid(119, Class.FATAL, "GPU system processor timed out"),
        Xid(120, Class.FATAL, "GPU system processor error"),
        Xid(140, Class.FATAL, "unrecovered memory error"),
        Xid(92, Class.WARNING, "high rate of single-bit memory errors"),
        Xid(95, Class.FATAL, "uncontained memory error"),
        Xid(110, Class.ASK, "security fault"),
        Xid(143, Class.ASK, "initialisation error"),
        Xid(154, Class.ASK, "recovery action changed"),
    )
}

# An application's fault shows on the card that runs it; these numbers say nothing about the card's own health.
_HEALTH = {
    Class.APPLICATION: Health.HEALTHY,
    Class.WARNING: Health.HEALTHY,
    Class.DEGRADED: Health.DEGRADED,
    Class.FATAL: Health.LOST,
}

# None and Drain P2P leave the card usable by itself; a reboot or reset means it is not until that was done.
_RECOVERY = {0: Health.HEALTHY, 1: Health.LOST, 2: Health.LOST, 3: Health.DEGRADED, 4: Health.DEGRADED}

_LOGGED = re.compile(r"NVRM: Xid \(PCI:([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2})(?:\.\d)?\): (\d+)")


def xid(code: int) -> Xid:
    """Return what is known of a number. One that nobody listed stops new grants, as in NVIDIA's own plugin."""
    return _KNOWN.get(code) or Xid(code, Class.DEGRADED, "not in the list of known faults")


def health(code: int, recovery_action: int | None) -> Health:
    """Return the health of a device after a fault.

    Args:
        code: the Xid.
        recovery_action: NVML's number (0 none, 1 reset, 2 reboot, 3 drain peers, 4 drain and reset); None where the
            driver is older than 570 and does not tell.
    """
    kind = xid(code).kind
    if kind is Class.ASK:
        return Health.DEGRADED if recovery_action is None else _RECOVERY.get(recovery_action, Health.DEGRADED)
    return _HEALTH[kind]


def logged(text: str) -> tuple[tuple[str, Xid], ...]:
    """Return bus address and fault of each line of the kernel's log that holds an Xid."""
    return tuple((match.group(1).casefold(), xid(int(match.group(2)))) for match in _LOGGED.finditer(text))
