from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from terrazzo.dialects import catalogue
from terrazzo.model.allocation import Allocation
from terrazzo.model.device import Device
from terrazzo.model.node import Node
from terrazzo.model.request import Ask, ContainerRequest, LabelTest, NodeRules, Pattern, PodRequest
from terrazzo.placement import invariants
from terrazzo.placement.fleet import Fleet
from terrazzo.simulator import policies
from terrazzo.simulator.baselines import Baseline, BestFit, FirstFit, Random
from terrazzo.simulator.fgd import Fgd, Fragmentation, typical
from terrazzo.simulator.hami import Hami, with_slots

VENDORS = {"nvidia": "A100-80", "ascend": "910B3", "cambricon": "MLU370-X8", "hygon": "K100", "mthreads": "S4000"}


def node(name: str, devices: int, *, cpu: int = 64_000, model: str = "G") -> Node:
    rows = tuple(
        Device(node=name, uuid=f"{name}-{i}", vendor="nvidia", model=model, index=i, memory_mib=1000)
        for i in range(devices)
    )
    return Node(name=name, cpu_milli=cpu, memory_mib=100_000, devices=rows)


def share(percent: int, *, name: str = "p", cpu: int = 0, count: int = 1, model: str = "") -> PodRequest:
    ask = (
        Ask(count=count, whole=True)
        if percent == 100
        else Ask(count=count, memory_percent=percent, cores_percent=percent)
    )
    asks = (ask,) if percent else ()
    containers = (ContainerRequest("main", asks=asks),)
    return PodRequest(name=name, containers=containers, cpu_milli=cpu, model=Pattern.parse(model))


def submit(placer: Baseline, requests: Sequence[PodRequest]) -> list[Allocation | None]:
    found = []
    for number, request in enumerate(requests):
        named = PodRequest(
            name=f"{request.name}-{number}", containers=request.containers, cpu_milli=request.cpu_milli,
            memory_mib=request.memory_mib, model=request.model, rules=request.rules,
        )  # fmt: skip
        allocation = placer.decide(named)
        if allocation is not None:
            placer.fleet.grant(allocation)
        found.append(allocation)
    return found


def places(found: Sequence[Allocation | None]) -> list[str]:
    return ["" if a is None else "+".join(use.uuid for use in a.uses) or a.node for a in found]


def test_bestfit_takes_the_node_with_least_left_and_there_the_fullest_device() -> None:
    fleet = Fleet([node("a", 8), node("b", 2), node("c", 2)])
    found = submit(BestFit(fleet), [share(30), share(60), share(50), share(10)])
    # b is smaller than a and before c; 30+60 share its first card; 50 needs the second; 10 fills the first
    assert places(found) == ["b-0", "b-0", "b-1", "b-0"]


def test_bestfit_weighs_cpu_like_devices() -> None:
    fleet = Fleet([node("a", 2, cpu=64_000), node("b", 2, cpu=8_000)])
    assert places(submit(BestFit(fleet), [share(0, cpu=4_000), share(0, cpu=6_000)])) == ["b", "a"]


def test_bestfit_ties_go_to_the_first_node() -> None:
    fleet = Fleet([node("z", 2), node("a", 2)])
    assert places(submit(BestFit(fleet), [share(50)])) == ["z-0"]


def test_first_fit_takes_the_first_devices() -> None:
    fleet = Fleet([node("a", 2), node("b", 4)])
    found = submit(FirstFit(fleet), [share(60), share(30), share(60), share(100, count=2), share(100, count=3)])
    assert places(found) == ["a-0", "a-0", "a-1", "b-0+b-1", ""]


def test_random_depends_on_its_generator_only_and_reaches_everything() -> None:
    def run(seed: int) -> list[str]:
        fleet = Fleet([node("a", 2), node("b", 2)])
        return places(submit(Random(fleet, np.random.default_rng(seed)), [share(100)] * 5))

    assert run(3) == run(3)
    assert {run(seed)[0] for seed in range(40)} == {"a-0", "a-1", "b-0", "b-1"}
    assert all(sorted(run(seed)) == ["", "a-0", "a-1", "b-0", "b-1"] for seed in range(5))


@pytest.mark.parametrize("name", sorted(policies.APPROACHES))
def test_every_policy_keeps_within_devices_and_obeys_rules(name: str) -> None:
    way = policies.approach(name)
    nodes = [node("a", 4, model="G"), node("b", 4, model="H", cpu=3_000)]
    requests = [share(p, cpu=1_000, model=m) for p in (30, 70, 100, 50, 0) for m in ("", "H")] * 3
    rewrite = way.rewrite(nodes)
    fleet = Fleet(way.fleet(nodes, [rewrite(each) for each in requests]))
    placer = way.placer(fleet, [rewrite(each) for each in requests], np.random.default_rng(1))
    placed = 0
    for number, request in enumerate(requests):
        named = PodRequest(
            name=f"p{number}", containers=request.containers, cpu_milli=request.cpu_milli, model=request.model
        )
        placer.learn(rewrite(named))
        found = placer.decide(rewrite(named))
        if found is not None:
            fleet.grant(found)  # raises where a device would be exceeded
            placed += 1
            assert not request.model.include or found.node == "b" or not found.uses
    assert placed
    invariants.check_fleet(fleet)
    assert (fleet.cpu_milli[:2] >= 0).all()


