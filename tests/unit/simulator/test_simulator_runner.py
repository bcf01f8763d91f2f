from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from terrazzo.dialects import catalogue
from terrazzo.model.device import Device
from terrazzo.model.errors import InputError
from terrazzo.model.node import Node
from terrazzo.model.request import Ask, ContainerRequest, PodRequest
from terrazzo.placement import invariants
from terrazzo.placement.fleet import Fleet
from terrazzo.simulator import Arrival, SimulationSpec, policies, report, simulate
from terrazzo.simulator.clock import Clock
from terrazzo.simulator.generator import JobClass, Lognormal, generate
from terrazzo.simulator.runner import _Run
from terrazzo.simulator.waiting import Waiting


def card(name: str, devices: int = 1, memory_mib: int = 1000) -> Node:
    rows = tuple(
        Device(node=name, uuid=f"{name}-{i}", vendor="nvidia", model="G", index=i, memory_mib=memory_mib)
        for i in range(devices)
    )
    return Node(name=name, cpu_milli=64_000, memory_mib=100_000, devices=rows)


def pod(name: str, percent: int, *, priority: int = 0, cpu: int = 0) -> PodRequest:
    ask = Ask(whole=True) if percent == 100 else Ask(memory_percent=percent, cores_percent=percent)
    containers = (ContainerRequest("main", asks=(ask,)),)
    return PodRequest(name=name, containers=containers, priority=priority, cpu_milli=cpu)


def at(seconds: float, request: PodRequest, lasts: float | None = 10.0, kind: str = "") -> Arrival:
    return Arrival(request, seconds, lasts, kind)


def spec(*arrivals: Arrival, nodes: tuple[Node, ...] = (card("a"),), **more: object) -> SimulationSpec:
    return SimulationSpec(name="t", nodes=nodes, arrivals=arrivals, **more)  # type: ignore[arg-type]


# -- clock --------------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(0, 1e6), max_size=40))
@settings(max_examples=50, deadline=None)
def test_the_clock_takes_events_in_order_and_equal_ones_as_planned(times: list[float]) -> None:
    clock: Clock[int] = Clock()
    for number, time in enumerate(times):
        clock.plan(time, number)
    taken = []
    while clock.next_s() is not None:
        number = clock.take()
        taken.append((clock.now_s, number))
    assert taken == sorted((time, number) for number, time in enumerate(times))


def test_the_clock_never_goes_back() -> None:
    clock: Clock[str] = Clock()
    clock.plan(5, "a")
    assert clock.take() == "a"
    clock.plan(1, "late")
    assert clock.take() == "late"
    assert clock.now_s == 5
    with pytest.raises(IndexError):
        clock.take()


# -- what happens -------------------------------------------------------------------------------------------------


def test_who_does_not_fit_waits_and_starts_when_room_comes() -> None:
    found = simulate(spec(at(0, pod("first", 100)), at(2, pod("second", 100), 5)))
    assert (found.placed, found.finished, found.waiting, found.rejected) == (2, 2, 0, 0)
    assert found.waits.longest_s == 8  # from 2 to 10
    assert found.waits.mean_s == 4
    assert found.ends_s == 15
    assert found.mean.memory_granted == 1.0


def test_without_a_queue_it_is_rejected() -> None:
    found = simulate(spec(at(0, pod("first", 100)), at(2, pod("second", 100)), may_wait=False))
    assert (found.placed, found.rejected, found.waiting) == (1, 1, 0)


def test_what_never_fits_is_rejected_not_queued() -> None:
    found = simulate(spec(at(0, pod("giant", 50, cpu=65_000)), at(1, pod("fine", 50))))
    assert (found.placed, found.rejected, found.waiting) == (1, 1, 0)
    assert found.waits.longest_s == 0


def test_the_queue_is_by_priority_then_age() -> None:
    run = _Run(
        spec(
            at(0, pod("runs", 100), 10),
            at(1, pod("old", 60), 10),
            at(2, pod("young", 60), 10),
            at(3, pod("urgent", 60, priority=5), 10),
        )
    )
    run.run(None)
    started = sorted(run.fates.placed_s, key=run.fates.placed_s.__getitem__)
    assert [run.keys[number] for number in started] == [
        "default/runs",
        "default/urgent",
        "default/old",
        "default/young",
    ]


