"""Every change that an explanation names is true when tried; victims are minimal; the fleet stays as it was."""

from __future__ import annotations

from contextlib import suppress

import msgspec
from hypothesis import event, given, settings
from hypothesis import strategies as st

from terrazzo.model.allocation import Allocation
from terrazzo.model.errors import LedgerError
from terrazzo.model.node import Node
from terrazzo.model.quantity import memory_mib
from terrazzo.model.request import Ask, PodRequest
from terrazzo.placement.changes import Moved, Smaller
from terrazzo.placement.engine import Engine
from terrazzo.placement.explain import explain, verify
from terrazzo.placement.fleet import Fleet
from terrazzo.placement.gang import place_gang
from terrazzo.placement.invariants import check_fleet
from terrazzo.placement.preempt import Budget, cheapest_victims
from terrazzo.testing import strategies as make
from terrazzo.testing.builders import CUT, SHARED, make_node, make_request

CORES = st.sampled_from((0, 0, 30, 60))


class Full:
    """A fleet in which some pods run, and one that may not fit."""

    def __init__(self, nodes: list[Node], pods: list[PodRequest], asked: PodRequest) -> None:
        self.fleet = Fleet(nodes)
        self.engine = Engine(self.fleet)
        self.running: dict[str, PodRequest] = {}
        self.asked = asked
        for pod in pods:
            found = self.engine.decide(pod)
            if found is not None:
                self.fleet.grant(found)
                self.running[pod.key] = pod

    def picture(self) -> tuple[object, ...]:
        views = {node.name: self.fleet.devices(node.name) for node in self.fleet.nodes()}
        return views, self.fleet.hosts[:4].tolist(), self.fleet.idle.tolist()


@st.composite
def full(draw: st.DrawFn) -> Full:
    nodes = [draw(make.nodes(f"node-{i}")) for i in range(draw(st.integers(1, 3)))]
    pods = [draw(make.requests(f"pod-{i}", containers=1)) for i in range(draw(st.integers(1, 8)))]
    owners = [msgspec.structs.replace(pod, owner=f"Job/{i % 3}") for i, pod in enumerate(pods)]
    asked = msgspec.structs.replace(draw(make.requests("asked", containers=2)), priority=2)
    return Full(nodes, owners, asked)


@given(full())
@settings(max_examples=60)
def test_every_change_is_true(case: Full) -> None:
    before = case.picture()
    found = explain(case.engine, case.asked, most=20, requests=case.running)
    assert case.picture() == before
    assert found.fits == case.engine.fits(case.asked)
    if not found.fits:
        assert {no.node for no in found.rejections} == {node.name for node in case.fleet.nodes()}
    assert len(set(map(repr, found.changes))) == len(found.changes)
    for change in found.changes:
        assert change.describe()
        assert verify(case.engine, case.asked, change), change
        if isinstance(change, Smaller) and change.field == "memory_mib":
            written = msgspec.structs.replace(change, value=memory_mib(change.describe().split()[0]))
            assert verify(case.engine, case.asked, written), "what is shown must fit when it is written"
        if isinstance(change, Moved):
            assert {move.before.pod for move in change.plan.moves} <= set(case.running)
    assert case.picture() == before
    check_fleet(case.fleet)


@st.composite
def crowded(draw: st.DrawFn) -> Full:
    """A pod of one ask that is too much for what some pods left of small nodes of one kind."""
    kind = draw(st.sampled_from([*SHARED, *CUT]))
    nodes = [make_node(f"node-{i}", kind, draw(st.integers(1, 2))) for i in range(draw(st.integers(1, 2)))]
    share = st.builds(Ask, memory_percent=st.integers(1, 60), cores_percent=CORES)
    pods = [make_request(f"pod-{i}", ask) for i, ask in enumerate(draw(st.lists(share, min_size=1, max_size=6)))]
    most = max(d.memory_mib for d in nodes[0].devices if isinstance(d.memory_mib, int))
    ask = draw(
        st.one_of(
            st.builds(Ask, count=st.integers(1, 4), memory_mib=st.integers(most * 2 // 3, most), cores_percent=CORES),
            st.builds(Ask, count=st.integers(1, 4), memory_percent=st.integers(70, 100), cores_percent=CORES),
            st.builds(Ask, count=st.integers(1, 4), whole=st.just(value=True)),
        )
    )
    return Full(nodes, pods, make_request("asked", ask))


@given(crowded())
@settings(max_examples=120)
def test_smaller_is_the_most_that_fits(case: Full) -> None:
    before = case.picture()
    found = explain(case.engine, case.asked, most=20)
    assert found.fits == any(
        isinstance(case.engine.place_on(case.asked, n.name), Allocation) for n in case.fleet.nodes()
    )
    [ask] = case.asked.containers[0].asks
    told = {change.field: change for change in found.changes if isinstance(change, Smaller)}
    for field, change in told.items():
        event(field)
        assert verify(case.engine, case.asked, change)
        assert not verify(case.engine, case.asked, msgspec.structs.replace(change, value=change.value + 1))
        assert change.nodes == case.engine.count(change.apply(case.asked)) > 0
    fields = ("share_mib",) if ask.whole and ask.count == 1 else _fields(ask)
    for field in () if found.fits else fields:
        # What is not named would not help: not even the least of it.
        least = Smaller(field, 0 if field == "cores_percent" else 1)
        assert field in told or not verify(case.engine, case.asked, least)
    assert case.picture() == before


def _fields(ask: Ask) -> tuple[str, ...]:
    memory = () if ask.whole else ("memory_mib" if ask.memory_mib else "memory_percent",)
    cores = ("cores_percent",) if ask.cores_percent else ()
    return (*memory, *cores, *(("count",) if ask.count > 1 else ()))


@given(full(), st.integers(0, 2))
@settings(max_examples=60)
def test_victims_are_needed_lower_and_enough(case: Full, allowed: int) -> None:
    before = case.picture()
    victims = cheapest_victims(case.engine, case.asked, (Budget("default", (), allowed),))
    assert case.picture() == before
    if victims is None:
        return
    assert all(each.priority < case.asked.priority for each in victims.pods)
    assert victims.violations == max(0, len(victims.pods) - allowed)
    keys = [each.pod for each in victims.pods]
    with case.fleet.without(keys):
        assert isinstance(case.engine.place_on(case.asked, victims.node), Allocation)
    for spared in keys:
        with case.fleet.without([key for key in keys if key != spared]):
            assert not isinstance(case.engine.place_on(case.asked, victims.node), Allocation)


@given(full())
def test_a_gang_is_placed_whole_or_not_at_all(case: Full) -> None:
    before = case.picture()
    gang = [msgspec.structs.replace(case.asked, name=f"member-{i}", uid=f"member-{i}") for i in range(3)]
    found = place_gang(case.engine, gang)
    assert case.picture() == before
    if found is not None:
        assert [each.pod for each in found] == [each.key for each in gang]
        for each in found:
            case.fleet.grant(each)
        check_fleet(case.fleet)


@given(full())
def test_without_gives_back_exactly_even_when_the_block_fails(case: Full) -> None:
    before = case.picture()
    with suppress(LedgerError), case.fleet.without(list(case.running)):
        case.fleet.grant(Allocation(pod="x", namespace="", name="x", node="nowhere"))
    assert case.picture() == before
