"""The fewest moves that would admit a pod: a plan for people, not an action."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import combinations

import msgspec
from msgspec import Struct

from terrazzo.model.allocation import Allocation
from terrazzo.model.errors import LedgerError
from terrazzo.model.request import PodRequest
from terrazzo.placement import noderules
from terrazzo.placement.engine import Engine

MOST_MOVES = 3
TRIES = 2000
"""Sets of pods looked at before the search gives up; each costs a handful of decisions."""


class Move(Struct, frozen=True):
    """One running pod and where it would go.

    Attributes:
        pod: namespace and name.
        before, after: its allocations.
    """

    pod: str
    before: Allocation
    after: Allocation


class Moves(Struct, frozen=True):
    """A plan: with these pods moved, all of them, the pod fits."""

    moves: tuple[Move, ...]
    allocation: Allocation


def fewest_moves(
    engine: Engine, request: PodRequest, requests: Mapping[str, PodRequest], *, among: Iterable[str] | None = None
) -> Moves | None:
    """Return the fewest moves, up to ``MOST_MOVES``, that admit a pod which fits nowhere now, or None.

    A moved pod keeps what it asked for and goes anywhere that its own rules allow. The fleet is the same afterwards.

    Args:
        engine: with the fleet.
        request: the pod.
        requests: what the pods that run ask for, by key; pods that are not among them do not move.
        among: names of the nodes where the pod might go; None = all.
    """
    if engine.fits(request):
        return None
    tries = 0
    nodes = [node.name for node in engine.fleet.nodes()] if among is None else list(among)
    for count in range(1, MOST_MOVES + 1):
        for pods in _sets(engine, request, requests, nodes, count):
            tries += 1
            if tries > TRIES:
                return None
            found = _try(engine, request, [requests[pod] for pod in pods])
            if found is not None:
                return found
    return None


def carry_out(engine: Engine, plan: Moves) -> bool:
    """Return whether the plan can be carried out now, by doing it and undoing it."""
    fleet = engine.fleet
    granted: list[str] = []
    with fleet.without([move.before.pod for move in plan.moves]):
        try:
            for allocation in (plan.allocation, *(move.after for move in plan.moves)):
                fleet.grant(allocation)
                granted.append(allocation.pod)
        except LedgerError:
            return False
        finally:
            for pod in granted:
                fleet.release(pod)
    return True


def _sets(
    engine: Engine, request: PodRequest, requests: Mapping[str, PodRequest], nodes: Iterable[str], count: int
) -> Iterator[tuple[str, ...]]:
    """Yield sets of pods of one node, those that hold least first: they are easiest to put elsewhere."""
    for name in nodes:
        node = engine.fleet.node(name)
        if node is None or noderules.allows(request.rules, node) is not None:
            continue
        held = [a for a in engine.fleet.allocations_on(name) if a.pod in requests and a.uses]
        held.sort(key=lambda a: (sum(use.memory_mib for use in a.uses), sum(use.units for use in a.uses)))
        yield from (tuple(a.pod for a in chosen) for chosen in combinations(held, count))


def _try(engine: Engine, request: PodRequest, moving: list[PodRequest]) -> Moves | None:
    fleet = engine.fleet
    before = [held for each in moving if (held := fleet.allocation(each.key)) is not None]
    node = before[0].node
    with fleet.without([each.key for each in moving]):
        placed = engine.try_on(request, node)
        if placed is None:
            return None
        with _granted(engine, placed):
            return _elsewhere(engine, moving, before, placed, [])


def _elsewhere(
    engine: Engine, moving: list[PodRequest], before: list[Allocation], placed: Allocation, done: list[Move]
) -> Moves | None:
    if len(done) == len(moving):
        return Moves(tuple(done), placed)
    request, was = moving[len(done)], before[len(done)]
    anywhere = msgspec.structs.replace(request, rules=msgspec.structs.replace(request.rules, node_name=""))
    found = engine.decide(anywhere)
    if found is None or (found.node, found.uses) == (was.node, was.uses):
        return None
    with _granted(engine, found):
        return _elsewhere(engine, moving, before, placed, [*done, Move(request.title, was, found)])


@contextmanager
def _granted(engine: Engine, allocation: Allocation) -> Iterator[None]:
    engine.fleet.grant(allocation)
    try:
        yield
    finally:
        engine.fleet.release(allocation.pod)
