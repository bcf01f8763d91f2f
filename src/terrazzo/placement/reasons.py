"""One reason per node, for all nodes at once: what a scheduler's event counts."""

from __future__ import annotations

from terrazzo.model.reason import Reason
from terrazzo.model.request import PodRequest
from terrazzo.placement.engine import Engine


def coarse(engine: Engine, request: PodRequest) -> dict[str, Reason]:
    """Return, for every node where the pod cannot be now, the reason."""
    return {no.node: no.reason for no in engine.why(request)}
