from __future__ import annotations

import msgspec
import pytest
from world import books, node, pod, slices

from terrazzo.control.pods import GATE, Standing
from terrazzo.dialects import holdings
from terrazzo.model.allocation import Allocation
from terrazzo.model.device import Health
from terrazzo.model.policy import Policy
from terrazzo.placement import events as ev
from terrazzo.placement import instructions as ins
from terrazzo.placement.invariants import check
from terrazzo.testing.builders import SHARED, Kind, make_node
from terrazzo.wire import kubernetes as k8s

PART = {"terrazzo.io/gpu": 1, "terrazzo.io/gpu-memory": "8Gi", "terrazzo.io/gpu-cores": 10}


def _decided(made: object, seen: k8s.Pod) -> Allocation:
    request = made.resolve(made.request_of(seen))  # type: ignore[attr-defined]
    found = made.engine.decide(request)  # type: ignore[attr-defined]
    assert found is not None
    return found  # type: ignore[no-any-return]


@pytest.mark.parametrize("kind", SHARED, ids=str)
def test_what_a_bound_pod_says_it_holds_is_held_after_a_restart(kind: Kind) -> None:
    fleet = [make_node("n0", kind, 2)]
    first, _ = books(fleet)
    waiting = pod("p", PART, annotations={"terrazzo.io/vendor": kind.vendor})
    found = _decided(first, waiting)
    text = holdings.written(found)
    again, noted = books(fleet)
    bound = pod("p", PART, node="n0", annotations={"terrazzo.io/allocation": text, "terrazzo.io/vendor": kind.vendor})
    assert again.pods_listed([bound], 10_000) == ()
    held = again.ledger.fleet.allocation("uid-p")
    assert held is not None
    assert (held.containers, held.uses) == (found.containers, found.uses)
    assert not noted
    check(again.ledger)


def test_pods_without_devices_count_their_cpu() -> None:
    made, _ = books([make_node("n0", cpu_milli=4000)])
    made.pod_seen(pod("p", {"cpu": "3"}, node="n0"))
    assert made.engine.decide(made.request_of(pod("q", {**PART, "cpu": "2"}))) is None
    made.pod_gone(pod("p", {"cpu": "3"}, node="n0"))
    assert made.engine.decide(made.request_of(pod("q", {**PART, "cpu": "2"}))) is not None


def test_a_wiped_slice_is_unknown_and_not_nothing() -> None:
    fleet = make_node("n0", SHARED[0], 2)
    made, noted = books()
    bare = node(fleet)
    bare = msgspec.structs.replace(bare, metadata=msgspec.structs.replace(bare.metadata, annotations={}))
    made.node_seen(bare)
    assert "no inventory is published" in noted[-1]
    for each in slices(fleet):
        made.slice_seen(each)
    found = _decided(made, pod("p", PART))
    made.ledger.apply(ev.Committed(found))
    for each in slices(fleet):
        assert not any(isinstance(told, ins.TellHolders) for told in made.slice_gone(each.metadata.name, 1 << 40))
    known = made.ledger.fleet.node("n0")
    assert known is not None
    assert len(known.devices) == 2
    assert all(device.health is Health.HEALTHY for device in known.devices)
    assert made.engine.decide(made.request_of(pod("q", PART))) is None, "no new grants meanwhile"
    check(made.ledger)


_ROW = '{"uuid":"a","vendor":"nvidia","model":"A100-80","mib":1}'


@pytest.mark.parametrize(
    "text",
    ["not JSON", f'{{"v":1,"devices":[{_ROW},{_ROW}]}}', '{"v":9}', "[]", "\ud800"],
    ids=["no-json", "twice", "newer", "list", "surrogate"],
)
def test_a_damaged_inventory_keeps_the_last_devices_and_says_so(text: str) -> None:
    fleet = make_node("n0", SHARED[0], 2)
    made, noted = books([fleet], dra=False)
    broken = node(fleet)
    assert broken.metadata.annotations is not None
    broken.metadata.annotations["terrazzo.io/inventory"] = text
    made.node_seen(broken)
    known = made.ledger.fleet.node("n0")
    assert known is not None
    assert len(known.devices) == 2
    assert not known.ready
    assert "n0" in noted[-1]
    made.node_seen(node(fleet))
    assert made.engine.decide(made.request_of(pod("q", PART))) is not None


