"""Exact placement of one pod on one node: all containers at once, or not at all.

Each device that a container asks for is an item. Items go to seats (devices of the node) by search: hardest first,
seats that look alike tried once, undone when the rest does not fit. Amounts are counted per phase of the pod's life:
one phase for each init container, one for the time when app containers and sidecars run; what a seat must bear is the
maximum over phases, as Kubernetes counts CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from terrazzo.model.allocation import Allocation, ContainerGrant, DeviceGrant, DeviceUse, Slice
from terrazzo.model.device import Device, Health
from terrazzo.model.reason import DeviceRejection, NodeRejection, Reason
from terrazzo.model.request import Ask, ContainerKind, PodRequest
from terrazzo.placement import topology
from terrazzo.placement.demand import Misfit, Need, need_on
from terrazzo.placement.geometry import cuts_of
from terrazzo.placement.seat import DeviceView

STEPS = 20_000
"""Search steps after which a pod counts as unplaceable here. Pods of a dozen items need a few hundred."""

Order = Callable[[DeviceView], tuple[int, ...]]


class Item(NamedTuple):
    """One device for one container."""

    container: int
    ask: Ask
    ordinal: int
    phases: frozenset[int]


@dataclass(slots=True)
class _Seat:
    """A device during the search: what this pod has put on it so far, per phase."""

    view: DeviceView
    row: int
    mib: list[int]
    units: list[int]
    containers: list[int] = field(default_factory=list)
    alone: bool = False
    state: int = 0
    cuts: list[tuple[Slice, frozenset[int], Need]] = field(default_factory=list)

    def looks(self) -> tuple[object, ...]:
        """Return what tells this seat from another in the search."""
        v = self.view
        return (
            v.device.model, v.device.memory_mib, v.device.units, v.device.product, v.device.profile, v.free_mib,
            v.free_units, bool(v.holders), v.alone, self.state, tuple(self.mib), tuple(self.units),
            tuple(self.containers), v.device.links, v.device.numa, v.device.health,
        )  # fmt: skip


def phases_of(request: PodRequest) -> tuple[list[frozenset[int]], int]:
    """Return, per container, the phases in which it holds its devices, and the number of phases."""
    inits = [i for i, c in enumerate(request.containers) if c.kind is ContainerKind.INIT]
    last = len(inits)
    spans = []
    for position, container in enumerate(request.containers):
        if container.kind is ContainerKind.INIT:
            spans.append(frozenset({inits.index(position)}))
        elif container.kind is ContainerKind.SIDECAR:
            begin = sum(1 for i in inits if i < position)
            spans.append(frozenset(range(begin, last + 1)))
        else:
            spans.append(frozenset({last}))
    return spans, last + 1


def items_of(request: PodRequest) -> tuple[list[Item], int]:
    """Return the items of a pod, hardest first, and its number of phases."""
    spans, phases = phases_of(request)
    items = [
        Item(position, ask, ordinal, spans[position])
        for position, container in enumerate(request.containers)
        for ask in container.asks
        for ordinal in range(ask.count)
    ]
    items.sort(key=lambda i: (not i.ask.whole, not i.ask.profile, -i.ask.memory_mib, -i.ask.cores_percent, i.container))
    return items, phases


def reject(
    request: PodRequest, ask: Ask, view: DeviceView, titles: Callable[[str], str] = str
) -> DeviceRejection | None:
    """Return the first rule that one device fails for one ask when the pod has nothing on it yet, or None."""
    misfit = _unfit(request, ask, view)
    if misfit is None:
        return None
    holders = tuple(titles(pod) for pod in view.holders)
    device = view.device
    return DeviceRejection(
        device.uuid, device.index, misfit.reason, misfit.needed, misfit.available, holders, misfit.detail
    )


def _unfit(request: PodRequest, ask: Ask, view: DeviceView) -> Misfit | None:
    device = view.device
    if not request.device.matches(device.uuid):
        return Misfit(Reason.DEVICE)
    need = need_on(request, ask, device)
    if device.health is not Health.HEALTHY and not (isinstance(need, Misfit) and need.reason is Reason.VENDOR):
        return Misfit(Reason.HEALTH, detail=device.health_reason or device.health.value)
    return need if isinstance(need, Misfit) else _short(need, view)


def _short(need: Need, view: DeviceView) -> Misfit | None:
    """What a device that is right in kind lacks now."""
    sharers = view.device.sharers
    if view.alone:
        return Misfit(Reason.HELD_ALONE)
    if need.alone and view.holders:
        return Misfit(Reason.IN_USE, need.memory_mib, view.free_mib)
    if len(view.holders) >= sharers:
        return Misfit(Reason.SHARERS, len(view.holders) + 1, sharers)
    if need.profile is not None:
        fits = _cuttable(view.device, view.state, need)
        return None if fits else Misfit(Reason.PLACEMENT, detail=need.profile.name)
    return _amounts(need, view)


def _amounts(need: Need, view: DeviceView) -> Misfit | None:
    if need.memory_mib > view.free_mib:
        return Misfit(Reason.MEMORY, need.memory_mib, view.free_mib)
    if max(need.units, 1) > view.free_units:
        return Misfit(Reason.CORES, max(need.units, 1), view.free_units)
    return None


def _cuttable(device: Device, state: int, need: Need) -> bool:
    assert device.geometry is not None  # noqa: S101 - only a geometry yields a profile
    assert need.profile is not None  # noqa: S101 - asked by the caller
    return bool(cuts_of(device.geometry).starts(need.profile, state))


def place(
    request: PodRequest, node: str, views: Sequence[DeviceView], order: Order, popularity: dict[str, int] | None = None
) -> Allocation | None:
    """Return the allocation of the pod on a node with these devices, or None.

    Args:
        request: the pod.
        node: the node's name.
        views: its devices now.
        order: which devices to try first; smaller first.
        popularity: how often each geometry profile is asked for.
    """
    search = _Search(request, views, order, popularity or {})
    return search.allocation(node) if search.run() else None


def _numa(seat: _Seat) -> int:
    return -1 if seat.view.device.numa is None else seat.view.device.numa


class _Search:
    def __init__(
        self, request: PodRequest, views: Sequence[DeviceView], order: Order, popularity: dict[str, int]
    ) -> None:
        self.request = request
        self.items, phases = items_of(request)
        self.seats = [
            _Seat(view, row, [0] * phases, [0] * phases, state=view.state) for row, view in enumerate(views)
        ]  # fmt: skip
        self.order = order
        self.popularity = popularity
        self.chosen: dict[Item, tuple[_Seat, DeviceGrant]] = {}
        self.steps = 0
        self.needs = {
            (ask, seat.row): need_on(request, ask, seat.view.device)
            for ask in {item.ask for item in self.items}
            for seat in self.seats
        }
        self.open = {
            ask: [s for s in self.seats if reject(request, ask, s.view) is None] for ask in {i.ask for i in self.items}
        }

    def run(self) -> bool:
        for ask, seats in self.open.items():
            if len(seats) < ask.count and not ask.profile:
                return False
        if self.request.numa_bind:
            return any(
                self._on(numa)
                for numa in sorted({-1 if s.view.device.numa is None else s.view.device.numa for s in self.seats})
            )
        return self._next(0)

    def _on(self, numa: int) -> bool:
        everything = self.open
        self.open = {ask: [s for s in seats if _numa(s) == numa] for ask, seats in everything.items()}
        self.steps = 0
        done = self._next(0)
        self.open = everything
        return done

    def _next(self, depth: int) -> bool:
        if depth == len(self.items):
            return True
        item = self.items[depth]
        tried = set()
        for seat in self._candidates(item):
            looks = seat.looks()
            if looks in tried:
                continue
            tried.add(looks)
            self.steps += 1
            if self.steps > STEPS:
                return False
            undo = self._put(item, seat)
            if undo is None:
                continue
            if self._next(depth + 1):
                return True
            undo()
            del self.chosen[item]
        return False

    def _candidates(self, item: Item) -> list[_Seat]:
        seats = self.open[item.ask]
        mine = [seat for other, (seat, _) in self.chosen.items() if other.container == item.container]
        if item.ask.count > 1 and mine:
            near = {seat.row: sum(topology.linked(seat.view.device, m.view.device) for m in mine) for seat in seats}
            return sorted(seats, key=lambda s: (-near[s.row], *self.order(s.view), s.row))
        if item.ask.count > 1 and item.ordinal == 0:
            first = topology.together([s.view.device for s in seats], item.ask.count)
            lead = {seats[i].row for i in first}
            return sorted(seats, key=lambda s: (s.row not in lead, *self.order(s.view), s.row))
        used = {seat.row for seat, _ in self.chosen.values()}
        return sorted(seats, key=lambda s: (s.row not in used, *self.order(s.view), s.row))

    def _put(self, item: Item, seat: _Seat) -> Callable[[], None] | None:
        need = self.needs[item.ask, seat.row]
        assert isinstance(need, Need)  # noqa: S101 - open seats have a need
        if item.container in seat.containers and not item.ask.profile:
            return None
        if need.profile is not None:
            return self._cut(item, seat, need)
        return self._share(item, seat, need)

    def _share(self, item: Item, seat: _Seat, need: Need) -> Callable[[], None] | None:
        if seat.cuts:
            return None  # a chip with slices on it is not given whole
        for phase in item.phases:
            if seat.mib[phase] + need.memory_mib > seat.view.free_mib:
                return None
            if seat.units[phase] + need.units > seat.view.free_units:
                return None
        was_alone = seat.alone
        seat.alone = was_alone or need.alone
        seat.containers.append(item.container)
        for phase in item.phases:
            seat.mib[phase] += need.memory_mib
            seat.units[phase] += need.units
        self.chosen[item] = seat, grant_of(self.request, item.ask, seat.view.device, need, None)[0]

        def undo() -> None:
            seat.alone = was_alone
            seat.containers.remove(item.container)
            for phase in item.phases:
                seat.mib[phase] -= need.memory_mib
                seat.units[phase] -= need.units

        return undo

    def _cut(self, item: Item, seat: _Seat, need: Need) -> Callable[[], None] | None:
        assert need.profile is not None  # noqa: S101 - asked by the caller
        geometry = seat.view.device.geometry
        assert geometry is not None  # noqa: S101 - only a geometry yields a profile
        if any(seat.units):
            return None  # nor are slices cut from a chip that is given whole
        before, known = seat.state, len(seat.cuts)
        name = need.profile.name
        idle = (i for i, (cut, phases, _) in enumerate(seat.cuts) if cut.profile == name and not phases & item.phases)
        reused = next(idle, None)
        if reused is not None:
            cut, phases, had = seat.cuts[reused]
            seat.cuts[reused] = cut, phases | item.phases, had
        else:
            start = cuts_of(geometry).best_start(need.profile, seat.state, self.popularity)
            if start is None:
                return None
            cut, phases = Slice(name, start), frozenset()
            seat.cuts.append((cut, item.phases, need))
            seat.state = cuts_of(geometry).take(seat.state, cut)
        seat.containers.append(item.container)
        self.chosen[item] = (
            seat,
            DeviceGrant(seat.view.device.uuid, need.memory_mib, need.units, profile=cut.profile, start=cut.start),
        )

        def undo() -> None:
            seat.state = before
            if reused is not None:
                seat.cuts[reused] = cut, phases, need
            del seat.cuts[known:]
            seat.containers.remove(item.container)

        return undo

    def allocation(self, node: str) -> Allocation:
        """Return what was found, containers in the pod's order, devices in the order of their index."""
        containers = []
        for position, container in enumerate(self.request.containers):
            mine = [(s.row, i.ordinal, g) for i, (s, g) in self.chosen.items() if i.container == position]
            if mine:
                grants = tuple(grant for *_, grant in sorted(mine, key=lambda each: each[:2]))
                containers.append(ContainerGrant(container.name, grants))
        return allocation_of(self.request, node, tuple(containers), tuple(u for s in self.seats if (u := self._use(s))))

    def _use(self, seat: _Seat) -> DeviceUse | None:
        if seat.cuts:
            return DeviceUse(
                seat.view.device.uuid,
                sum(need.memory_mib for *_, need in seat.cuts),
                sum(need.units for *_, need in seat.cuts),
                alone=self.request.exclusive,
                slices=tuple(sorted(cut for cut, *_ in seat.cuts)),
            )
        if not seat.containers:
            return None
        return DeviceUse(seat.view.device.uuid, max(seat.mib), max(seat.units), alone=seat.alone)


