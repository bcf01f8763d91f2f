"""Preemption as a pure function: the cheapest set of pods whose end admits another. Nothing is evicted here."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import combinations

from msgspec import Struct

from terrazzo.model.allocation import Allocation
from terrazzo.model.node import Node
from terrazzo.model.request import PodRequest
from terrazzo.placement import noderules
from terrazzo.placement.engine import Engine

LOWEST = 1 << 31
"""Added to priorities, which may be negative, so that more victims never count as less."""
EXACT = 24
"""Candidates on a node up to which single victims and pairs are all tried; beyond, the greedy set has to do."""


class Budget(Struct, frozen=True):
    """A PodDisruptionBudget: how many of the pods it selects may still be disturbed.

    Attributes:
        namespace: of the budget.
        labels: pods carry all of these; empty selects all pods of the namespace.
        allowed: ``status.disruptionsAllowed``.
    """

    namespace: str
    labels: tuple[tuple[str, str], ...]
    allowed: int

    def selects(self, held: Allocation) -> bool:
        """Return whether the budget covers the pod."""
        return held.namespace == self.namespace and set(self.labels) <= set(held.labels)


class Victims(Struct, frozen=True):
    """Who would have to end, and what the pod then gets.

    Attributes:
        node: where.
        pods: the victims' allocations; none where the pods that leave already make room.
        allocation: of the pod, once they are gone.
        violations: budgets that would be broken.
    """

    node: str
    pods: tuple[Allocation, ...]
    allocation: Allocation
    violations: int


def cheapest_victims(
    engine: Engine,
    request: PodRequest,
    budgets: Sequence[Budget] = (),
    *,
    among: Iterable[str] | None = None,
    leaving: Collection[str] = (),
) -> Victims | None:
    """Return the cheapest victims that admit a pod which fits nowhere now, or None when no victims would.

    Cheapest: fewest broken budgets, then lowest highest priority, lowest sum of priorities, fewest, youngest. Only pods
    of lower priority are victims, and none whose end is not needed. The fleet is the same afterwards.

    Args:
        engine: with the fleet.
        request: the pod.
        budgets: disruption budgets.
        among: names of nodes to look at; None = all.
        leaving: keys of pods that are on their way out: counted as gone, never victims. Where that is enough, the
            first such node is returned, without victims.
    """
    if engine.fits(request):
        return None
    best: tuple[tuple[float, ...], Victims] | None = None
    wanted = None if among is None else set(among)
    for node in engine.fleet.nodes():
        if (wanted is not None and node.name not in wanted) or noderules.allows(request.rules, node) is not None:
            continue
        going = [held.pod for held in engine.fleet.allocations_on(node.name) if held.pod in leaving] if leaving else []
        with engine.fleet.without(going):
            found = _without_victims(engine, request, node) if going else None
            if found is not None:
                return found
            found = _on_node(engine, request, node, budgets)
        if found is not None:
            cost = _cost(found.pods, budgets)
            if best is None or cost < best[0]:
                best = cost, found
    return best[1] if best is not None else None


def _without_victims(engine: Engine, request: PodRequest, node: Node) -> Victims | None:
    found = engine.try_on(request, node.name)
    return None if found is None else Victims(node.name, (), found, 0)


def _on_node(engine: Engine, request: PodRequest, node: Node, budgets: Sequence[Budget]) -> Victims | None:
    lower = [a for a in engine.fleet.allocations_on(node.name) if a.priority < request.priority]
    if not lower or _admits(engine, request, node, lower) is None:
        return None
    lower.sort(key=lambda a: _cost((a,), budgets))
    found = _reprieved(engine, request, node, lower, budgets)
    if len(lower) <= EXACT and found is not None:
        for size in (1, 2):
            found = _cheaper(engine, request, node, combinations(lower, size), budgets, found)
    return found


def _cheaper(
    engine: Engine,
    request: PodRequest,
    node: Node,
    sets: Iterable[tuple[Allocation, ...]],
    budgets: Sequence[Budget],
    best: Victims,
) -> Victims:
    """Return the cheapest of these sets that admits the pod, or ``best`` where none is cheaper; cheap ones first."""
    for chosen in sorted(sets, key=lambda each: _cost(each, budgets)):
        if _cost(chosen, budgets) >= _cost(best.pods, budgets):
            break
        found = _admits(engine, request, node, chosen)
        if found is not None and _needed(engine, request, node, chosen):
            return Victims(node.name, chosen, found, _violations(chosen, budgets))
    return best


def _needed(engine: Engine, request: PodRequest, node: Node, chosen: tuple[Allocation, ...]) -> bool:
    """Return whether the pod needs each of them gone."""
    return len(chosen) == 1 or all(
        _admits(engine, request, node, [each for each in chosen if each is not spared]) is None for spared in chosen
    )


def _reprieved(
    engine: Engine, request: PodRequest, node: Node, lower: list[Allocation], budgets: Sequence[Budget]
) -> Victims | None:
    """Start with everybody and let off one after the other, dearest first, whom the pod does not need gone."""
    chosen = list(lower)
    for each in reversed(lower):
        rest = [other for other in chosen if other is not each]
        if _admits(engine, request, node, rest) is not None:
            chosen = rest
    found = _admits(engine, request, node, chosen)
    if found is None:
        return None
    return Victims(node.name, tuple(chosen), found, _violations(chosen, budgets))


def _admits(engine: Engine, request: PodRequest, node: Node, gone: Iterable[Allocation]) -> Allocation | None:
    with engine.fleet.without([each.pod for each in gone]):
        return engine.try_on(request, node.name)


def _violations(pods: Iterable[Allocation], budgets: Sequence[Budget]) -> int:
    pods = tuple(pods)
    return sum(max(0, sum(b.selects(a) for a in pods) - b.allowed) for b in budgets)


def _cost(pods: Iterable[Allocation], budgets: Sequence[Budget]) -> tuple[float, ...]:
    pods = tuple(pods)
    return (
        _violations(pods, budgets),
        max(a.priority for a in pods),
        sum(a.priority + LOWEST for a in pods),
        len(pods),
        -sum(a.created_s for a in pods) / len(pods),
    )
