"""Meters on a fleet: sums that follow each grant and release, and their means over time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from terrazzo.model.allocation import Allocation
from terrazzo.model.device import Device
from terrazzo.placement.demand import usable_mib
from terrazzo.placement.fleet import Fleet
from terrazzo.simulator.baselines import thousandths
from terrazzo.simulator.fgd import Fragmentation
from terrazzo.simulator.report import Point

_DIGITS = 6


class _Size(NamedTuple):
    memory_mib: int
    units: int


class Meter:
    """Counts what is granted.

    Compute of devices with different units is added up as parts of a device. Slices that were cut beforehand count as
    the one card that they are.

    Args:
        fleet: empty, as it is at the start.
        lost: expected fragmentation over the workload's mix.
    """

    def __init__(self, fleet: Fleet, lost: Fragmentation) -> None:
        self._fleet = fleet
        self._lost = lost
        devices = [device for node in fleet.nodes() for device in node.devices]
        self._card = {(d.node, d.uuid): _card(d) for d in devices}
        self._units = {(d.node, d.uuid): _card_size(d).units for d in devices}
        cards = {_card(d): _card_size(d) for d in devices}
        self.devices = len(cards)
        self._memory_mib = sum(size.memory_mib for size in cards.values())
        self._holders: dict[tuple[str, str], int] = {}
        self._granted_mib = 0
        self._reserved: dict[int, int] = {}
        self.running = 0
        self._sums = np.zeros(5)
        self._covered_s = 0.0
        self._lost_sum, self._lost_count = 0.0, 0

    def granted(self, allocation: Allocation, sign: int) -> None:
        """Follow a grant (``sign`` 1) or a release (-1)."""
        self.running += sign
        for use in allocation.uses:
            at = (allocation.node, use.uuid)
            units, card = self._units[at], self._card[at]
            self._granted_mib += sign * use.memory_mib
            self._reserved[units] = self._reserved.get(units, 0) + sign * use.units
            left = self._holders.get(card, 0) + sign
            if left:
                self._holders[card] = left
            else:
                del self._holders[card]

    def _now(self, waiting: int) -> tuple[float, float, int, int, int]:
        devices = max(1, self.devices)
        reserved = sum(taken / units for units, taken in sorted(self._reserved.items()))
        memory = self._granted_mib / max(1, self._memory_mib)
        return memory, reserved / devices, len(self._holders), self.running, waiting

    def pass_time(self, seconds: float, waiting: int) -> None:
        """Let time go by in the present state."""
        if seconds > 0:
            self._sums += seconds * np.array(self._now(waiting))
            self._covered_s += seconds

    def point(self, at_s: float, waiting: int, *, counts: bool) -> Point:
        """Return the present state; ``counts`` puts its fragmentation into the mean."""
        fragmented = self._fragmented()
        if counts:
            self._lost_sum += fragmented
            self._lost_count += 1
        return self._as_point(at_s, self._now(waiting), fragmented)

    def mean(self, at_s: float, waiting: int) -> Point:
        """Return the mean over the time that went by; the present state where none did."""
        fragmented = self._lost_sum / self._lost_count if self._lost_count else self._fragmented()
        means = tuple(self._sums / self._covered_s) if self._covered_s else self._now(waiting)
        return self._as_point(at_s, means, fragmented)

    def _as_point(self, at_s: float, values: tuple[float, ...], fragmented: float) -> Point:
        memory, compute, held, running, waiting = (round(float(value), _DIGITS) for value in values)
        free = round(self.devices - held, _DIGITS)
        return Point(round(at_s, 3), memory, compute, held, free, running, waiting, round(fragmented, _DIGITS))

    def _fragmented(self) -> float:
        fleet = self._fleet
        columns = np.arange(len(fleet))
        free = thousandths(fleet, columns)
        idle = int(free.sum())
        if not idle:
            return 0.0
        return float(self._lost(free, fleet.cpu_milli[columns], fleet.kind[columns, 0]).sum()) / idle


def _card(device: Device) -> tuple[str, str]:
    """Return the card that a device is, or is a slice of."""
    return device.node, device.uuid.rpartition("/")[0] if device.profile else device.uuid


def _card_size(device: Device) -> _Size:
    """Return memory and compute of the card; of a slice's card as its table of slices tells."""
    if not device.profile or device.geometry is None:
        return _Size(usable_mib(device), device.units)
    profiles = device.geometry.profiles
    return _Size(max(profile.memory_mib for profile in profiles), max(profile.units for profile in profiles))
