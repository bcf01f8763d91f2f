"""Nodes that the vendor's own plugin serves: whole devices are counted there, as kube-scheduler itself would.

During a roll-out both kinds of node exist. A pod that asks for whole devices in the vendor's own name may go to either.
"""

from __future__ import annotations

from collections.abc import Iterable

from terrazzo.dialects.names import Role, is_device_name, lookup
from terrazzo.model.request import PodRequest

Counts = dict[str, int]
"""Devices by resource name."""


def counts_of(request: PodRequest) -> Counts | None:
    """Return the counts a pod asks for in vendors' names, or None when any ask is more than a count.

    Init containers run one after the other, so the most of them counts (Kubernetes, "Resource sharing within
    containers"); this is the upper bound that holds for sidecars, too.
    """
    running: Counts = {}
    before: Counts = {}
    for container in request.containers:
        for ask in container.asks:
            word = lookup(ask.words[0]) if len(ask.words) == 1 else None
            # A slice by name is a resource of its own to a vendor's plugin, as a whole device is.
            served = word is not None and (word.role is Role.PROFILE or (word.role is Role.COUNT and ask.whole))
            if word is None or not served or not word.phrase.vendor:
                return None
            into = before if container.kind == "init" else running
            name = ask.words[0]
            into[name] = max(into.get(name, 0), ask.count) if into is before else into.get(name, 0) + ask.count
    return {name: max(running.get(name, 0), before.get(name, 0)) for name in {**running, **before}}


class PlainNodes:
    """What unmanaged nodes offer, and what the pods on them have taken."""

    def __init__(self) -> None:
        self._offered: dict[str, Counts] = {}
        self._taken: dict[str, dict[str, Counts]] = {}
        self._on: dict[str, str] = {}

    def put(self, node: str, allocatable: Iterable[tuple[str, int]]) -> None:
        """Note what a node offers; names that are not devices are left out."""
        self._offered[node] = {name: count for name, count in allocatable if count > 0 and is_device_name(name)}

    def drop(self, node: str) -> None:
        """Forget what a node offers."""
        self._offered.pop(node, None)

    def __contains__(self, node: object) -> bool:
        """Whether the node is one of these."""
        return node in self._offered

    def take(self, pod: str, node: str, counts: Counts) -> None:
        """Note that a pod takes so much of a node."""
        self.give_back(pod)
        if counts:
            self._taken.setdefault(node, {})[pod] = counts
            self._on[pod] = node

    def give_back(self, pod: str) -> None:
        """Note that a pod takes nothing any more."""
        node = self._on.pop(pod, None)
        if node is not None:
            del self._taken[node][pod]

    def left(self, node: str, name: str) -> int:
        """Return how many of a resource are left on a node."""
        taken = sum(counts.get(name, 0) for counts in self._taken.get(node, {}).values())
        return self._offered.get(node, {}).get(name, 0) - taken

    def fits(self, node: str, counts: Counts) -> bool:
        """Return whether a node has so much left."""
        return node in self._offered and all(self.left(node, name) >= count for name, count in counts.items())

    def any_fits(self, counts: Counts) -> bool:
        """Return whether any node has so much left."""
        return any(self.fits(node, counts) for node in self._offered)

    def fitting(self, names: Iterable[str], counts: Counts) -> list[str]:
        """Return the nodes among ``names`` that have so much left, fullest first, so that large pods keep a place."""
        found = [name for name in names if self.fits(name, counts)] if self._offered else []
        return sorted(found, key=lambda node: (sum(self.left(node, name) for name in counts), node))
