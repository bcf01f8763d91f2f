"""Why a pod does not fit, and the nearest changes that would: found by asking the engine, never by guessing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice

import msgspec
from msgspec import Struct

from terrazzo.model.device import Health
from terrazzo.model.node import Node
from terrazzo.model.reason import NodeRejection, Reason
from terrazzo.model.request import PodRequest
from terrazzo.placement import changes as c
from terrazzo.placement.changes import Change
from terrazzo.placement.engine import Engine
from terrazzo.placement.fleet import Fleet
from terrazzo.placement.moves import carry_out, fewest_moves
from terrazzo.placement.preempt import Budget, cheapest_victims

NEAR = 64
"""Nodes that come nearest; holders, moves and victims are looked for on these alone."""
SINGLES = 3
"""Single pods named at most, so that owners, nodes and moves are named too."""
HOLDERS = 128
"""Holders tried one by one, those of the nearest nodes first."""


class Explanation(Struct, frozen=True):
    """Why not, and what would help.

    Attributes:
        rejections: per node that does not do.
        changes: nearest first; each is true now.
        fits: the pod fits after all.
    """

    rejections: tuple[NodeRejection, ...]
    changes: tuple[Change, ...]
    fits: bool = False


def explain(
    engine: Engine,
    request: PodRequest,
    *,
    most: int = 8,
    requests: Mapping[str, PodRequest] | None = None,
    budgets: tuple[Budget, ...] = (),
) -> Explanation:
    """Return why a pod fits nowhere and up to ``most`` changes that would let it in now.

    Args:
        engine: with the fleet.
        request: the pod, vendors decided.
        most: changes to find.
        requests: what running pods ask for, by key: with it, owners whose end helps and moves are found too.
        budgets: disruption budgets, for victims.
    """
    if engine.fits(request):
        return Explanation((), (), fits=True)
    rejections = engine.why(request)
    found: list[Change] = []
    for change in _candidates(engine, request, rejections, dict(requests or {}), budgets):
        if change not in found:
            found.append(change)
        if len(found) == most:
            break
    return Explanation(rejections, tuple(found))


def verify(engine: Engine, request: PodRequest, change: Change) -> bool:
    """Return whether a change is true: tried for real, the pod fits. The fleet is the same afterwards."""
    match change:
        case c.Smaller() | c.Without():
            return engine.fits(change.apply(request))
        case c.Ends():
            with engine.fleet.without(change.keys):
                return engine.fits(request)
        case c.OneMore():
            node = engine.fleet.node(change.like)
            return node is not None and _fits_new(engine, request, node)
        case c.Preempts():
            with engine.fleet.without(change.keys):
                return engine.fits(request)
        case c.Moved():
            return carry_out(engine, change.plan)
    return False


def _candidates(
    engine: Engine,
    request: PodRequest,
    rejections: tuple[NodeRejection, ...],
    requests: dict[str, PodRequest],
    budgets: tuple[Budget, ...],
) -> Iterator[Change]:
    near = sorted((no for no in rejections if not no.reason.permanent), key=_distance)[:NEAR]
    names = [no.node for no in near]
    yield from _smaller(engine, request)
    yield from _without(engine, request)
    yield from _ends(engine, request, near, requests)
    yield from _one_more(engine, request)
    plan = fewest_moves(engine, request, requests, among=names) if requests else None
    if plan is not None:
        yield c.Moved(plan)
    victims = cheapest_victims(engine, request, budgets, among=names)
    if victims is not None:
        yield c.Preempts(tuple(a.title for a in victims.pods), tuple(a.pod for a in victims.pods))


def _smaller(engine: Engine, request: PodRequest) -> Iterator[Change]:
    """Largest memory, compute and count that fit now, the rest of the ask as it is."""
    asks = [ask for container in request.containers for ask in container.asks]
    if len(asks) != 1:
        return
    ask = asks[0]
    if ask.whole and ask.count == 1:

        def shared(mib: int) -> bool:
            return engine.fits(c.Smaller("share_mib", mib).apply(request))

        most = _largest(shared, 1, _largest_device(engine))
        if most:
            yield _counted(engine, request, c.Smaller("share_mib", most))
        return
    memory = "memory_mib" if ask.memory_mib else "memory_percent"
    for field, least in ((memory, 1), ("cores_percent", 0), ("count", 1)):

        def works(value: int, field: str = field) -> bool:
            return engine.fits(c.Smaller(field, value).apply(request))

        most = None if ask.whole and field != "count" else _largest(works, least, getattr(ask, field) - 1)
        if most is not None:
            yield _counted(engine, request, c.Smaller(field, most))


def _counted(engine: Engine, request: PodRequest, change: c.Smaller) -> Change:
    return msgspec.structs.replace(change, nodes=engine.count(change.apply(request)))


def _largest_device(engine: Engine) -> int:
    sizes = (d.memory_mib for node in engine.fleet.nodes() for d in node.devices if isinstance(d.memory_mib, int))
    return max(sizes, default=0)


def _largest(works: Callable[[int], bool], low: int, high: int) -> int | None:
    """Return the largest number from ``low`` to ``high`` that works, provided smaller ones do; None when none does."""
    if high < low or not works(low):
        return None
    while low < high:
        middle = (low + high + 1) // 2
        if works(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _without(engine: Engine, request: PodRequest) -> Iterator[Change]:
    for rule in c.RULES:
        change = c.Without(rule)
        changed = change.apply(request)
        if changed != request and engine.fits(changed):
            yield msgspec.structs.replace(change, nodes=engine.count(changed))


def _ends(
    engine: Engine, request: PodRequest, near: list[NodeRejection], requests: Mapping[str, PodRequest]
) -> Iterator[Change]:
    """Single pods whose end lets this one in, then owners all of whose pods would have to end."""
    held = [(a, no.reason in _HOST) for no in near for a in engine.fleet.allocations_on(no.node)]
    singles = (c.Ends(a.title, (a.pod,)) for a, host in held[:HOLDERS] if a.uses or host)
    yield from islice((change for change in singles if verify(engine, request, change)), SINGLES)
    owners: dict[tuple[str, str], list[str]] = {}
    for a, _ in held:
        owner = requests[a.pod].owner if a.pod in requests else ""
        if owner:
            owners.setdefault((a.namespace, owner), []).append(a.pod)
    several = (c.Ends(f"{space}/{owner}", tuple(pods)) for (space, owner), pods in owners.items() if len(pods) > 1)
    yield from islice((change for change in islice(several, HOLDERS) if verify(engine, request, change)), SINGLES)


_HOST = frozenset({Reason.CPU, Reason.HOST_MEMORY, Reason.PODS})


def _distance(no: NodeRejection) -> tuple[int, int]:
    shortages = (d.needed - d.available for d in no.devices if d.needed > d.available >= 0)
    short = min(shortages, default=no.needed - no.available)
    return (no.reason not in {Reason.MEMORY, Reason.CORES, Reason.COUNT, *_HOST}, short)


def _one_more(engine: Engine, request: PodRequest) -> Iterator[Change]:
    """The smallest kind of node of which one more, empty, would take the pod."""
    likes: dict[tuple[object, ...], Node] = {}
    for node in engine.fleet.nodes():
        if node.devices:
            kinds = tuple(sorted(device.model for device in node.devices))
            shape = (kinds, node.cpu_milli, node.memory_mib, node.taints, tuple(sorted(node.labels.items())))
            likes.setdefault(shape if len(likes) < NEAR else shape[:4], node)
    fitting = [node for node in likes.values() if _fits_new(engine, request, node)]
    if fitting:
        best = min(fitting, key=lambda n: (len(n.devices), _size(n), n.name))
        yield c.OneMore(best.name, f"{len(best.devices)} {best.devices[0].model}")


def _size(node: Node) -> int:
    return sum(d.memory_mib for d in node.devices if isinstance(d.memory_mib, int))


def _fits_new(engine: Engine, request: PodRequest, like: Node) -> bool:
    """Return whether an empty node of the kind would take the pod; its name and its devices' are new ones."""
    name = f"{like.name}-new"
    devices = tuple(
        msgspec.structs.replace(
            device, node=name, uuid=f"{name}/{i}", health=Health.HEALTHY, health_reason="", foreign_mib=0
        )
        for i, device in enumerate(like.devices)
    )
    labels = {key: value for key, value in like.labels.items() if key != "kubernetes.io/hostname"}
    node = msgspec.structs.replace(like, name=name, labels=labels, devices=devices, ready=True, unschedulable=False)
    return Engine(Fleet([node]), engine.policy).fits(request)
