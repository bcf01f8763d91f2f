"""Pods that wait for devices, grouped by what they ask for, so that a thousand alike cost one look."""

from __future__ import annotations

from collections.abc import Callable

from terrazzo.model.request import PodRequest
from terrazzo.placement.popularity import class_of


class WaitingRoom:
    """Waiting pods."""

    def __init__(self) -> None:
        self._groups: dict[object, dict[str, PodRequest]] = {}
        self._group_of: dict[str, object] = {}

    def enter(self, request: PodRequest) -> None:
        """Have a pod wait; the same pod again changes nothing."""
        self.leave(request.key)
        kinds = tuple((container.kind, container.asks) for container in request.containers)
        key = (
            class_of(request),
            kinds,
            request.device,
            request.numa_bind,
            request.memory_mib,
            repr((request.rules, request.other)),
        )
        self._groups.setdefault(key, {})[request.key] = request
        self._group_of[request.key] = key

    def leave(self, pod: str) -> None:
        """Have a pod wait no longer."""
        key = self._group_of.pop(pod, None)
        if key is not None:
            group = self._groups[key]
            del group[pod]
            if not group:
                del self._groups[key]

    def pods(self) -> set[str]:
        """Return who waits."""
        return set(self._group_of)

    def might_use(self, fits: Callable[[PodRequest], bool]) -> tuple[str, ...]:
        """Return the pods that could use what became free; one of each group is tried."""
        woken: list[str] = []
        for group in self._groups.values():
            if fits(next(iter(group.values()))):
                woken += group
        return tuple(woken)
