from __future__ import annotations

import json
from typing import Any

import pytest

from terrazzo.cli import cluster as clusters
from terrazzo.cli import manifests, planning, stock
from terrazzo.cli.cluster import Cluster
from terrazzo.cli.reading import Item
from terrazzo.model.errors import InputError

VENDORS = {
    "nvidia": ("A100-80", 81305, "nvidia.com/gpu"),
    "ascend": ("910B3", 65536, "huawei.com/Ascend910B3"),
    "cambricon": ("MLU370-X8", 23374, "cambricon.com/vmlu"),
    "hygon": ("Z100", 16384, "hygon.com/dcunum"),
    "mthreads": ("S4000", 49152, "mthreads.com/vgpu"),
}


def node(vendor: str = "nvidia", devices: int = 2, name: str = "n1", **extra: Any) -> Item:
    model, mib, _ = VENDORS[vendor]
    rows = [{"uuid": f"D{i}", "vendor": vendor, "model": model, "index": i, "mib": mib} for i in range(devices)]
    changes = extra.pop("device", {})
    rows = [{**row, **changes} for row in rows]
    meta = {"name": name, "annotations": {"terrazzo.io/inventory": json.dumps({"v": 1, "devices": rows})}}
    return Item("nodes", {"kind": "Node", "metadata": meta, "spec": extra, "status": {"allocatable": {"cpu": "8"}}})


def pod(name: str = "p", limits: dict[str, Any] | None = None, on: str = "", **extra: Any) -> Item:
    meta = {"name": name, "annotations": extra.pop("annotations", {})}
    spec = {"containers": [{"name": "c", "resources": {"limits": limits or {}}}], **extra.pop("spec", {})}
    if on:
        meta["uid"] = f"u-{name}"
        spec["nodeName"] = on
    body = {"kind": "Pod", "metadata": meta, "spec": spec, "status": {"phase": extra.pop("phase", "")}}
    return Item("pods", body)


def held(cluster: Cluster, name: str) -> tuple[str, ...]:
    allocation = cluster.fleet.allocation(f"u-{name}")
    assert allocation is not None
    return tuple(use.uuid for use in allocation.uses)


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_running_pod_without_annotation_is_counted_by_what_it_asks_for(vendor: str) -> None:
    word = VENDORS[vendor][2]
    cluster = clusters.load([node(vendor), pod("a", {word: 1}, on="n1")])
    assert len(held(cluster, "a")) == 1
    assert not cluster.notes


def test_annotations_come_before_guesses() -> None:
    told = json.dumps(
        {"v": 1, "node": "n1", "containers": {"c": [{"uuid": "D0", "mib": 81305, "units": 100, "whole": True}]}}
    )
    guessed = pod("a", {"nvidia.com/gpu": 1}, on="n1")
    known = pod("b", {"nvidia.com/gpu": 1}, on="n1", annotations={"terrazzo.io/allocation": told})
    cluster = clusters.load([node(), guessed, known])
    assert (held(cluster, "b"), held(cluster, "a")) == (("D0",), ("D1",))


def test_whole_devices_are_guessed_before_parts() -> None:
    part = pod("a", {"nvidia.com/gpumem": 1024}, on="n1")
    cluster = clusters.load([node(), part, pod("b", {"nvidia.com/gpu": 1}, on="n1")])
    assert held(cluster, "a") != held(cluster, "b")
    assert not cluster.notes


@pytest.mark.parametrize("state", [{"unschedulable": True}, {"taints": [{"key": "x", "effect": "NoSchedule"}]}])
def test_a_closed_node_keeps_what_runs_on_it(state: dict[str, Any]) -> None:
    cluster = clusters.load([node(**state), pod("a", {"nvidia.com/gpu": 1}, on="n1")])
    assert len(held(cluster, "a")) == 1


def test_a_pod_that_does_not_fit_beside_the_others_is_not_lost() -> None:
    pods = [pod(name, {"nvidia.com/gpu": 1}, on="n1") for name in "abc"]
    cluster = clusters.load([node(), *pods])
    assert all(len(held(cluster, name)) == 1 for name in "abc")
    (note,) = cluster.notes
    assert "default/c runs on n1" in note
    assert "does not fit beside" in note


