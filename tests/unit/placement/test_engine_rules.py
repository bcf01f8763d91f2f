"""Every rule of placement, the same for every vendor."""

from __future__ import annotations

from typing import Any

import pytest

from terrazzo.model.allocation import Allocation
from terrazzo.model.device import Device, Health, SharingMode, step_up, units_for_percent
from terrazzo.model.errors import LedgerError
from terrazzo.model.node import Node, Taint
from terrazzo.model.reason import NodeRejection, Reason
from terrazzo.model.request import (
    Ask,
    ContainerKind,
    LabelTest,
    NodeRules,
    Pattern,
    PodRequest,
    Preference,
    Toleration,
)
from terrazzo.model.unknown import Unknown
from terrazzo.placement.demand import usable_mib
from terrazzo.placement.engine import Engine
from terrazzo.placement.fleet import Fleet
from terrazzo.placement.invariants import check_fleet
from terrazzo.testing.builders import CUT, SHARED, Kind, fraction, make_node, make_request, whole

KINDS = pytest.mark.parametrize("kind", SHARED, ids=str)
CONTINUOUS = pytest.mark.parametrize("kind", SHARED[:4], ids=str)


def half(device: Device) -> Ask:
    return Ask(memory_mib=usable_mib(device) // 2 // 512 * 512, cores_percent=50)


def put(fleet: Fleet, request: PodRequest, engine: Engine | None = None) -> Allocation | None:
    found = (engine or Engine(fleet)).decide(request)
    if found is not None:
        fleet.grant(found)
    check_fleet(fleet)
    return found


def why(fleet: Fleet, request: PodRequest) -> NodeRejection:
    [only] = Engine(fleet).why(request)
    return only


@KINDS
class TestEveryVendor:
    def test_a_fraction_is_rounded_up_and_is_what_the_books_hold(self, kind: Kind) -> None:
        fleet = Fleet([make_node(kind=kind)])
        found = put(fleet, make_request("pod", fraction(8000, 30)))
        assert found is not None
        [use] = found.uses
        [grant] = found.containers[0].devices
        device = fleet.devices("node-0")[0].device
        assert (use.memory_mib, use.units) == (grant.memory_mib, grant.units)
        assert grant.memory_mib >= 8000
        assert grant.units >= units_for_percent(30, device.units)
        if device.mode is SharingMode.CONTINUOUS:
            assert grant.memory_mib == step_up(8000, device.memory_step_mib)
            assert grant.units == units_for_percent(30, device.units)

    def test_a_whole_device_is_its_pods_alone(self, kind: Kind) -> None:
        fleet = Fleet([make_node(kind=kind, devices=1)])
        first = put(fleet, make_request("first", whole()))
        assert first is not None
        assert first.uses[0].alone
        assert why(fleet, make_request("second", fraction(1))).reason is Reason.HELD_ALONE
        fleet.release(first.pod)
        assert put(fleet, make_request("second", fraction(1))) is not None
        assert why(fleet, make_request("third", whole())).reason is Reason.IN_USE

    def test_two_halves_share_a_device_and_leave_the_other_whole(self, kind: Kind) -> None:
        fleet = Fleet([make_node(kind=kind, devices=2)])
        ask = half(fleet.devices("node-0")[0].device)
        a, b = put(fleet, make_request("a", ask)), put(fleet, make_request("b", ask))
        assert a is not None
        assert b is not None
        assert a.uses[0].uuid == b.uses[0].uuid
        assert put(fleet, make_request("c", whole())) is not None

    def test_exclusive_keeps_others_out_both_ways(self, kind: Kind) -> None:
        fleet = Fleet([make_node(kind=kind, devices=1)])
        alone = put(fleet, make_request("alone", fraction(1024), exclusive=True))
        assert alone is not None
        assert why(fleet, make_request("other", fraction(1024))).reason is Reason.HELD_ALONE
        fleet.release(alone.pod)
        put(fleet, make_request("other", fraction(1024)))
        assert why(fleet, make_request("alone", fraction(1024), exclusive=True)).reason is Reason.IN_USE

    def test_one_container_gets_distinct_devices(self, kind: Kind) -> None:
        fleet = Fleet([make_node(kind=kind, devices=3)])
        found = put(fleet, make_request("pod", fraction(1024, 5, count=3)))
        assert found is not None
        assert len({grant.uuid for grant in found.containers[0].devices}) == 3
        assert why(fleet, make_request("more", fraction(1024, 5, count=4))).reason is Reason.COUNT

    def test_whole_box_at_once(self, kind: Kind) -> None:
        fleet = Fleet([make_node(kind=kind, devices=8)])
        found = put(fleet, make_request("pod", whole(8)))
        assert found is not None
        assert len(found.uses) == 8

    def test_a_sick_device_takes_no_grant(self, kind: Kind) -> None:
        sick = {"health": Health.DEGRADED, "health_reason": "fell off the bus"}
        fleet = Fleet([make_node(kind=kind, devices=1, device=sick)])
        rejection = why(fleet, make_request("pod", fraction(1)))
        assert rejection.reason is Reason.HEALTH
        assert rejection.devices[0].detail == "fell off the bus"

    def test_too_large_is_said_so(self, kind: Kind) -> None:
        fleet = Fleet([make_node(kind=kind, devices=1)])
        rejection = why(fleet, make_request("pod", fraction(1 << 20)))
        assert rejection.reason is Reason.TOO_SMALL
        assert rejection.devices[0].needed >= 1 << 20

    def test_selectors_are_exact(self, kind: Kind) -> None:
        fleet = Fleet([make_node(kind=kind, devices=2)])
        view = fleet.devices("node-0")[1]
        assert put(fleet, make_request("named", fraction(1), model=Pattern((kind.model,)))) is not None
        assert why(fleet, make_request("x", fraction(1), model=Pattern((kind.model[1:],)))).reason is Reason.MODEL
        assert (
            why(fleet, make_request("y", fraction(1), vendor=Pattern(exclude=(kind.vendor,)))).reason is Reason.VENDOR
        )
        picked = put(fleet, make_request("z", fraction(1), device=Pattern((view.device.uuid,))))
        assert picked is not None
        assert picked.uses[0].uuid == view.device.uuid

    def test_undo_leaves_nothing(self, kind: Kind) -> None:
        fleet = Fleet([make_node(kind=kind, devices=2)])
        before = fleet.devices("node-0")
        found = put(fleet, make_request("pod", fraction(1024, 10), fraction(2048)))
        assert found is not None
        assert fleet.release(found.pod) == found
        assert fleet.devices("node-0") == before
        assert fleet.release(found.pod) is None

    def test_what_was_decided_may_be_taken_only_once(self, kind: Kind) -> None:
        fleet = Fleet([make_node(kind=kind, devices=1)])
        engine = Engine(fleet)
        first, second = engine.decide(make_request("a", whole())), engine.decide(make_request("b", whole()))
        assert first is not None
        assert second is not None
        fleet.grant(first)
        with pytest.raises(LedgerError, match="b on node-0"):
            fleet.grant(second)
        check_fleet(fleet)

    def test_the_same_fleet_gives_the_same_decision(self, kind: Kind) -> None:
        asks = [fraction(4096 + 512 * i, 5 * i % 40) for i in range(12)]
        runs = []
        for _ in range(2):
            fleet = Fleet([make_node(f"node-{i}", kind, 4) for i in range(3)])
            engine = Engine(fleet)
            runs.append([put(fleet, make_request(f"pod-{i}", ask), engine) for i, ask in enumerate(asks)])
        assert runs[0] == runs[1]

    def test_spread_takes_the_empty_device_and_pack_the_used_one(self, kind: Kind) -> None:
        for strategy, same in (("pack", True), ("spread", False)):
            fleet = Fleet([make_node(kind=kind, devices=2)])
            first = put(fleet, make_request("a", fraction(1024, 5), strategy=strategy))
            second = put(fleet, make_request("b", fraction(1024, 5), strategy=strategy))
            assert first is not None
            assert second is not None
            assert (first.uses[0].uuid == second.uses[0].uuid) is same


@CONTINUOUS
class TestContinuous:
    def test_memory_without_cores_needs_some_compute_left(self, kind: Kind) -> None:
        fleet = Fleet([make_node(kind=kind, devices=1)])
        put(fleet, make_request("greedy", fraction(1024, 100)))
        assert why(fleet, make_request("idle", fraction(1024))).reason is Reason.CORES

    def test_sharer_limit(self, kind: Kind) -> None:
        fleet = Fleet([make_node(kind=kind, devices=1, device={"sharers": 2})])
        for name in ("a", "b"):
            assert put(fleet, make_request(name, fraction(512, 1))) is not None
        rejection = why(fleet, make_request("c", fraction(512, 1)))
        assert (rejection.reason, rejection.needed, rejection.available) == (Reason.SHARERS, 3, 2)

    def test_foreign_use_counts(self, kind: Kind) -> None:
        total = usable_mib(make_node(kind=kind, devices=1).devices[0])
        fleet = Fleet([make_node(kind=kind, devices=1, device={"foreign_mib": total - 2048})])
        assert put(fleet, make_request("small", fraction(2048))) is not None
        assert why(fleet, make_request("more", fraction(1024))).reason is Reason.MEMORY

    def test_init_containers_borrow_what_apps_take_later(self, kind: Kind) -> None:
        fleet = Fleet([make_node(kind=kind, devices=1)])
        total = usable_mib(fleet.devices("node-0")[0].device)
        large, small = total * 3 // 4 // 512 * 512, total // 4 // 512 * 512
        request = make_request("pod", fraction(large), fraction(small), fraction(small), kinds={0: ContainerKind.INIT})
        found = put(fleet, request)
        assert found is not None
        assert found.uses[0].memory_mib == max(large, 2 * small)

    def test_sidecars_stand_beside_inits_and_apps(self, kind: Kind) -> None:
        fleet = Fleet([make_node(kind=kind, devices=1)])
        quarter = usable_mib(fleet.devices("node-0")[0].device) // 4 // 512 * 512
        sidecar = {0: ContainerKind.SIDECAR, 1: ContainerKind.INIT}
        found = put(
            fleet, make_request("pod", fraction(quarter), fraction(2 * quarter), fraction(quarter), kinds=sidecar)
        )
        assert found is not None
        assert found.uses[0].memory_mib == 3 * quarter

    def test_never_half_placed(self, kind: Kind) -> None:
        fleet = Fleet([make_node(kind=kind, devices=2)])
        total = usable_mib(fleet.devices("node-0")[0].device) // 512 * 512
        request = make_request("pod", fraction(total), fraction(total), fraction(512))
        assert put(fleet, request) is None
        assert all(not view.holders for view in fleet.devices("node-0"))

    def test_backtracks_where_first_fit_fails(self, kind: Kind) -> None:
        fleet = Fleet([make_node(kind=kind, devices=2)])
        total = usable_mib(fleet.devices("node-0")[0].device)
        parts = [total * share // 100 // 512 * 512 for share in (60, 50, 40, 45)]
        found = put(fleet, make_request("pod", *(fraction(part) for part in parts)))
        assert found is not None
        assert all(use.memory_mib <= total for use in found.uses)

    def test_percent_never_asks_for_more_than_steps_give(self, kind: Kind) -> None:
        fleet = Fleet([make_node(kind=kind, devices=1)])
        found = put(fleet, make_request("pod", Ask(memory_percent=100, cores_percent=100)))
        assert found is not None
        device = fleet.devices("node-0")[0].device
        assert found.uses[0].memory_mib == usable_mib(device) // device.memory_step_mib * device.memory_step_mib

    def test_foreign_eats_one_card_so_the_other_is_taken(self, kind: Kind) -> None:
        node = make_node(kind=kind, devices=2)
        total = usable_mib(node.devices[0])
        busy = make_node(kind=kind, devices=1, device={"foreign_mib": total - 512}).devices
        fleet = Fleet([Node(name="node-0", devices=(*busy, node.devices[1]))])
        found = put(fleet, make_request("pod", fraction(total // 2 // 512 * 512)))
        assert found is not None
        assert found.uses[0].uuid == node.devices[1].uuid


@pytest.mark.parametrize("kind", CUT, ids=str)
class TestCut:
    def test_smallest_slice_that_covers(self, kind: Kind) -> None:
        fleet = Fleet([make_node(kind=kind, devices=1)])
        geometry = fleet.devices("node-0")[0].device.geometry
        assert geometry is not None
        for profile in geometry.profiles:
            found = Engine(fleet).decide(make_request("pod", fraction(profile.memory_mib)))
            assert found is not None
            assert found.containers[0].devices[0].memory_mib == profile.memory_mib

    def test_a_profile_by_name(self, kind: Kind) -> None:
        fleet = Fleet([make_node(kind=kind, devices=1)])
        geometry = fleet.devices("node-0")[0].device.geometry
        assert geometry is not None
        name = geometry.profiles[0].name
        assert put(fleet, make_request("pod", Ask(profile=name))) is not None
        assert why(fleet, make_request("other", Ask(profile="9g.1tb"))).reason is Reason.PROFILE

    def test_slices_fill_the_device_and_no_more(self, kind: Kind) -> None:
        fleet = Fleet([make_node(kind=kind, devices=1)])
        geometry = fleet.devices("node-0")[0].device.geometry
        assert geometry is not None
        smallest = geometry.profiles[0]
        engine, placed = Engine(fleet), 0
        while put(fleet, make_request(f"pod-{placed}", Ask(profile=smallest.name)), engine) is not None:
            placed += 1
        starts = len(smallest.starts) or geometry.slots // smallest.size
        assert placed == starts
        assert why(fleet, make_request("late", Ask(profile=smallest.name))).reason is Reason.PLACEMENT


def test_whole_never_lands_on_a_card_in_mig_mode() -> None:
    fleet = Fleet([make_node(kind=CUT[0], devices=1)])
    assert why(fleet, make_request("pod", whole())).reason is Reason.MODE


def test_small_slices_leave_the_rare_start_free() -> None:
    fleet = Fleet([make_node(kind=CUT[0], devices=1)])
    engine = Engine(fleet)
    for index in range(3):
        put(fleet, make_request(f"small-{index}", Ask(profile="1g.10gb")), engine)
    assert put(fleet, make_request("large", Ask(profile="4g.40gb")), engine) is not None


def test_equality_with_a_slice_fits() -> None:
    fleet = Fleet([make_node(kind=CUT[0], devices=1)])
    found = put(fleet, make_request("pod", fraction(9856)))
    assert found is not None
    assert found.containers[0].devices[0].profile == "1g.10gb"


def test_static_slices_serve_names_and_fractions_but_nothing_whole() -> None:
    slices = (_slice(0), _slice(1))
    fleet = Fleet([Node(name="node-0", devices=slices)])
    assert why(fleet, make_request("w", whole())).reason is Reason.MODE
    assert put(fleet, make_request("p", Ask(profile="1g.10gb"))) is not None
    assert put(fleet, make_request("f", fraction(8192))) is not None
    assert why(fleet, make_request("g", fraction(8192))).reason is Reason.HELD_ALONE


def _slice(index: int) -> Device:
    return Device(
        node="node-0", uuid=f"slice-{index}", vendor="nvidia", model="A100-80-MIG-1g.10gb", index=index,
        memory_mib=9856, units=1, mode=SharingMode.GEOMETRY, sharers=1, profile="1g.10gb",
    )  # fmt: skip


def test_unknown_memory_serves_whole_asks_only() -> None:
    fleet = Fleet([make_node(devices=1, device={"memory_mib": Unknown("nobody told")})])
    rejection = why(fleet, make_request("part", fraction(1)))
    assert rejection.reason is Reason.MEMORY_UNKNOWN
    assert rejection.devices[0].detail == "nobody told"
    found = put(fleet, make_request("all", whole()))
    assert found is not None
    assert found.containers[0].devices[0].memory_mib == 0
    assert why(fleet, make_request("late", whole())).reason is Reason.HELD_ALONE


class TestNodes:
    def node(self, **more: Any) -> Node:
        return make_node("node-0", devices=1, **more)

    @pytest.mark.parametrize(
        ("more", "reason"),
        [
            ({"ready": False}, Reason.NOT_READY),
            ({"unschedulable": True}, Reason.CORDONED),
            ({"taints": (Taint("team", "a"),)}, Reason.TAINT),
            ({"cpu_milli": 500}, Reason.CPU),
            ({"memory_mib": 500}, Reason.HOST_MEMORY),
            ({"max_pods": 0}, Reason.PODS),
        ],
    )
    def test_what_kubernetes_checks(self, more: dict[str, Any], reason: Reason) -> None:
        fleet = Fleet([self.node(**more)])
        request = make_request("pod", fraction(1), cpu_milli=1000, memory_mib=1000)
        assert put(fleet, request) is None
        assert why(fleet, request).reason is reason

    def test_a_node_without_devices_or_with_unknown_ones(self) -> None:
        empty, unknown = Node(name="a"), Node(name="b", unknowns=(Unknown("plugin silent"),))
        rejections = Engine(Fleet([empty, unknown])).why(make_request("pod", fraction(1)))
        assert [no.reason for no in rejections] == [Reason.NO_DEVICE, Reason.INVENTORY_UNKNOWN]

    def test_tolerations_selectors_and_affinity(self) -> None:
        node = self.node(taints=(Taint("team", "a"),), labels={"zone": "x", "gen": "3"})
        rules = NodeRules(
            selector={"zone": "x"},
            terms=((LabelTest("gen", "Gt", ("2",)),),),
            tolerations=(Toleration("team", "Equal", "a"),),
        )
        fleet = Fleet([node])
        assert put(fleet, make_request("pod", fraction(1), rules=rules)) is not None
        wrong = NodeRules(selector={"zone": "y"}, tolerations=rules.tolerations)
        assert why(fleet, make_request("no", fraction(1), rules=wrong)).reason is Reason.SELECTOR

    def test_preferred_affinity_wins_over_packing(self) -> None:
        fleet = Fleet([make_node("used"), make_node("liked", labels={"disk": "ssd"})])
        put(fleet, make_request("first", fraction(8192), rules=NodeRules(node_name="used")))
        liked = NodeRules(preferences=(Preference(1, (LabelTest("disk", "In", ("ssd",)),)),))
        found = put(fleet, make_request("second", fraction(8192), rules=liked))
        assert found is not None
        assert found.node == "liked"

    def test_other_extended_resources(self) -> None:
        fleet = Fleet([self.node(other={"rdma/hca": 1})])
        assert put(fleet, make_request("one", fraction(1), other={"rdma/hca": 1})) is not None
        assert why(fleet, make_request("two", fraction(1), other={"rdma/hca": 2})).reason is Reason.OTHER_RESOURCE


def test_a_change_rescores_that_node_alone() -> None:
    fleet = Fleet([make_node(f"node-{i}", devices=4) for i in range(50)])
    engine = Engine(fleet)
    ask = make_request("pod", fraction(4096, 10))
    engine.decide(ask)
    start = engine.scored
    assert start == 50
    put(fleet, make_request("other", fraction(4096, 10)), engine)
    engine.decide(ask)
    assert engine.scored - start == 1


def test_a_full_node_is_not_scored_again_until_something_is_freed() -> None:
    fleet = Fleet([make_node(devices=2)])
    engine = Engine(fleet)
    held = put(fleet, make_request("all", whole(2)), engine)
    assert held is not None
    waiting = make_request("waiting", whole(2))
    assert engine.decide(waiting) is None
    start = engine.scored
    assert engine.decide(waiting) is None
    assert engine.scored == start
    fleet.release(held.pod)
    assert engine.decide(waiting) is not None
    assert engine.scored == start + 1
