"""The engine against the plainest program that could decide the same."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from terrazzo.model.allocation import Allocation
from terrazzo.model.device import Health
from terrazzo.model.node import Node
from terrazzo.model.reason import NodeRejection
from terrazzo.model.request import Ask, ContainerKind, PodRequest
from terrazzo.placement.demand import Misfit, Need, need_on
from terrazzo.placement.engine import Engine
from terrazzo.placement.fleet import Fleet
from terrazzo.placement.geometry import cuts_of
from terrazzo.placement.invariants import check_fleet
from terrazzo.placement.reasons import NodeReasons
from terrazzo.placement.seat import DeviceView
from terrazzo.testing import strategies as make

Story = tuple[list[Node], list[PodRequest], PodRequest]


def oracle_fits(fleet: Fleet, request: PodRequest, node: str) -> bool:
    """Try every way to put every container's devices; no pruning, no order, no cleverness."""
    known = fleet.node(node)
    column = fleet.column(node)
    if known is None or column is None or not known.ready:
        return False
    cpu, memory = int(fleet.cpu_milli[column]), int(fleet.memory_mib[column])
    if request.cpu_milli > cpu or request.memory_mib > memory or int(fleet.pods[column]) < 1:
        return False
    views = fleet.devices(node)
    items = [
        (position, ask, ordinal)
        for position, container in enumerate(request.containers)
        for ask in container.asks
        for ordinal in range(ask.count)
    ]
    return any(_allowed(request, views, items, seats) for seats in product(range(len(views)), repeat=len(items)))


def _phases(request: PodRequest) -> list[list[int]]:
    inits = [i for i, c in enumerate(request.containers) if c.kind is ContainerKind.INIT]
    sidecars = [i for i, c in enumerate(request.containers) if c.kind is ContainerKind.SIDECAR]
    apps = [i for i, c in enumerate(request.containers) if c.kind is ContainerKind.APP]
    return [[i, *(s for s in sidecars if s < i)] for i in inits] + [apps + sidecars]


def _allowed(
    request: PodRequest, views: Sequence[DeviceView], items: Sequence[tuple[int, Ask, int]], seats: Sequence[int]
) -> bool:
    seen = set()
    for (position, ask, _), seat in zip(items, seats, strict=True):
        if not ask.profile and (position, seat) in seen:
            return False
        seen.add((position, seat))
    for seat, view in enumerate(views):
        mine = [(position, ask) for (position, ask, _), s in zip(items, seats, strict=True) if s == seat]
        if mine and not _bears(request, view, mine):
            return False
    return True


def _bears(request: PodRequest, view: DeviceView, mine: Sequence[tuple[int, Ask]]) -> bool:
    device = view.device
    if device.health is not Health.HEALTHY or view.alone or len(view.holders) >= device.sharers:
        return False
    needs = []
    for position, ask in mine:
        need = need_on(request, ask, device)
        if isinstance(need, Misfit) or (need.alone and view.holders):
            return False
        needs.append((position, need))
    cut = [need.profile is not None for _, need in needs]
    if any(cut) and not all(cut):
        return False
    if any(cut):
        return _cuts(request, view, needs)
    if not view.free_units:
        return False
    return all(
        sum(n.memory_mib for p, n in needs if p in phase) <= view.free_mib
        and sum(n.units for p, n in needs if p in phase) <= view.free_units
        for phase in _phases(request)
    )


def _cuts(request: PodRequest, view: DeviceView, needs: Sequence[tuple[int, Need]]) -> bool:
    """Slices of containers that never run together may be the same slice."""
    phases = _phases(request)
    groups: list[tuple[str, set[int]]] = []
    for position, need in needs:
        assert need.profile is not None
        mine = {i for i, phase in enumerate(phases) if position in phase}
        for name, taken in groups:
            if name == need.profile.name and not taken & mine:
                taken.update(mine)
                break
        else:
            groups.append((need.profile.name, set(mine)))
    assert view.device.geometry is not None
    cuts = cuts_of(view.device.geometry)

    def fit(state: int, left: list[str]) -> bool:
        if not left:
            return True
        profile = cuts.profile(left[0])
        assert profile is not None
        block = (1 << profile.size) - 1
        starts = cuts.starts(profile, state)
        return any(
            fit(state | block << start if cuts.positional else state + profile.size, left[1:]) for start in starts
        )

    return fit(view.state, [name for name, _ in groups])