def test_a_pod_with_rules_about_nodes_goes_where_they_hold() -> None:
    labelled = Node(name="b", labels={"zone": "x"}, devices=node("b", 2).devices)
    fleet = Fleet([node("a", 1), labelled])
    request = share(50)
    ruled = PodRequest(
        name="r", containers=request.containers, rules=NodeRules(terms=((LabelTest("zone", "In", ("x",)),),))
    )
    for placer in (BestFit(fleet), FirstFit(fleet), Hami(fleet), Random(fleet, np.random.default_rng(0))):
        found = placer.decide(ruled)
        assert found is not None
        assert found.node == "b"


def test_pods_of_two_containers_are_placed_whole_or_not() -> None:
    fleet = Fleet([node("a", 2)])
    two = PodRequest(
        name="two",
        containers=(
            ContainerRequest("x", asks=(Ask(memory_percent=60, cores_percent=60),)),
            ContainerRequest("y", asks=(Ask(memory_percent=60, cores_percent=60),)),
        ),
    )
    for placer in (BestFit(fleet), Hami(fleet)):
        found = placer.decide(two)
        assert found is not None
        assert sorted(use.uuid for use in found.uses) == ["a-0", "a-1"]
    held = BestFit(fleet).decide(two)
    assert held is not None
    fleet.grant(held)
    assert BestFit(fleet).decide(PodRequest(name="again", containers=two.containers)) is None


# -- fragmentation ------------------------------------------------------------------------------------------------


def test_fragmentation_by_hand() -> None:
    fleet = Fleet([node("a", 2, cpu=10_000)])
    mix = typical([share(50, cpu=1_000)] * 2 + [share(100, cpu=1_000)] + [share(0, cpu=1_000)])
    lost = Fragmentation(mix, fleet)
    kind = fleet.kind[[0], 0]
    # 700 and 1000 left: halves can use all, a whole pod only the free card, a pod without devices nothing
    value = lost(np.array([[700, 1000]]), np.array([10_000]), kind)[0]
    assert value == pytest.approx(0.5 * 0 + 0.25 * 700 + 0.25 * 1700)
    # 400 left: nobody but a smaller pod could use it
    assert lost(np.array([[400, 0]]), np.array([10_000]), kind)[0] == pytest.approx(400)
    # no CPU: all is lost for everyone
    assert lost(np.array([[700, 1000]]), np.array([500]), kind)[0] == pytest.approx(1700)


def test_typical_keeps_the_popular_and_adds_up_to_one() -> None:
    mix = typical([share(50)] * 96 + [share(20)] * 3 + [share(30)])
    assert [round(part, 3) for _, part in mix] == [1.0]
    mix = typical([share(50)] * 50 + [share(20)] * 50)
    assert [kind.ask.cores_percent for kind, _ in mix if kind.ask] == [50, 20]


def test_fgd_completes_a_card_rather_than_open_another() -> None:
    fleet = Fleet([node("a", 2), node("b", 2)])
    mix = [share(50)] * 4 + [share(100)] * 4
    found = submit(Fgd(fleet, mix), [share(50), share(100), share(50), share(100), share(100)])
    first, second, third = (set(each.split("-")) for each in places(found)[:3])
    assert first == third
    assert second != first
    assert places(found)[-1] != ""


def test_fgd_leaves_a_card_whose_model_others_need() -> None:
    fleet = Fleet([node("a", 1, model="H"), node("b", 1, model="G")])
    mix = [share(100, model="H")] * 9 + [share(100)] * 1
    assert places(submit(Fgd(fleet, mix), [share(100)])) == ["b-0"]


# -- HAMi ---------------------------------------------------------------------------------------------------------


def test_hami_takes_the_fullest_node_before_and_the_emptiest_device() -> None:
    fleet = Fleet([with_slots(node("a", 2)), with_slots(node("b", 2))])
    found = submit(Hami(fleet), [share(20), share(20), share(20), share(90)])
    assert places(found) == ["a-0", "a-1", "a-0", "b-0"]


def test_hami_has_ten_slots() -> None:
    fleet = Fleet([with_slots(node("a", 1))])
    found = submit(Hami(fleet), [share(1)] * 11)
    assert sum(each is not None for each in found) == 10


@pytest.mark.parametrize(("vendor", "model"), VENDORS.items())
def test_baselines_serve_every_vendor(vendor: str, model: str) -> None:
    devices = tuple(catalogue.device(vendor, model, node="n", uuid=f"d{i}", index=i) for i in range(2))
    ask = Ask(memory_mib=4096, cores_percent=20, vendors=(vendor,))
    request = PodRequest(name="p", containers=(ContainerRequest("main", asks=(ask,)),))
    for name in ("bestfit", "fgd", "hami", "first-fit", "random"):
        way = policies.approach(name)
        fleet = Fleet([way.nodes(Node(name="n", devices=devices))])
        placer = way.placer(fleet, [request], np.random.default_rng(0))
        counts = []
        for number in range(40):
            found = placer.decide(PodRequest(name=f"p{number}", containers=request.containers))
            if found is None:
                break
            fleet.grant(found)
            counts.append(number)
        assert len(counts) >= 2, name
        assert all(later > sooner for sooner, later in pairwise(counts))