def test_who_fits_goes_past_an_older_one_that_does_not() -> None:
    run = _Run(
        spec(
            at(0, pod("half", 50), 100),
            at(0, pod("other", 50), 10),
            at(1, pod("whole", 100), 10),
            at(2, pod("small", 30), 10),
        )
    )
    run.run(None)
    assert run.fates.placed_s == {0: 0, 1: 0, 3: 10, 2: 100}


def test_several_start_from_one_release() -> None:
    small = [at(1 + i, pod(f"s{i}", 25), 10) for i in range(6)]
    run = _Run(spec(at(0, pod("big", 100), 20), *small))
    run.run(None)
    assert [run.fates.placed_s[i] for i in range(1, 7)] == [20, 20, 20, 20, 30, 30]


def test_until_cuts_the_run_and_those_still_waiting_count_with_their_wait() -> None:
    found = simulate(spec(at(0, pod("first", 100), None), at(10, pod("second", 100)), until_s=50, samples=5))
    assert (found.placed, found.waiting, found.finished) == (1, 1, 0)
    assert found.waits.longest_s == 40
    assert found.ends_s == 50
    assert [point.at_s for point in found.series] == [10, 20, 30, 40, 50]
    assert [point.waiting for point in found.series] == [1, 1, 1, 1, 1]


def test_means_are_over_time_after_the_warm_up() -> None:
    arrivals = (at(0, pod("half", 50), 10), at(20, pod("other", 25), 20))
    found = simulate(spec(*arrivals, until_s=40))
    assert found.mean.memory_granted == pytest.approx((10 * 0.5 + 20 * 0.25) / 40)
    assert found.mean.devices_held == pytest.approx(30 / 40)
    found = simulate(spec(*arrivals, until_s=40, warm_s=15))
    assert found.mean.memory_granted == pytest.approx(20 * 0.25 / 25)
    assert found.mean.running == pytest.approx(20 / 25)


def test_memory_and_compute_are_told_apart() -> None:
    ask = Ask(memory_mib=500, cores_percent=0)
    request = PodRequest(name="m", containers=(ContainerRequest("c", asks=(ask,)),))
    found = simulate(spec(at(0, request, 10), until_s=10))
    assert found.mean.memory_granted == 0.5
    assert found.mean.compute_reserved == 0.0


def test_kinds_are_counted_apart() -> None:
    found = simulate(spec(at(0, pod("t", 100), 10, "training"), at(1, pod("n", 50), 10, "notebook")))
    assert found.kinds["training"].waits.longest_s == 0
    assert found.kinds["notebook"].waits.longest_s == 9
    assert sum(kind.submitted for kind in found.kinds.values()) == found.submitted


def test_a_load_that_cannot_be_carried_diverges() -> None:
    many = tuple(at(i * 5.0, pod(f"p{i}", 100), 20) for i in range(200))
    assert simulate(spec(*many, until_s=1000)).diverges
    few = tuple(at(i * 25.0, pod(f"p{i}", 100), 20) for i in range(40))
    assert not simulate(spec(*few, until_s=1000)).diverges


def test_nothing_submitted_is_a_report_of_zeros() -> None:
    found = simulate(spec())
    assert (found.submitted, found.placed, found.mean.memory_granted, found.waits.mean_s) == (0, 0, 0, 0)


def test_one_key_twice_is_refused() -> None:
    with pytest.raises(InputError, match="default/x is submitted twice"):
        simulate(spec(at(0, pod("x", 10)), at(1, pod("x", 10))))


def test_unknown_policy_is_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match="write fragmentation"):
        simulate(spec(policy="fragmentatoin"))


def test_time_slicing_tells_who_runs_out_of_memory() -> None:
    greedy = [at(i, pod(f"p{i}", 60), 100) for i in range(2)]
    assert simulate(spec(*greedy, policy="time-slicing")).over_memory == ("default/p0", "default/p1")
    modest = [at(i, pod(f"p{i}", 30), 100) for i in range(3)]
    assert simulate(spec(*modest, policy="time-slicing")).over_memory == ()
    assert simulate(spec(*greedy)).over_memory == ()


# -- over random workloads ----------------------------------------------------------------------------------------

