"""Needs of request classes, per kind of device, as arrays: the vectorised twin of ``demand.need_on``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from terrazzo.model.device import Device
from terrazzo.model.request import Ask, PodRequest
from terrazzo.placement.demand import Misfit, need_on, usable_mib
from terrazzo.placement.geometry import STATES, cuts_of
from terrazzo.placement.popularity import RequestClass, Weighted

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

NEVER = 1 << 60
"""A need that no device meets."""


class Table(NamedTuple):
    """One ask on every kind of device. Arrays have one entry per kind; kind 0 is "no device".

    Attributes:
        devices: how many are asked.
        test_mib, test_units: a device fits when it has at least this available.
        take_mib, take_units: what is then taken.
        alone, some_alone: nobody else may hold it; whether that is so of any kind.
        amount: thousandths of the device taken, of what the ask needs most of.
        placeable: for geometry kinds, per state, whether the slice fits (kinds × states), or None when no kind is cut.
        following: for geometry kinds, per state, the state afterwards.
    """

    devices: int
    test_mib: Ints
    test_units: Ints
    take_mib: Ints
    take_units: Ints
    alone: Bools
    some_alone: bool
    amount: Ints
    placeable: Bools | None
    following: Ints | None


def totals(kinds: Sequence[Device | None]) -> tuple[Ints, Ints]:
    """Return memory and compute of each kind; 1 for kind 0, so that dividing by it is harmless."""
    return (
        np.array([1 if kind is None else usable_mib(kind) for kind in kinds], dtype=np.int64),
        np.array([1 if kind is None else kind.units for kind in kinds], dtype=np.int64),
    )


def compile_ask(request: PodRequest, ask: Ask, kinds: Sequence[Device | None], popularity: Mapping[str, int]) -> Table:
    """Return the table of ``ask`` over ``kinds``."""
    size = len(kinds)
    test_mib, test_units = np.full(size, NEVER), np.full(size, NEVER)
    take_mib, take_units = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    alone = np.zeros(size, dtype=bool)
    cut = any(kind is not None and kind.geometry is not None and not kind.profile for kind in kinds)
    placeable = np.ones((size, STATES), dtype=bool) if cut else None
    following = np.tile(np.arange(STATES, dtype=np.int64), (size, 1)) if cut else None
    for index, kind in enumerate(kinds):
        if kind is None:
            continue
        need = need_on(request, ask, kind)
        if isinstance(need, Misfit):
            continue
        take_mib[index], take_units[index], alone[index] = need.memory_mib, need.units, need.alone
        total = usable_mib(kind)
        test_mib[index] = total if need.alone else max(1, need.memory_mib)
        test_units[index] = kind.units if need.alone else max(1, need.units)
        if need.profile is not None and placeable is not None and following is not None and kind.geometry is not None:
            test_mib[index] = test_units[index] = 1
            cuts = cuts_of(kind.geometry)
            placeable[index] = cuts.placeable(need.profile.name)
            if need.alone:
                placeable[index, 1:] = False
            following[index] = cuts.following(need.profile, popularity)
    # Several slices may lie on one device, so one fitting device is all that a row can ask for.
    devices = min(ask.count, 1) if ask.profile else ask.count
    mib, units = totals(kinds)
    amount = np.maximum(take_mib * 1000 // mib, take_units * 1000 // units)
    return Table(
        devices, test_mib, test_units, take_mib, take_units, alone, bool(alone.any()), amount, placeable, following
    )


class MixTable(NamedTuple):
    """The mix of popular classes over every kind of device.

    Classes that need the same of a device share a *shape*.

    Attributes:
        weight: per class, whole numbers that add up to about ``SCALE``; CPU-only classes are left out of the arrays.
        arrivals, cpu_milli, devices: per class; ``devices`` is the count it asks for.
        shape: per class, its shape.
        can: kinds × shapes, whether the shape fits an empty device of the kind.
        amount: kinds × shapes, thousandths of a device that the shape takes of what it needs most of.
        rates: kinds × 3 × shapes: thousandths that one MiB of free memory is worth to the shape, the same of one
            unit of compute, and the least worth with which the shape fits.
        placeable: kinds × states × shapes, or None.
        total: sum of all weights, CPU-only classes too.
    """

    weight: Ints
    arrivals: Ints
    cpu_milli: Ints
    devices: Ints
    shape: Ints
    can: Bools
    amount: Ints
    rates: NDArray[np.float64]
    placeable: Bools | None
    total: int


SCALE = 1_000_000
"""Weights are whole numbers that add up to about this, so that scores are exact and the same on every machine."""
SMALL_MATTERS = 1.5
"""A class counts by its arrivals over this power of what it asks for: many small requests fill the holes that few
large ones leave, if the holes are there. 0 (arrivals alone) and 1 placed worse on the openb traces."""
WHOLE_FLOOR = 0.2
"""Part of all weight that whole devices have at least, even when nobody asked for one lately: somebody will, and a
card kept whole costs little."""
ROUNDING = 1e-6
"""Added before rounding down, so that 810 thousandths computed as 809.9999999 stay 810."""
FREE = 1e9
"""Worth of what a shape does not need: so much that it never is what runs out first."""
SMALLEST = 0.15
"""Devices below which a request counts as no smaller still."""


def compile_mix(mix: Sequence[Weighted], kinds: Sequence[Device | None]) -> MixTable:
    """Return the table of the classes of ``mix`` that ask for devices."""
    asking = [(kind, kind.ask, count) for kind, count in mix if kind.ask is not None]
    tables: list[Table] = []
    shapes: list[int] = []
    shape_of: dict[tuple[object, ...], int] = {}
    for kind, ask, _ in asking:
        key = _shape_key(kind, ask)
        if key not in shape_of:
            shape_of[key] = len(tables)
            request = PodRequest(name="popular", vendor=kind.vendor, model=kind.model, exclusive=kind.exclusive)
            tables.append(compile_ask(request, ask, kinds, {}))
        shapes.append(shape_of[key])
    size = len(kinds)
    mib, units = totals(kinds)
    # Who wants to be alone needs all of the device, whatever it takes of it.
    alone = _stack(tables, "alone", size) > 0
    take_mib = np.where(alone, 1000.0, _stack(tables, "take_mib", size) * 1000 / mib[:, None])
    take_units = np.where(alone, 1000.0, _stack(tables, "take_units", size) * 1000 / units[:, None])
    amount = np.maximum(take_mib, take_units)
    cut = [t.placeable for t in tables if t.placeable is not None]
    can = _stack(tables, "test_mib", size) < NEVER
    placeable = np.stack(cut, axis=-1) if cut else None
    # A slice is placed by the state of the device, whatever else is free of it.
    sliced = np.zeros_like(can) if placeable is None else ~placeable.all(axis=1)
    least = np.where(can, np.where(sliced, ROUNDING, amount - ROUNDING), np.inf)
    rates = np.stack([_rate(amount, take_mib, mib), _rate(amount, take_units, units), least], 1)
    weight, total = _weights(mix, [ask.count for _, ask, _ in asking], amount.max(axis=0, initial=0)[shapes])
    return MixTable(
        weight=weight,
        arrivals=np.array([count for *_, count in asking], dtype=np.int64),
        cpu_milli=np.array([kind.cpu_milli for kind, *_ in asking], dtype=np.int64),
        devices=np.array([ask.count for _, ask, _ in asking], dtype=np.int64),
        shape=np.array(shapes, dtype=np.intp),
        can=can,
        amount=np.floor(amount).astype(np.int64),
        rates=rates,
        placeable=placeable,
        total=total,
    )


def _rate(amount: NDArray[np.float64], take: NDArray[np.float64], total: Ints) -> NDArray[np.float64]:
    """Return what one MiB or unit is worth to each shape on each kind."""
    needed = take > 0
    return np.where(needed, amount / np.where(needed, take, 1.0), FREE) * 1000 / total[:, None]


def _weights(mix: Sequence[Weighted], devices: Sequence[int], amount: NDArray[np.float64]) -> tuple[Ints, int]:
    """Return the weights of the asking classes, and the sum of all, CPU-only classes at their count."""
    count = np.array([count for kind, count in mix if kind.ask is not None], dtype=np.float64)
    size = np.maximum(amount / 1000, SMALLEST) * np.array(devices, dtype=np.float64)
    weight = count / size**SMALL_MATTERS
    whole = np.array([kind.ask.whole for kind, _ in mix if kind.ask is not None], dtype=bool)
    if whole.any():
        floor = WHOLE_FLOOR / (1 - WHOLE_FLOOR) * float(weight[~whole].sum())
        missing = max(0.0, floor - float(weight[whole].sum()))
        weight[whole] += missing / int(whole.sum())
    idle = sum(count for kind, count in mix if kind.ask is None)
    everything = float(weight.sum()) + idle
    scaled = np.round(weight * SCALE / max(everything, 1e-9)).astype(np.int64)
    return scaled, int(scaled.sum()) + round(idle * SCALE / max(everything, 1e-9))


def _stack(tables: Sequence[Table], field: str, kinds: int) -> Ints:
    """Return one field of all tables as kinds × shapes."""
    stacked: Ints = np.array([getattr(table, field) for table in tables], dtype=np.int64).reshape(len(tables), kinds)
    return np.ascontiguousarray(stacked.T)


def _shape_key(kind: RequestClass, ask: Ask) -> tuple[object, ...]:
    return (ask.memory_mib, ask.memory_percent, ask.cores_percent, ask.whole, ask.profile, ask.vendors, ask.models,
            kind.exclusive, kind.vendor, kind.model)  # fmt: skip
