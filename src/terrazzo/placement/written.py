"""What is written with a pod, as the books take it: others may have written it, so nothing is believed unseen."""

from __future__ import annotations

from msgspec import structs

from terrazzo.model.allocation import Allocation, DeviceUse
from terrazzo.model.request import PodRequest


def same(left: Allocation, right: Allocation) -> bool:
    """Return whether both hold the same, whoever the pod is known as."""
    return (left.node, left.containers, left.uses) == (right.node, right.containers, right.uses)


def known_as(request: PodRequest) -> tuple[int, tuple[tuple[str, str], ...]]:
    """Return priority and labels as the API server has them now: budgets and victims go by these."""
    return request.priority, tuple(sorted(request.labels.items()))


def sound(held: Allocation, pod: str) -> Allocation:
    """Return what was written under the pod's own key, each device once."""
    uses: dict[str, DeviceUse] = {}
    for use in held.uses:
        had = uses.get(use.uuid)
        uses[use.uuid] = use if had is None else _together(had, use)
    return structs.replace(held, pod=pod, uses=tuple(uses.values()))


def _together(a: DeviceUse, b: DeviceUse) -> DeviceUse:
    slices = tuple(sorted({*a.slices, *b.slices}))
    return DeviceUse(a.uuid, a.memory_mib + b.memory_mib, a.units + b.units, a.alone or b.alone, slices)