def grant_of(
    request: PodRequest, ask: Ask, device: Device, need: Need, cut: Slice | None
) -> tuple[DeviceGrant, DeviceUse]:
    """Return what a container may use of one device, and what the books hold for it alone.

    Of a whole device whose memory nobody told, the container is told 0 MiB, which means no limit.
    """
    whole = ask.whole or (need.alone and not request.exclusive)
    shown = need.memory_mib if isinstance(device.memory_mib, int) else 0
    grant = DeviceGrant(
        device.uuid,
        shown,
        need.units,
        whole=whole and not device.profile,
        profile=cut.profile if cut else device.profile,
        start=cut.start if cut else -1,
    )
    use = DeviceUse(device.uuid, need.memory_mib, need.units, alone=need.alone, slices=(cut,) if cut else ())
    return grant, use


def allocation_of(
    request: PodRequest, node: str, containers: tuple[ContainerGrant, ...], uses: tuple[DeviceUse, ...]
) -> Allocation:
    """Return the allocation that carries the pod's identity and host resources."""
    return Allocation(
        pod=request.key, namespace=request.namespace, name=request.name, node=node, containers=containers, uses=uses,
        priority=request.priority, created_s=request.created_s, labels=tuple(sorted(request.labels.items())),
        cpu_milli=request.cpu_milli, memory_mib=request.memory_mib,
    )  # fmt: skip


