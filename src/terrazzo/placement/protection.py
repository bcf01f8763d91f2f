"""Protection levels: a request that could go anywhere leaves scarce models to those that need them.

For each set S of kinds that popular requests are restricted to, a pod that may go to more than S may use a model
inside S only while that model has more idle capacity than the restricted requests are expected to want of it. If that
leaves nothing, the rule is dropped: nobody waits for its sake. It costs O(kinds × sets) a decision and does nothing
when no popular request is restricted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from terrazzo.placement.tables import Bools, Ints, MixTable

UNSAID = 0.6
"""Weight of demand that is restricted only by what nodes can hold."""
SLACK = 2.5
"""Idle capacity kept per unit of expected demand. 1.1 and 1.3 placed worse on gpuspec33 (``bench/openb.py``)."""


class Reserve(NamedTuple):
    """A set of kinds that some popular requests are restricted to.

    Attributes:
        kinds: kinds of the set (mask).
        demand: part of all demand for devices that is restricted to it, 0..1.
    """

    kinds: Bools
    demand: float


Reach = Mapping[int, frozenset[tuple[int, int]]]
"""Per kind, the nodes that have it: CPU of the whole node in thousandths, and devices of the kind."""


def reachable(can: Bools, devices: int, cpu_milli: int, reach: Reach) -> Bools:
    """Return the kinds among ``can`` with a node that could ever hold the pod; all of them where none could.

    A pod of eight devices may be bound to one model without saying so, when only nodes of that model have eight.
    """
    if devices < 2:
        return can
    held = np.zeros_like(can)
    for kind in np.flatnonzero(can):
        held[kind] = any(cpu >= cpu_milli and count >= devices for cpu, count in reach.get(int(kind), ()))
    return held if held.any() else can


def reserves(mix: MixTable, present: Bools, reach: Reach) -> tuple[Reserve, ...]:
    """Return the sets that popular requests are restricted to, among the kinds that are present."""
    can = mix.can.T & present
    amount = np.where(can, mix.amount.T, 0).max(axis=1, initial=0)
    demand: dict[bytes, float] = {}
    sets: dict[bytes, Bools] = {}
    total = 0.0
    rows = zip(mix.arrivals, mix.devices, mix.cpu_milli, mix.shape, strict=True)
    for arrivals, devices, cpu_milli, shape in rows:
        kinds = reachable(can[shape], int(devices), int(cpu_milli), reach)
        asked = float(arrivals * devices * amount[shape])
        total += asked
        key = kinds.tobytes()
        sets[key] = kinds
        demand[key] = demand.get(key, 0.0) + asked * (1.0 if (kinds == can[shape]).all() else UNSAID)
    return tuple(
        Reserve(kinds, demand[key] / total) for key, kinds in sets.items() if kinds.any() and (kinds < present).any()
    )


class Shield(NamedTuple):
    """The reserves that concern one pod: those it could avoid.

    Attributes:
        can: kinds that the pod could use.
        kinds: reserves × kinds.
        demand: per reserve.
        levels: the same, for who asks about one kind: the kinds of each reserve and its demand.
    """

    can: Bools
    kinds: Bools
    demand: NDArray[np.float64]
    levels: tuple[tuple[tuple[int, ...], float], ...]


def shield(can: Bools, levels: Sequence[Reserve]) -> Shield | None:
    """Return the reserves that a pod which may use ``can`` must mind, or None when there is none."""
    minded = [level for level in levels if not (level.kinds & ~can).any() and (can & ~level.kinds).any()]
    if not minded:
        return None
    return Shield(
        can,
        np.array([level.kinds for level in minded]),
        np.array([level.demand for level in minded]),
        tuple((tuple(np.flatnonzero(level.kinds).tolist()), level.demand) for level in minded),
    )


def spared(concern: Shield, idle: Ints, kind: int) -> bool:
    """Return whether the pod may use one kind without touching what is reserved: ``unreserved`` of a single kind."""
    left: list[int] = idle.tolist()
    everything = SLACK * sum(left)
    asked = [demand / max(1, sum(left[k] for k in kinds)) for kinds, demand in concern.levels if kind in kinds]
    return everything * sum(asked) < 1


def unreserved(concern: Shield, idle: Ints) -> Bools:
    """Return the kinds that the pod may use without touching what is reserved.

    Args:
        concern: from ``shield``.
        idle: free shares per kind, in thousandths.
    """
    inside = np.maximum(concern.kinds @ idle, 1)
    kept = idle * ((SLACK * idle.sum() * concern.demand / inside) @ concern.kinds)
    free: Bools = concern.can & (idle > kept)
    return free
