"""The simulated clock: a heap of what will happen, in order of time and, at one time, of being planned."""

from __future__ import annotations

import heapq
from typing import Generic, TypeVar

Event = TypeVar("Event")


class Clock(Generic[Event]):
    """Time moves only by taking the next event.

    Attributes:
        now_s: seconds since the start.
    """

    def __init__(self) -> None:
        self.now_s = 0.0
        self._heap: list[tuple[float, int, Event]] = []
        self._planned = 0

    def plan(self, at_s: float, event: Event) -> None:
        """Have ``event`` happen at ``at_s``, or now when that is past."""
        heapq.heappush(self._heap, (max(at_s, self.now_s), self._planned, event))
        self._planned += 1

    def next_s(self) -> float | None:
        """Return when the next event happens, None when nothing is planned."""
        return self._heap[0][0] if self._heap else None

    def take(self) -> Event:
        """Move to the next event and return it.

        Raises:
            IndexError: nothing is planned.
        """
        self.now_s, _, event = heapq.heappop(self._heap)
        return event
