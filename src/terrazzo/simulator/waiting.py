"""The queue: pods that fit nowhere now, by class, so that a release asks one question per class and not per pod."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

import numpy as np

from terrazzo.model.request import Ask, PodRequest
from terrazzo.placement.fleet import Fleet
from terrazzo.placement.popularity import class_of
from terrazzo.placement.rows import is_simple
from terrazzo.placement.tables import Ints, Table, compile_ask

Key = tuple[object, ...]
Ticket = tuple[int, int]
"""Place in the queue: priority first (higher goes first), then order of submission. Less is earlier."""


def key_of(request: PodRequest) -> Key:
    """Return what two requests share that fit in exactly the same places."""
    return (
        request.containers, request.vendor, request.model, request.device, request.exclusive, request.numa_bind,
        request.cpu_milli, request.memory_mib, request.priority, request.namespace, request.strategy,
        tuple(sorted(request.other.items())), repr(request.rules),
    )  # fmt: skip


class Waiting:
    """Waiting pods, each known by its number."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._queues: dict[Key, deque[tuple[Ticket, int]]] = {}
        self._place: dict[Key, int] = {}
        self._keys: list[Key] = []
        self._tables: list[Table] = []
        self._hosts: list[tuple[int, int, int]] = []
        self._needs: tuple[Ints, Ints, Ints] | None = None
        self.count = 0

    def __len__(self) -> int:
        """Number of pods that wait."""
        return self.count

    def add(self, number: int, request: PodRequest) -> None:
        """Queue a pod behind those of its priority."""
        key = key_of(request)
        if key not in self._place:
            self._place[key] = len(self._keys)
            self._keys.append(key)
            ask = class_of(request).ask or Ask(count=0)
            table = compile_ask(request, ask, self._fleet.kinds, {})
            # Of a pod of several asks the largest tells nothing certain, so every release is worth a try.
            devices = table.devices if is_simple(request) and table.placeable is None else 0
            self._tables.append(table)
            self._hosts.append((request.cpu_milli, request.memory_mib, devices))
            self._queues[key] = deque()
            self._needs = None
        self._queues[key].append(((-request.priority, number), number))
        self.count += 1

    def numbers(self) -> Iterator[int]:
        """Yield all pods that wait, class by class."""
        for queue in self._queues.values():
            for _, number in queue:
                yield number

    def able(self, columns: Iterable[int]) -> dict[Key, Ticket]:
        """Return the classes with a pod that may fit on one of these nodes, each with its first ticket."""
        if not self.count:
            return {}
        if self._needs is None:
            self._needs = (
                np.array([table.test_mib for table in self._tables]),
                np.array([table.test_units for table in self._tables]),
                np.array(self._hosts, dtype=np.int64).T,
            )
        test_mib, test_units, (cpu, memory, devices) = self._needs
        fleet = self._fleet
        may = np.zeros(len(self._keys), dtype=bool)
        for column in columns:
            kind = fleet.kind[column]
            fits = (fleet.avail_mib[column] >= test_mib[:, kind]) & (fleet.avail_units[column] >= test_units[:, kind])
            host = (fleet.cpu_milli[column] >= cpu) & (fleet.memory_mib[column] >= memory)
            may |= (fits.sum(axis=1) >= devices) & host
        keys = (self._keys[place] for place in np.flatnonzero(may))
        return {key: self._queues[key][0][0] for key in keys if self._queues[key]}

    def first(self, key: Key) -> int:
        """Return the first pod of a class."""
        return self._queues[key][0][1]

    def pop(self, key: Key) -> Ticket | None:
        """Take the first pod of a class out; return the next one's ticket, None when there is none."""
        queue = self._queues[key]
        queue.popleft()
        self.count -= 1
        return queue[0][0] if queue else None