def test_a_pod_whose_devices_the_node_does_not_have_still_takes_its_cpu() -> None:
    asks = pod("a", {"huawei.com/Ascend910B3": 1, "cpu": "6"}, on="n1")
    cluster = clusters.load([node(), asks])
    assert held(cluster, "a") == ()
    (note,) = cluster.notes
    assert "does not have" in note
    assert "u-a" in cluster.unplaced
    wants = manifests.read(cluster, [pod("b", {"nvidia.com/gpu": 1, "cpu": "4"})])
    assert cluster.engine.decide(wants.wanted[0].request) is None


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_what_has_ended_holds_nothing(phase: str) -> None:
    cluster = clusters.load([node(), pod("a", {"nvidia.com/gpu": 2}, on="n1", phase=phase)])
    assert cluster.fleet.allocation("u-a") is None


def test_strangers_that_cannot_be_read_stop_nobody() -> None:
    strange = pod("odd", {"terrazzo.io/gpu-cores": 900}, on="n1")
    damaged = pod("bad", {"nvidia.com/gpu": 1}, on="n1", annotations={"terrazzo.io/allocation": "{"})
    cluster = clusters.load([node(), strange, damaged])
    assert held(cluster, "bad") != ()
    assert len(cluster.notes) == 2


def test_pods_elsewhere_and_pods_twice_are_noted() -> None:
    twice = pod("a", {"nvidia.com/gpu": 1}, on="n1")
    cluster = clusters.load([node(), twice, twice, pod("b", {"nvidia.com/gpu": 1}, on="n7")])
    assert any("1 on n7" in note for note in cluster.notes)
    assert any("given twice" in note for note in cluster.notes)


def test_what_waits_in_the_dump_is_listed_and_not_placed() -> None:
    cluster = clusters.load([node(), pod("w", {"nvidia.com/gpu": 1})])
    plan = planning.make(cluster, manifests.read(cluster, [pod("p", {"nvidia.com/gpu": 1})]))
    assert plan.waiting == ["default/w"]
    again = clusters.load([node(), pod("w", {"nvidia.com/gpu": 1})])
    assert planning.make(again, manifests.read(again, [pod("w", {"nvidia.com/gpu": 1})])).waiting == []


def test_priority_goes_first_and_classes_are_looked_up() -> None:
    high = Item("p", {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000})
    wants = [pod("low", {"nvidia.com/gpu": 2}), pod("top", {"nvidia.com/gpu": 1}, spec={"priorityClassName": "high"})]
    cluster = clusters.load([node(), high])
    plan_order = [each.request.name for each in manifests.read(cluster, wants).wanted]
    assert plan_order == ["low", "top"]
    cluster = clusters.load([node(devices=4), high])
    plan = planning.make(cluster, manifests.read(cluster, wants))
    assert [each.request.name for each in plan.placed] == ["top", "low"]
    unknown = manifests.read(cluster, [pod("x", {"nvidia.com/gpu": 1}, spec={"priorityClassName": "gold"})])
    assert "gold" in unknown.wanted[0].warnings[0]


def test_what_runs_already_is_not_placed_again() -> None:
    running = pod("a", {"nvidia.com/gpu": 1}, on="n1", phase="Running")
    cluster = clusters.load([node(), running])
    manifest = pod("a", {"nvidia.com/gpu": 1})
    for given in (running, manifest):
        plan = planning.make(cluster, manifests.read(cluster, [given]))
        assert (plan.placed, plan.running) == ([], ["default/a"])


def test_warnings_reach_the_user() -> None:
    cluster = clusters.load([node()])
    zero = manifests.read(cluster, [pod("a", {"nvidia.com/gpu": 0})])
    plan = planning.make(cluster, zero)
    assert plan.left_alone == 1
    assert any("nvidia.com/gpu" in warning for warning in plan.warnings)


def test_a_pod_whose_vendor_nobody_decides_keeps_its_other_warnings() -> None:
    cluster = clusters.load([node(), node("ascend", name="n2")])
    wanted = manifests.read(cluster, [pod("a", {"terrazzo.io/gpu-memory": "900Gi"})])
    [unplaced] = planning.make(cluster, wanted).unplaced
    assert "nobody says" in unplaced.why
    told = [each for one in wanted.wanted for each in one.warnings]
    assert len(told) > 1
    assert planning.make(cluster, wanted).warnings == [each for each in told if "nobody says" not in each]