def why_not(request: PodRequest, node: str, views: Sequence[DeviceView], titles: Callable[[str], str]) -> NodeRejection:
    """Return why the pod cannot be placed on a node with these devices. Call it only when ``place`` found nothing."""
    if not views:
        return NodeRejection(node, Reason.NO_DEVICE)
    for container in request.containers:
        for ask in container.asks:
            failed = [no for view in views if (no := reject(request, ask, view, titles)) is not None]
            fitting = len(views) - len(failed)
            if fitting < ask.count and (failed or not ask.profile):
                if not failed:
                    return NodeRejection(node, Reason.COUNT, ask.count, fitting)
                reason = _telling(failed)
                if len(views) < ask.count and not reason.permanent:
                    reason = Reason.COUNT
                needed, available = (ask.count, fitting) if ask.count > 1 else _nearest(failed, reason)
                return NodeRejection(node, reason, needed, available, tuple(failed))
    if request.numa_bind:
        return NodeRejection(node, Reason.NUMA)
    return NodeRejection(node, Reason.COUNT, sum(a.count for c in request.containers for a in c.asks), len(views))


def _telling(failed: Sequence[DeviceRejection]) -> Reason:
    """The reason of the device that came furthest through the rules: that one is nearest to fitting."""
    ranks = list(Reason)
    return max((no.reason for no in failed), key=ranks.index)


def _nearest(failed: Sequence[DeviceRejection], reason: Reason) -> tuple[int, int]:
    best = max((no for no in failed if no.reason is reason), key=lambda no: no.available - no.needed, default=None)
    return (best.needed, best.available) if best else (-1, -1)
