"""Who would have to end: lower priority, needed, cheapest; budgets count; nothing is changed."""

from __future__ import annotations

import pytest

from terrazzo.model.allocation import Allocation
from terrazzo.model.node import Node
from terrazzo.model.request import NodeRules, PodRequest
from terrazzo.placement.engine import Engine
from terrazzo.placement.fleet import Fleet
from terrazzo.placement.preempt import Budget, Victims, cheapest_victims
from terrazzo.testing.builders import CUT, SHARED, Kind, fraction, make_node, make_request, whole

KINDS = pytest.mark.parametrize("kind", SHARED, ids=str)


def engine_with(*nodes: Node) -> Engine:
    return Engine(Fleet(nodes))


def run(engine: Engine, request: PodRequest, *, on: str = "") -> Allocation:
    found = engine.decide(request, among=[on] if on else None)
    assert found is not None
    engine.fleet.grant(found)
    return found


def titles(victims: Victims | None) -> list[str]:
    assert victims is not None
    return sorted(each.title.removeprefix("default/") for each in victims.pods)


def picture(fleet: Fleet) -> tuple[object, ...]:
    return (
        [fleet.devices(node.name) for node in fleet.nodes()],
        [fleet.allocations_on(node.name) for node in fleet.nodes()],
        fleet.hosts[:4].tolist(),
        fleet.grid.tolist(),
        fleet.idle.tolist(),
    )


@KINDS
def test_the_one_lower_pod_goes_and_the_place_is_had(kind: Kind) -> None:
    engine = engine_with(make_node(kind=kind, devices=2))
    run(engine, make_request("low", whole(), priority=1))
    run(engine, make_request("high", whole(), priority=9))
    asked = make_request("asked", whole(), priority=5)
    before = picture(engine.fleet)
    found = cheapest_victims(engine, asked)
    assert picture(engine.fleet) == before
    assert found is not None
    assert titles(found) == ["low"]
    engine.fleet.release("uid-low")
    engine.fleet.grant(found.allocation)


@KINDS
@pytest.mark.parametrize("priority", [-5, 0, 5])
def test_equals_and_betters_are_no_victims(kind: Kind, priority: int) -> None:
    engine = engine_with(make_node(kind=kind, devices=2))
    run(engine, make_request("equal", whole(), priority=priority))
    run(engine, make_request("better", whole(), priority=priority + 1))
    assert cheapest_victims(engine, make_request("asked", whole(), priority=priority)) is None


@KINDS
def test_who_fits_needs_no_victim(kind: Kind) -> None:
    engine = engine_with(make_node(kind=kind, devices=2))
    run(engine, make_request("low", whole()))
    assert cheapest_victims(engine, make_request("asked", whole(), priority=9)) is None


@KINDS
def test_nobody_ends_for_what_no_end_would_mend(kind: Kind) -> None:
    engine = engine_with(make_node(kind=kind, devices=1))
    run(engine, make_request("low", whole()))
    assert cheapest_victims(engine, make_request("asked", whole(2), priority=9)) is None
    barred = make_request("barred", whole(), priority=9, rules=NodeRules(selector={"zone": "other"}))
    assert cheapest_victims(engine, barred) is None


@pytest.mark.parametrize(("ready", "cordoned"), [(False, False), (True, True)])
def test_nobody_ends_on_a_node_that_takes_no_pods(ready: bool, cordoned: bool) -> None:
    engine = engine_with(make_node(devices=1))
    run(engine, make_request("low", whole()))
    engine.fleet.put_node(make_node(devices=1, ready=ready, unschedulable=cordoned))
    assert cheapest_victims(engine, make_request("asked", whole(), priority=9)) is None


@KINDS
def test_the_lower_of_two_goes_wherever_it_is(kind: Kind) -> None:
    engine = engine_with(make_node("a", kind, 1), make_node("b", kind, 1))
    run(engine, make_request("three", whole(), priority=3), on="a")
    run(engine, make_request("two", whole(), priority=2), on="b")
    assert titles(cheapest_victims(engine, make_request("asked", whole(), priority=9))) == ["two"]


def test_of_equals_the_youngest_goes() -> None:
    engine = engine_with(make_node(devices=3))
    for name, born in (("old", 10), ("young", 30), ("middle", 20)):
        run(engine, make_request(name, whole(), created_s=born))
    assert titles(cheapest_victims(engine, make_request("asked", whole(), priority=9))) == ["young"]


def test_one_goes_rather_than_two() -> None:
    engine = engine_with(make_node("a", devices=1), make_node("b", devices=1))
    for name in ("half-1", "half-2"):
        run(engine, make_request(name, fraction(30_000, 40)), on="a")
    run(engine, make_request("one", whole()), on="b")
    assert titles(cheapest_victims(engine, make_request("asked", whole(), priority=9))) == ["one"]


def test_two_low_ones_go_rather_than_a_higher_one() -> None:
    engine = engine_with(make_node("a", devices=1), make_node("b", devices=1))
    for name in ("half-1", "half-2"):
        run(engine, make_request(name, fraction(30_000, 40), priority=1), on="a")
    run(engine, make_request("one", whole(), priority=2), on="b")
    found = cheapest_victims(engine, make_request("asked", whole(), priority=9))
    assert titles(found) == ["half-1", "half-2"]