def test_an_unmanaged_node_is_counted_by_name_and_turns_ours_with_a_relist() -> None:
    fleet = make_node("n0", SHARED[0], 2)
    made, _ = books()
    made.node_seen(node(fleet, managed=False, extended={"nvidia.com/gpu": 2}))
    assert "n0" in made.plain
    made.pod_seen(pod("p", {"nvidia.com/gpu": 1}, node="n0"))
    assert made.plain.left("n0", "nvidia.com/gpu") == 1
    made.pod_seen(pod("p", {"nvidia.com/gpu": 1}, node="n0", phase="Succeeded"))
    assert made.plain.left("n0", "nvidia.com/gpu") == 2
    assert not made.stale
    made.node_seen(node(fleet))
    assert made.stale
    made.pods_listed([], 1 << 40)
    assert not made.stale


def test_standings() -> None:
    made, _ = books()
    rejected = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
    for name, more, standing in (
        ("a", {}, Standing.QUEUED),
        ("b", {"status": rejected}, Standing.REJECTED),
        ("c", {"schedulingGates": [{"name": GATE}]}, Standing.GATED),
        ("d", {"schedulingGates": [{"name": GATE}, {"name": "kueue"}]}, Standing.HELD),
        ("e", {"node": "n0"}, Standing.BOUND),
    ):
        made.pod_seen(pod(name, PART, **more))
        assert made.pods[f"uid-{name}"].standing is standing
    assert [row.request.name for row in made.waiting()] == ["b", "c"]
    made.pod_gone(pod("b", PART))
    assert [row.request.name for row in made.waiting()] == ["c"]


def test_the_most_urgent_wait_first_then_the_oldest() -> None:
    made, _ = books()
    for name, priority, second in (("young", 0, 9), ("old", 0, 1), ("dear", 5, 20)):
        meta = {"creationTimestamp": f"2026-01-01T00:00:{second:02d}Z"}
        made.pod_seen(pod(name, PART, priority=priority, meta=meta, schedulingGates=[{"name": GATE}]))
    assert [row.request.name for row in made.waiting()] == ["dear", "old", "young"]


def test_nominations_come_and_go_with_the_pod() -> None:
    made, _ = books()
    made.pod_seen(pod("p", PART, status={"nominatedNodeName": "n0"}))
    assert list(made.nominated["n0"]) == ["uid-p"]
    made.pod_seen(pod("p", PART, node="n1", status={"nominatedNodeName": "n0"}))
    assert not made.nominated["n0"]
    made.pod_seen(pod("q", PART, status={"nominatedNodeName": "n0"}))
    made.pod_gone(pod("q", PART))
    assert not made.nominated["n0"]


def test_a_device_class_takes_a_name_away_and_gives_it_back() -> None:
    made, noted = books([make_node("n0")])
    each = k8s.DeviceClass(k8s.ObjectMeta(name="theirs"), k8s.DeviceClassSpec("nvidia.com/gpu"))
    made.class_seen(each)
    assert "theirs" in noted[-1]
    assert "theirs" in made.barred(made.request_of(pod("p", {"nvidia.com/gpu": 1})))
    assert not made.barred(made.request_of(pod("p", PART)))
    made.class_gone("theirs")
    assert not made.barred(made.request_of(pod("p", {"nvidia.com/gpu": 1})))


def test_a_neutral_pod_waits_for_a_decision_where_two_vendors_are() -> None:
    made, _ = books([make_node("n0", SHARED[0]), make_node("n1", SHARED[2])])
    request = made.resolve(made.request_of(pod("p", PART)))
    assert "terrazzo.io/vendor" in made.barred(request)
    made.set_policy(Policy(vendors=("hygon",)))
    found = made.engine.decide(made.resolve(made.request_of(pod("p", PART))))
    assert found is not None
    assert found.node == "n1"


def test_a_pod_that_asks_for_nonsense_is_noted_and_holds_nothing_of_ours() -> None:
    made, noted = books([make_node("n0")])
    made.pod_seen(pod("p", {"terrazzo.io/gpu-cores": 120}))
    assert "120" in noted[-1]
    assert "uid-p" not in made.pods
    made.pod_seen(pod("p", {"terrazzo.io/gpu-cores": 120}, node="n0"))
    held = made.ledger.fleet.allocation("uid-p")
    assert held is not None
    assert not held.uses


def test_a_stripped_annotation_is_written_again() -> None:
    made, _ = books([make_node("n0")])
    found = _decided(made, pod("p", PART))
    bound = pod("p", PART, node="n0", annotations={"terrazzo.io/allocation": holdings.written(found)})
    made.pod_seen(bound)
    (told,) = made.pod_seen(pod("p", PART, node="n0"))
    assert isinstance(told, ins.Rebuild)
    assert told.allocation == made.ledger.fleet.allocation("uid-p")
    check(made.ledger)