@st.composite
def stories(draw: st.DrawFn) -> Story:
    nodes = [draw(make.nodes(f"node-{i}")) for i in range(draw(st.integers(1, 3)))]
    before = [draw(make.requests(f"pod-{i}", containers=2)) for i in range(draw(st.integers(0, 5)))]
    return nodes, before, draw(make.requests("asked", containers=2))


@given(stories())
@settings(max_examples=120)
def test_fit_is_what_trying_everything_says(story: Story) -> None:
    nodes, before, asked = story
    fleet = Fleet(nodes)
    engine = Engine(fleet)
    for request in before:
        engine.learn(request)
        found = engine.decide(request)
        if found is not None:
            fleet.grant(found)
        check_fleet(fleet)
    sums = [sum(ask.count for c in asked.containers for ask in c.asks)]
    if max(sums) > 5:
        return
    expected = {node.name: oracle_fits(fleet, asked, node.name) for node in nodes}
    actual = {node.name: isinstance(engine.place_on(asked, node.name), Allocation) for node in nodes}
    cut = any(view.device.geometry is not None for node in nodes for view in fleet.devices(node.name))
    if cut and len([a for c in asked.containers for a in c.asks]) > 1:
        # Where a start is chosen greedily a free placement may be missed; an impossible one must never be found.
        assert all(expected[name] for name, yes in actual.items() if yes)
    else:
        assert actual == expected
    decided = engine.decide(asked)
    assert (decided is not None) == any(actual.values())
    if decided is not None:
        fleet.grant(decided)
        check_fleet(fleet)
    else:
        assert {no.node for no in engine.why(asked)} == {node.name for node in nodes}


@given(stories())
def test_reasons_on_columns_are_those_of_the_exact_search(story: Story) -> None:
    nodes, before, asked = story
    fleet = Fleet(nodes)
    engine = Engine(fleet)
    told = NodeReasons(engine)
    for request in before:
        assert told.of(request) == {no.node: no.reason for no in engine.why(request)}
        found = engine.decide(request)
        if found is not None:
            fleet.grant(found)
    fleet.drop_node(nodes[0].name)
    assert told.of(asked) == {no.node: no.reason for no in engine.why(asked)}


@given(stories())
def test_grant_and_release_are_inverse(story: Story) -> None:
    nodes, before, asked = story
    fleet = Fleet(nodes)
    engine = Engine(fleet)
    for request in before:
        found = engine.decide(request)
        if found is not None:
            fleet.grant(found)
    found = engine.decide(asked)
    if found is None:
        return
    grid, hosts, idle = fleet.grid.copy(), fleet.hosts[:4].copy(), fleet.idle.copy()
    fleet.grant(found)
    fleet.release(found.pod)
    assert (fleet.grid == grid).all()
    assert (fleet.hosts[:4] == hosts).all()
    assert (fleet.idle == idle).all()


@given(stories())
def test_a_kept_row_equals_a_fresh_one(story: Story) -> None:
    nodes, before, asked = story
    fleet = Fleet(nodes)
    kept = Engine(fleet)
    for request in before:
        kept.decide(asked)
        found = kept.decide(request)
        if found is not None:
            fleet.grant(found)
    assert kept.decide(asked) == Engine(fleet).decide(asked)
    assert kept.rank(asked, 10) == Engine(fleet).rank(asked, 10)


@given(stories())
def test_ranks_are_distinct_and_feasible(story: Story) -> None:
    nodes, before, asked = story
    fleet = Fleet(nodes)
    engine = Engine(fleet)
    for request in before:
        found = engine.decide(request)
        if found is not None:
            fleet.grant(found)
    ranked = engine.rank(asked, 10)
    assert len({each.rank for each in ranked}) == len(ranked)
    assert all(not isinstance(engine.place_on(asked, each.node), NodeRejection) for each in ranked)
    assert engine.count(asked) == len(ranked)
