"""Which nodes have a kind of device, counted as nodes come and go: CPU of the whole node, and devices of the kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

PLENTY = 1 << 50
"""Host resources that the node does not state are not checked."""

Shape = tuple[int, int, int]
"""Kind, CPU of the whole node in thousandths, devices of the kind."""


class Shapes:
    """Distinct shapes of nodes.

    Attributes:
        generation: grows by one whenever a shape appears that no node had, or the last node of a shape goes.
    """

    def __init__(self) -> None:
        self.generation = 0
        self._of: dict[int, tuple[Shape, ...]] = {}
        self._nodes: Counter[Shape] = Counter()

    def put(self, column: int, cpu_milli: int | None, kinds: Iterable[int]) -> None:
        """Note the kinds of a node's devices in place of what it had; without any, the node has left."""
        cpu = PLENTY if cpu_milli is None else cpu_milli
        now = tuple((kind, cpu, count) for kind, count in sorted(Counter(kinds).items()))
        before = self._of.get(column, ())
        if now == before:
            return
        touched = {*before, *now}
        known = touched & self._nodes.keys()
        self._of[column] = now
        self._nodes.update(now)
        self._nodes.subtract(before)
        for shape in touched:
            if not self._nodes[shape]:
                del self._nodes[shape]
        self.generation += known != touched & self._nodes.keys()

    def reach(self) -> dict[int, frozenset[tuple[int, int]]]:
        """Return, per kind, the distinct nodes that have it: CPU of the whole node, and devices of the kind."""
        found: dict[int, set[tuple[int, int]]] = {}
        for kind, cpu, count in self._nodes:
            found.setdefault(kind, set()).add((cpu, count))
        return {kind: frozenset(shapes) for kind, shapes in found.items()}
