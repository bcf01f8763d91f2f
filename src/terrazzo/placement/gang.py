"""Several pods at once, or none of them."""

from __future__ import annotations

from collections.abc import Sequence

from terrazzo.model.allocation import Allocation
from terrazzo.model.request import PodRequest
from terrazzo.placement.engine import Engine


def place_gang(engine: Engine, requests: Sequence[PodRequest]) -> tuple[Allocation, ...] | None:
    """Return where all of these pods go together, or None when they do not all fit. Nothing is taken yet.

    They are placed one after the other, hardest first; the answer is in the order given.
    """
    order = sorted(range(len(requests)), key=lambda i: _size(requests[i]), reverse=True)
    placed: dict[int, Allocation] = {}
    try:
        for i in order:
            found = engine.decide(requests[i])
            if found is None:
                return None
            engine.fleet.grant(found)
            placed[i] = found
        return tuple(placed[i] for i in range(len(requests)))
    finally:
        for allocation in placed.values():
            engine.fleet.release(allocation.pod)


def _size(request: PodRequest) -> tuple[int, ...]:
    """Return what a pod asks for, percentages and whole devices as percent, larger first."""
    asks = [ask for container in request.containers for ask in container.asks]
    percent = sum(a.count * (100 if a.whole or a.profile else max(a.cores_percent, a.memory_percent)) for a in asks)
    return percent, sum(a.count * a.memory_mib for a in asks), sum(a.count for a in asks)
