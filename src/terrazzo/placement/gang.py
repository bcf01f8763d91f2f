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
    asks = [ask for container in request.containers for ask in container.asks]
    return (
        sum(ask.count * (100 if ask.whole else 0) for ask in asks),
        sum(ask.count * ask.memory_mib for ask in asks),
        sum(ask.count * ask.cores_percent for ask in asks),
    )