def test_a_budget_keeps_the_lowest_pod_where_another_will_do() -> None:
    engine = engine_with(make_node(devices=2))
    run(engine, make_request("guarded", whole(), labels={"app": "db", "tier": "1"}))
    run(engine, make_request("other", whole(), priority=3))
    asked = make_request("asked", whole(), priority=9)
    guards = Budget("default", (("app", "db"),), 0)
    assert titles(cheapest_victims(engine, asked)) == ["guarded"]
    found = cheapest_victims(engine, asked, (guards,))
    assert titles(found) == ["other"]
    assert found is not None
    assert found.violations == 0
    for idle in (
        Budget("default", (("app", "db"),), 1),
        Budget("elsewhere", (("app", "db"),), 0),
        Budget("default", (("app", "web"),), 0),
    ):
        assert titles(cheapest_victims(engine, asked, (idle,))) == ["guarded"]


def test_a_budget_that_must_break_is_told() -> None:
    engine = engine_with(make_node(devices=2))
    for name in ("a", "b"):
        run(engine, make_request(name, whole()))
    budget = Budget("default", (), 1)
    found = cheapest_victims(engine, make_request("asked", whole(2), priority=9), (budget,))
    assert found is not None
    assert (len(found.pods), found.violations) == (2, 1)


def test_room_on_the_host_counts_too() -> None:
    engine = engine_with(make_node(devices=2, cpu_milli=4000))
    run(engine, make_request("hungry", cpu_milli=3000))
    run(engine, make_request("modest", fraction(1024), cpu_milli=500))
    asked = make_request("asked", fraction(1024), cpu_milli=2000, priority=1)
    assert titles(cheapest_victims(engine, asked)) == ["hungry"]


@pytest.mark.parametrize("kind", CUT, ids=str)
def test_slices_make_room_for_larger_ones(kind: Kind) -> None:
    engine = engine_with(make_node(kind=kind, devices=1))
    largest = {"nvidia": 4 * 10 * 1024, "ascend": 60 * 1024}[kind.vendor]
    small = 0
    while (found := engine.decide(make_request(f"small-{small}", fraction(8 * 1024)))) is not None:
        engine.fleet.grant(found)
        small += 1
    assert small > 1
    asked = make_request("asked", fraction(largest // 2), priority=9)
    victims = cheapest_victims(engine, asked)
    assert victims is not None
    assert 0 < len(victims.pods) < small
    for each in victims.pods:
        engine.fleet.release(each.pod)
    engine.fleet.grant(victims.allocation)


def test_only_the_nodes_named_are_looked_at() -> None:
    engine = engine_with(make_node("a", devices=1), make_node("b", devices=1))
    run(engine, make_request("on-a", whole(), priority=1), on="a")
    run(engine, make_request("on-b", whole(), priority=2), on="b")
    asked = make_request("asked", whole(), priority=9)
    assert titles(cheapest_victims(engine, asked, among=["b"])) == ["on-b"]
    assert cheapest_victims(engine, asked, among=["c"]) is None


def test_more_pods_than_pairs_are_tried_for_are_still_needed_each() -> None:
    engine = engine_with(make_node(devices=1))
    for index in range(40):
        run(engine, make_request(f"small-{index}", fraction(2000), priority=index % 3))
    asked = make_request("asked", fraction(20_000), priority=9)
    found = cheapest_victims(engine, asked)
    assert found is not None
    assert {each.priority for each in found.pods} == {0}
    keys = [each.pod for each in found.pods]
    for spared in keys:
        with engine.fleet.without([key for key in keys if key != spared]):
            assert not engine.fits(asked)


def test_the_fleet_is_the_same_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_with(make_node(devices=2))
    for name in ("a", "b"):
        run(engine, make_request(name, whole()))
    before = picture(engine.fleet)

    def fails(*_: object) -> None:
        raise RuntimeError("in the midst of it")

    monkeypatch.setattr(engine, "try_on", fails)
    with pytest.raises(RuntimeError):
        cheapest_victims(engine, make_request("asked", whole(), priority=9))
    assert picture(engine.fleet) == before


@KINDS
def test_who_leaves_already_is_no_victim_and_may_be_enough(kind: Kind) -> None:
    engine = engine_with(make_node("a", kind, 1), make_node("b", kind, 1))
    run(engine, make_request("stays", whole(), priority=1), on="a")
    run(engine, make_request("leaves", whole(), priority=9), on="b")
    asked = make_request("asked", whole(), priority=5)
    before = picture(engine.fleet)
    assert titles(cheapest_victims(engine, asked)) == ["stays"]
    found = cheapest_victims(engine, asked, leaving={"uid-leaves"})
    assert found is not None
    assert (found.node, found.pods, found.violations) == ("b", (), 0)
    assert picture(engine.fleet) == before


def test_victims_are_chosen_beside_who_leaves_already() -> None:
    engine = engine_with(make_node(devices=3))
    for name, priority in (("leaves", 0), ("low", 1), ("dear", 4)):
        run(engine, make_request(name, whole(), priority=priority))
    asked = make_request("asked", whole(2), priority=5)
    assert titles(cheapest_victims(engine, asked)) == ["leaves", "low"]
    assert titles(cheapest_victims(engine, asked, leaving=["uid-leaves"])) == ["low"]
    assert cheapest_victims(engine, make_request("big", whole(3), priority=2), leaving=["uid-leaves"]) is None