def test_a_daemon_set_goes_to_every_node_that_its_rules_allow() -> None:
    template = {"spec": {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpumem": 1024}}}]}}
    daemon = Item("d", {"kind": "DaemonSet", "metadata": {"name": "d"}, "spec": {"template": template}})
    nodes = [node(name="n1"), node(name="n2"), node(name="n3", unschedulable=True)]
    cluster = clusters.load(nodes)
    plan = planning.make(cluster, manifests.read(cluster, [daemon]))
    assert {(each.request.name, each.allocation.node) for each in plan.placed} == {("d-n1", "n1"), ("d-n2", "n2")}


def test_generated_names_are_told_apart() -> None:
    made = pod("", {"nvidia.com/gpu": 1})
    made.body["metadata"]["generateName"] = "job-"
    other = Item("pods", json.loads(json.dumps(made.body)))
    cluster = clusters.load([node()])
    assert [w.request.name for w in manifests.read(cluster, [made, other]).wanted] == ["job-0", "job-1"]


def test_the_policy_in_the_dump_counts() -> None:
    policy = {
        "kind": "ConfigMap",
        "metadata": {"name": "terrazzo-policy"},
        "data": {"policy.yaml": "vendors: [ascend]"},
    }
    cluster = clusters.load([node(), node("ascend", name="n2"), Item("p", policy)])
    plan = planning.make(cluster, manifests.read(cluster, [pod("a", {"terrazzo.io/gpu": 1})]))
    assert plan.placed[0].allocation.node == "n2"


def test_unknown_memory_is_never_zero() -> None:
    cluster = clusters.load([node(device={"mib": None, "unknown": "the driver does not answer"})])
    found = stock.take(cluster, "model")
    data = stock.as_data(found, [])
    assert data["lines"][0]["memory_mib"] == {"granted": None, "free": None, "total": None}
    assert found.unknowns == ["the driver does not answer"]
    assert stock.count(cluster, stock.parse_size("whole")).pods == 2
    assert stock.count(cluster, stock.parse_size("1Gi")).pods == 0


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize("size", ["8Gi,30%", "30%", "whole", "2xwhole", "2x1Gi,10%", "1gpu"])
def test_sizes_that_fit_are_those_that_are_placed_one_by_one(vendor: str, size: str) -> None:
    items = [
        node(vendor),
        *(node("nvidia", name=name) for name in ("n2", "n3")),
        pod("a", {VENDORS[vendor][2]: 1}, on="n1"),
    ]
    cluster = clusters.load(items)
    wanted = stock.parse_size(size)
    before = [cluster.fleet.devices(name) for name in ("n1", "n2", "n3")]
    fits = stock.count(cluster, wanted)
    assert [cluster.fleet.devices(name) for name in ("n1", "n2", "n3")] == before
    submitted = 0
    for each in cluster.vendors:
        while True:
            found = cluster.engine.decide(stock.pod_of(wanted.ask, each, submitted))
            if found is None:
                break
            cluster.fleet.grant(found)
            submitted += 1
    assert (fits.pods, sum(fits.per_model.values())) == (submitted, submitted)


def test_a_damaged_priority_class_is_told() -> None:
    with pytest.raises(InputError, match="PriorityClass"):
        clusters.load([node(), Item("p", {"kind": "PriorityClass", "metadata": {"name": "x"}, "value": "high"})])


def test_pod_slots_are_shared_by_all_vendors_of_a_node() -> None:
    mixed = node()
    rows = [
        {"uuid": f"D{i}", "vendor": vendor, "model": VENDORS[vendor][0], "index": i, "mib": VENDORS[vendor][1]}
        for i, vendor in enumerate(("nvidia", "mthreads"))
    ]
    mixed.body["metadata"]["annotations"]["terrazzo.io/inventory"] = json.dumps({"v": 1, "devices": rows})
    mixed.body["status"]["allocatable"]["pods"] = "3"
    cluster = clusters.load([mixed])
    assert stock.count(cluster, stock.parse_size("1Gi")).pods == 3
    assert stock.count(cluster, stock.parse_size("whole")).per_model == {"A100-80": 1, "S4000": 1}