_MIX = [
    JobClass("training", pod("t", 100), Lognormal(300, 1.0), 1),
    JobClass("inference", pod("i", 47), Lognormal(600, 0.5), 3),
    JobClass("notebook", pod("n", 16, cpu=2_000), Lognormal(200, 0.5), 4),
]


def random_spec(policy: str, seed: int) -> SimulationSpec:
    rng = np.random.default_rng(seed)
    arrivals = generate(_MIX, rate_per_s=0.05, until_s=4000, rng=rng)
    nodes = (card("a", 4), card("b", 4), card("c", 2))
    return SimulationSpec(
        name="random", nodes=nodes, arrivals=arrivals, policy=policy, seed=seed, until_s=4000, samples=20
    )


@pytest.mark.parametrize("policy", sorted(policies.APPROACHES))
def test_nothing_is_lost_and_nothing_exceeded(policy: str) -> None:
    run = _Run(random_spec(policy, 5))
    found = run.run(None)
    assert found.submitted == found.placed + found.rejected + found.waiting
    assert found.finished <= found.placed
    assert found.mean.waiting >= 0
    holding = {a.pod for a in run.fleet.allocations()}
    assert len(holding) == found.placed - found.finished
    invariants.check_fleet(run.fleet)
    held = {(a.node, use.uuid) for a in run.fleet.allocations() for use in a.uses}
    assert found.series[-1].devices_held == len(held)
    for allocation in list(run.fleet.allocations()):
        run.fleet.release(allocation.pod)
        run.meter.granted(allocation, -1)
    empty = run.meter.point(0, 0, counts=False)
    assert (empty.memory_granted, empty.compute_reserved, empty.devices_held, empty.running) == (0, 0, 0, 0)


@pytest.mark.parametrize("policy", sorted(policies.APPROACHES))
def test_same_seed_same_bytes(policy: str) -> None:
    first, again = (report.to_json([simulate(random_spec(policy, 6))]) for _ in range(2))
    assert first == again


@pytest.mark.parametrize("policy", ["fragmentation", "bestfit"])
def test_nobody_waits_who_would_fit(policy: str) -> None:
    run = _Run(random_spec(policy, 7))
    run.run(None)
    waiting = list(run.waiting.numbers())
    assert len(waiting) == len(run.waiting)
    assert all(run.placer.decide(run.requests[number]) is None for number in waiting)


def test_the_queue_asks_only_for_classes_that_may_fit() -> None:
    fleet = Fleet([card("a"), card("b")])
    queue = Waiting(fleet)
    assert queue.able((0,)) == {}
    for number, request in enumerate((pod("x", 50), pod("y", 50), pod("z", 100), pod("c", 10, cpu=65_000))):
        queue.add(number, request)
    assert sorted(queue.able((0,)).values()) == [(0, 0), (0, 2)]
    found = policies.approach("first-fit").placer(fleet, [], np.random.default_rng(0)).decide(pod("held", 60))
    assert found is not None
    fleet.grant(found)
    assert queue.able((0,)) == {}
    assert sorted(queue.able((0, 1)).values()) == [(0, 0), (0, 2)]


VENDORS = {"nvidia": "A100-80", "ascend": "910B3", "cambricon": "MLU370-X8", "hygon": "K100", "mthreads": "S4000"}


@pytest.mark.parametrize(("vendor", "model"), VENDORS.items())
@pytest.mark.parametrize("policy", ["fragmentation", "pack", "bestfit", "hami"])
def test_every_vendor_is_simulated_alike(vendor: str, model: str, policy: str) -> None:
    devices = tuple(catalogue.device(vendor, model, node="n", uuid=f"d{i}", index=i) for i in range(4))
    asks = (Ask(whole=True, vendors=(vendor,)), Ask(memory_mib=6000, cores_percent=20), Ask(memory_percent=25))
    pods = [PodRequest(name=f"p{i}", containers=(ContainerRequest("main", asks=(asks[i % 3],)),)) for i in range(60)]
    arrivals = tuple(at(i * 4.0, request, 30.0 + i % 7) for i, request in enumerate(pods))
    run = _Run(spec(*arrivals, nodes=(Node(name="n", devices=devices),), policy=policy))
    found = run.run(None)
    assert (found.placed, found.finished, found.rejected, found.waiting) == (60, 60, 0, 0)
    assert not list(run.fleet.allocations())
    assert run.fleet.share[0, :4].tolist() == [1000] * 4
