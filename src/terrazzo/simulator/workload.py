"""What is submitted, and when: the only form in which a simulation sees work, wherever it comes from."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from terrazzo.model.request import PodRequest

Progress = Callable[[int, int], None]
"""Called now and then during long runs with how much is done and how much there is."""


class Arrival(Struct, frozen=True, gc=False):
    """One pod that is submitted.

    Attributes:
        request: the pod, normalised; its key is unique within a workload.
        arrive_s: seconds after the start of the simulation.
        duration_s: seconds it runs once placed; None runs for ever.
        kind: word for reports, such as ``training``; empty when there are no kinds.
    """

    request: PodRequest
    arrive_s: float
    duration_s: float | None = None
    kind: str = ""
