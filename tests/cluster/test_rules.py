"""Kubernetes keeps its say: its own rules hold for pods that we place, and a mixed cluster stays a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from terrazzo.kube.errors import Forbidden
from terrazzo.kube.kinds import BUDGET, NODE, POD, Kind
from terrazzo.model.node import Taint
from terrazzo.testing.builders import SHARED, make_node
from terrazzo.testing.cluster.audit import leaks, over_granted
from terrazzo.testing.cluster.kwok import COMPLETES, Kwok
from terrazzo.testing.cluster.nodes import node_object
from terrazzo.testing.cluster.stack import Stack, pod_object
from terrazzo.testing.cluster.waiting import wait_until

QUOTA = Kind("", "v1", "resourcequotas", "ResourceQuota")
LIMIT_RANGE = Kind("", "v1", "limitranges", "LimitRange")
PRIORITY = Kind("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
DAEMON_SET = Kind("apps", "v1", "daemonsets", "DaemonSet")
PART = {"terrazzo.io/gpu": 1, "terrazzo.io/gpu-memory": "8Gi"}
ZONE = "topology.kubernetes.io/zone"


@pytest.fixture(scope="module", params=["dra", "classic"])
def stack(request: pytest.FixtureRequest) -> Iterator[Stack]:
    with Stack(ledger=request.param, history=True) as made:
        Kwok(made.plane).start()
        nodes = [make_node(f"gpu-{i}", SHARED[0], 2, labels={ZONE: f"z{i % 2}"}) for i in range(4)]
        made.add_nodes([*nodes, make_node("tainted", SHARED[0], 2, taints=(Taint("team", "ml"),))])
        for name, value in (("dear", 1000), ("cheap", -10)):
            made.plane.admin.create(PRIORITY, {"metadata": {"name": name}, "value": value})
        yield made


@pytest.fixture
def namespace(stack: Stack) -> Iterator[str]:
    name = stack.plane.new_namespace()
    yield name
    for pod in stack.plane.admin.list(POD, name):
        stack.plane.admin.delete(POD, pod["metadata"]["name"], name, grace_s=0)
    wait_until(lambda: not leaks(stack.plane), "nothing is left", deadline_s=30)
    over_granted(stack.plane)


def put(stack: Stack, namespace: str, *pods: dict[str, Any]) -> list[str]:
    for pod in pods:
        stack.plane.admin.create(POD, pod, namespace)
    return [pod["metadata"]["name"] for pod in pods]


def told(stack: Stack, namespace: str, name: str, *words: str) -> str:
    def said() -> str:
        text = stack.event_text(name, namespace)
        return text if all(word in text for word in words) else ""

    return wait_until(said, f"{name} is told {words}: {stack.event_text(name, namespace)}", deadline_s=20)


def whole(name: str, count: int = 2, **spec: Any) -> dict[str, Any]:
    return pod_object(name, {"nvidia.com/gpu": count}, **spec)


def test_taints_keep_pods_away_and_tolerations_let_them_in(stack: Stack, namespace: str) -> None:
    pin = {"kubernetes.io/hostname": "tainted"}
    tolerations = [{"key": "team", "operator": "Exists"}]
    put(stack, namespace, pod_object("no", PART, nodeSelector=pin))
    put(stack, namespace, pod_object("yes", PART, nodeSelector=pin, tolerations=tolerations))
    assert stack.wait_bound(["yes"], namespace)["yes"] == "tainted"
    told(stack, namespace, "no", "untolerated taint")


def test_required_affinity_and_anti_affinity(stack: Stack, namespace: str) -> None:
    apart = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "kubernetes.io/hostname"}
            ]
        }
    }
    names = put(stack, namespace, *(pod_object(f"a{i}", PART, labels={"app": "a"}, affinity=apart) for i in range(4)))
    assert len(set(stack.wait_bound(names, namespace).values())) == 4


def test_preferred_affinity_has_a_visible_effect(stack: Stack, namespace: str) -> None:
    """Alone we would put all of these on one node; what the author prefers comes first."""

    def prefers(node: str) -> dict[str, Any]:
        term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
        rule = [{"weight": 100, "preference": term}]
        return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": rule}}

    for index in range(4):
        put(stack, namespace, pod_object(f"p{index}", PART, affinity=prefers(f"gpu-{index}")))
    bound = stack.wait_bound([f"p{i}" for i in range(4)], namespace)
    assert bound == {f"p{i}": f"gpu-{i}" for i in range(4)}


def test_topology_spread(stack: Stack, namespace: str) -> None:
    for action in ("DoNotSchedule", "ScheduleAnyway"):
        rule = {
            "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": action,
            "labelSelector": {"matchLabels": {"app": action.lower()}},
        }  # fmt: skip
        pods = [
            pod_object(
                f"{action.lower()}{i}", PART, labels={"app": action.lower()}, topologySpreadConstraints=[rule],
                nodeSelector={"kubernetes.io/os": "linux"},
            )
            for i in range(4)
        ]  # fmt: skip
        bound = stack.wait_bound(put(stack, namespace, *pods), namespace)
        zones = [stack.plane.admin.get(NODE, node)["metadata"]["labels"].get(ZONE) for node in bound.values()]
        assert sorted(zones) == ["z0", "z0", "z1", "z1"]


def test_resource_quota_on_our_names(stack: Stack, namespace: str) -> None:
    hard = {"requests.terrazzo.io/gpu": "2", "requests.terrazzo.io/gpu-memory": "20Gi"}
    stack.plane.admin.create(QUOTA, {"metadata": {"name": "q"}, "spec": {"hard": hard}}, namespace)
    wait_until(lambda: stack.plane.admin.get(QUOTA, "q", namespace).get("status", {}).get("used"), "quota counts")
    put(stack, namespace, pod_object("a", PART), pod_object("b", PART))
    with pytest.raises(Forbidden, match="exceeded quota"):
        put(stack, namespace, pod_object("c", PART))
    stack.wait_bound(["a", "b"], namespace)


def test_limit_range_fills_in_what_is_not_said(stack: Stack, namespace: str) -> None:
    limit = {"type": "Container", "default": {"cpu": "2", "memory": "1Gi"}, "max": {"cpu": "4"}}
    stack.plane.admin.create(LIMIT_RANGE, {"metadata": {"name": "l"}, "spec": {"limits": [limit]}}, namespace)
    put(stack, namespace, pod_object("a", PART))
    stack.wait_bound(["a"], namespace)
    pod = stack.pod("a", namespace)
    assert pod
    assert pod["spec"]["containers"][0]["resources"]["limits"]["cpu"] == "2"


def test_scheduling_gates_of_others_are_respected(stack: Stack, namespace: str) -> None:
    put(stack, namespace, pod_object("gated", PART, schedulingGates=[{"name": "kueue.x-k8s.io/admission"}]))
    put(stack, namespace, pod_object("free", PART))
    stack.wait_bound(["free"], namespace)
    pod = stack.pod("gated", namespace)
    assert pod
    assert not pod["spec"].get("nodeName")
    assert pod["spec"]["schedulingGates"]
    stack.plane.admin.patch(POD, {"spec": {"schedulingGates": None}}, "gated", namespace)
    stack.wait_bound(["gated"], namespace)


def test_daemon_set(stack: Stack, namespace: str) -> None:
    template = pod_object("x", PART, labels={"app": "d"})
    template["spec"]["nodeSelector"] = {ZONE: "z0"}
    spec = {"selector": {"matchLabels": {"app": "d"}}, "template": template}
    stack.plane.admin.create(DAEMON_SET, {"metadata": {"name": "d"}, "spec": spec}, namespace)

    def bound() -> set[str] | None:
        pods = stack.plane.admin.list(POD, namespace)
        nodes = {pod["spec"].get("nodeName", "") for pod in pods}
        return nodes if len(pods) == 2 and "" not in nodes else None

    assert wait_until(bound, "one a node") == {"gpu-0", "gpu-2"}
    stack.plane.admin.delete(DAEMON_SET, "d", namespace)


def test_host_network_ports_do_not_clash(stack: Stack, namespace: str) -> None:
    pods = [pod_object(f"h{i}", PART, hostNetwork=True) for i in range(2)]
    for pod in pods:
        pod["spec"]["containers"][0]["ports"] = [{"containerPort": 8080}]
    bound = stack.wait_bound(put(stack, namespace, *pods), namespace)
    assert bound["h0"] != bound["h1"]


def test_pods_start_within_two_seconds_of_a_release(stack: Stack, namespace: str) -> None:
    fill = put(stack, namespace, *(whole(f"f{i}") for i in range(4)))
    stack.wait_bound(fill, namespace)
    put(stack, namespace, whole("late"))
    told(stack, namespace, "late", "FailedScheduling", "WaitsForDevices")
    stack.plane.admin.delete(POD, "f1", namespace, grace_s=0)
    wait_until(lambda: stack.node_of("late", namespace), "late starts", deadline_s=5)


def test_completed_pods_give_their_devices_back(stack: Stack, namespace: str) -> None:
    fill = put(stack, namespace, *(whole(f"f{i}", annotations={COMPLETES: "1500ms"}) for i in range(4)))
    stack.wait_bound(fill, namespace)
    names = put(stack, namespace, *(whole(f"n{i}") for i in range(4)))
    stack.wait_bound(names, namespace, seconds=30)


def test_a_dear_pod_gets_devices_from_the_cheapest_victims(stack: Stack, namespace: str) -> None:
    fill = put(
        stack,
        namespace,
        whole("normal0"),
        whole("normal1"),
        whole("normal2"),
        whole("cheap", priorityClassName="cheap"),
    )
    stack.wait_bound(fill, namespace)
    before = {name: stack.node_of(name, namespace) for name in fill}
    put(stack, namespace, whole("dear", priorityClassName="dear"))
    assert stack.wait_bound(["dear"], namespace, seconds=40)["dear"] == before["cheap"]
    assert all(stack.pod(name, namespace) for name in fill[:3])


def test_disruption_budgets_are_honoured(stack: Stack, namespace: str) -> None:
    fill = put(stack, namespace, *(whole(f"kept{i}", labels={"app": "kept"}) for i in range(4)))
    stack.wait_bound(fill, namespace)
    spec = {"minAvailable": 4, "selector": {"matchLabels": {"app": "kept"}}}
    stack.plane.admin.create(BUDGET, {"metadata": {"name": "b"}, "spec": spec}, namespace)
    wait_until(lambda: stack.plane.admin.get(BUDGET, "b", namespace)["status"].get("currentHealthy") == 4, "counted")
    put(stack, namespace, whole("dear", priorityClassName="dear"))
    told(stack, namespace, "dear", "FailedScheduling")
    with pytest.raises(Exception, match="in vain"):
        wait_until(lambda: stack.node_of("dear", namespace), "dear starts", deadline_s=6)
    assert all(stack.pod(name, namespace) for name in fill)
    assert not (stack.pod("dear", namespace) or {}).get("status", {}).get("nominatedNodeName")
    stack.plane.admin.patch(BUDGET, {"spec": {"minAvailable": 3}}, "b", namespace)
    stack.wait_bound(["dear"], namespace, seconds=60)
    assert sum(stack.pod(name, namespace) is not None for name in fill) == 3


def test_no_bystander_is_evicted(stack: Stack, namespace: str) -> None:
    """A cheap pod without devices on a node where the dear one would not fit either is left alone."""
    fill = put(stack, namespace, *(whole(f"f{i}", priorityClassName="dear") for i in range(4)))
    stack.wait_bound(fill, namespace)
    idle = pod_object("bystander", {"cpu": "1"}, priorityClassName="cheap", scheduler="terrazzo")
    put(stack, namespace, idle)
    stack.wait_bound(["bystander"], namespace)
    put(stack, namespace, whole("equal", priorityClassName="dear"))
    told(stack, namespace, "equal", "FailedScheduling")
    with pytest.raises(Exception, match="in vain"):
        wait_until(lambda: stack.pod("bystander", namespace) is None, "it is evicted", deadline_s=4)
    assert all(stack.pod(name, namespace) for name in fill)


def test_cpu_and_memory_are_counted_too(stack: Stack, namespace: str) -> None:
    tight = [node_object(make_node(f"tight-{i}", SHARED[0], 8, cpu_milli=8000, memory_mib=16384)) for i in range(2)]
    for each in tight:
        each["spec"]["taints"] = [{"key": "tight", "effect": "NoSchedule", "value": ""}]
    stack.add_node_objects(tight)
    tolerations = [{"key": "tight", "operator": "Exists"}]
    pin = {"kubernetes.io/os": "linux"}
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [
                            {"key": "kubernetes.io/hostname", "operator": "In", "values": ["tight-0", "tight-1"]}
                        ]
                    }
                ]
            }
        }
    }
    pods = [
        pod_object(
            f"c{i}", {"terrazzo.io/gpu": 1, "terrazzo.io/gpu-memory": "2Gi", "cpu": "2"}, tolerations=tolerations,
            affinity=affinity, nodeSelector=pin,
        )
        for i in range(10)
    ]  # fmt: skip
    put(stack, namespace, *pods)

    def eight() -> bool:
        return sum(bool(stack.node_of(f"c{i}", namespace)) for i in range(10)) == 8

    wait_until(eight, "eight of ten are bound, as CPU allows")
    wait_until(
        lambda: "CPU" in stack.all_event_text(namespace) or "Insufficient cpu" in stack.all_event_text(namespace),
        "told",
    )
    for i in range(2):
        stack.plane.admin.delete(NODE, f"tight-{i}")
