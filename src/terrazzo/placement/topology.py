"""Which of several devices belong together: link groups (NVLink, NVSwitch, HCCS, MLU-Link, MT-Link), then NUMA.

A link group names devices that all reach each other over the vendor's links. A full matrix that is no such clique is
written as groups of two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from terrazzo.model.device import Device


def linked(left: Device, right: Device) -> int:
    """Return how closely two devices are tied: 10 per common link group, 1 for a common NUMA node."""
    common = len(set(left.links) & set(right.links))
    return 10 * common + (left.numa is not None and left.numa == right.numa)


def quality(devices: Sequence[Device]) -> int:
    """Return the summed ties of all pairs."""
    return sum(linked(a, b) for i, a in enumerate(devices) for b in devices[:i])


def together(devices: Sequence[Device], count: int) -> tuple[int, ...]:
    """Return positions of ``count`` devices that are tied best, the first such set in order.

    One group that holds enough settles it, the group with fewest to spare first, so that a large group stays whole
    for who needs it. Otherwise devices are added one by one to the seed that ends best; never all combinations.
    """
    everything = tuple(range(len(devices)))
    if count >= len(devices):
        return everything
    if count == 1:
        return _loosest(devices)
    members: dict[str, list[int]] = {}
    for position, device in enumerate(devices):
        for group in device.links:
            members.setdefault(group, []).append(position)
    enough = [group for group in members.values() if len(group) >= count]
    if enough:
        tightest = min(enough, key=lambda group: (len(group), group))
        return (
            tuple(tightest)
            if len(tightest) == count
            else _grow([tightest[i] for i in range(len(tightest))], devices, count)
        )
    return _grow(list(everything), devices, count)


def _loosest(devices: Sequence[Device]) -> tuple[int, ...]:
    """One device alone: the one whose leaving hurts the others least."""
    groups = Counter(group for device in devices for group in device.links)
    ties = [sum(groups[group] - 1 for group in device.links) for device in devices]
    return (min(range(len(devices)), key=lambda i: (ties[i], i)),)


def _grow(pool: list[int], devices: Sequence[Device], count: int) -> tuple[int, ...]:
    ties = {(a, b): linked(devices[a], devices[b]) for a in pool for b in pool if a != b}
    best: tuple[int, tuple[int, ...]] | None = None
    for seed in pool:
        chosen = [seed]
        worth = 0
        while len(chosen) < count:
            rest = [p for p in pool if p not in chosen]
            gain = {p: sum(ties[p, c] for c in chosen) for p in rest}
            pick = max(rest, key=lambda p: (gain[p], -p))
            worth += gain[pick]
            chosen.append(pick)
        found = (worth, tuple(sorted(chosen)))
        if best is None or found[0] > best[0]:
            best = found
        if best[0] == _ceiling(count, ties):
            break
    assert best is not None  # noqa: S101 - the pool is never empty here
    return best[1]


def _ceiling(count: int, ties: dict[tuple[int, int], int]) -> int:
    return max(ties.values(), default=0) * count * (count - 1) // 2


def groups_from_matrix(matrix: Sequence[Sequence[bool]], prefix: str) -> tuple[tuple[str, ...], ...]:
    """Return the link groups of each device from a matrix of "talks over the vendor's links".

    A clique over all its members becomes one group; what is no clique becomes groups of two.

    Args:
        matrix: square and symmetric; the diagonal is ignored.
        prefix: start of the group names, such as ``nvlink``.
    """
    size = len(matrix)
    neighbours = [frozenset(j for j in range(size) if j != i and matrix[i][j]) | {i} for i in range(size)]
    names: list[list[str]] = [[] for _ in range(size)]
    done: set[frozenset[int]] = set()
    for i in range(size):
        clique = neighbours[i]
        if len(clique) > 1 and all(neighbours[j] == clique for j in clique):
            if clique not in done:
                done.add(clique)
                for j in clique:
                    names[j].append(f"{prefix}-{min(clique)}")
        else:
            for j in sorted(clique - {i}):
                names[i].append(f"{prefix}-{min(i, j)}-{max(i, j)}")
    return tuple(tuple(each) for each in names)
