"""A cluster that is ours in part: vendors' nodes go on as they were, HAMi's grants count, and we can be down."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from terrazzo.kube.errors import ApiError
from terrazzo.kube.kinds import MUTATING, NODE, POD, SECRET
from terrazzo.testing.builders import SHARED, make_node
from terrazzo.testing.cluster.audit import leaks
from terrazzo.testing.cluster.kwok import Kwok
from terrazzo.testing.cluster.stack import NAMESPACE_NAME, Stack, pod_object
from terrazzo.testing.cluster.waiting import wait_until

PART = {"terrazzo.io/gpu-memory": "8Gi", "terrazzo.io/gpu-cores": 30}
OURS = {"gpu-0", "gpu-1"}


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with Stack(webhook=True, history=True) as made:
        Kwok(made.plane).start()
        made.add_nodes(make_node(f"gpu-{i}", SHARED[0], 4) for i in range(2))
        made.plane.add_nodes(
            (make_node(f"plain-{i}", SHARED[0], 0) for i in range(18)), managed=False, extended={"nvidia.com/gpu": 2}
        )
        yield made


@pytest.fixture
def namespace(stack: Stack) -> Iterator[str]:
    name = stack.plane.new_namespace()
    yield name
    for pod in stack.plane.admin.list(POD, name):
        stack.plane.admin.delete(POD, pod["metadata"]["name"], name, grace_s=0)
    wait_until(lambda: not leaks(stack.plane), "nothing is left", deadline_s=30)


def put(stack: Stack, namespace: str, name: str, limits: dict[str, Any], **more: Any) -> None:
    more.setdefault("scheduler", "default-scheduler")
    stack.plane.admin.create(POD, pod_object(name, limits, **more), namespace)


def test_a_pod_says_what_it_wants_and_nothing_else(stack: Stack, namespace: str) -> None:
    put(stack, namespace, "part", PART)
    assert stack.wait_bound(["part"], namespace)["part"] in OURS
    pod = stack.pod("part", namespace)
    assert pod
    assert pod["spec"]["schedulerName"] == "terrazzo"
    assert pod["spec"]["containers"][0]["resources"]["limits"]["terrazzo.io/gpu"] == "1"


def test_a_fraction_never_lands_on_a_vendors_node(stack: Stack, namespace: str) -> None:
    names = [f"f{i}" for i in range(10)]
    for name in names:
        put(stack, namespace, name, {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 30000})
    wait_until(lambda: sum(bool(stack.node_of(name, namespace)) for name in names) >= 8, "eight are bound")
    assert {stack.node_of(name, namespace) for name in names} <= OURS | {""}


def test_whole_cards_go_to_either_and_no_card_is_given_twice(stack: Stack, namespace: str) -> None:
    names = [f"w{i}" for i in range(44)]
    for name in names:
        put(stack, namespace, name, {"nvidia.com/gpu": 1})
    bound = stack.wait_bound(names, namespace)
    counts: dict[str, int] = {}
    for node in bound.values():
        counts[node] = counts.get(node, 0) + 1
    assert all(count <= (4 if node in OURS else 2) for node, count in counts.items())
    assert len(counts) == 20
    put(stack, namespace, "more", {"nvidia.com/gpu": 1})
    wait_until(lambda: "FailedScheduling" in stack.event_text("more", namespace), "more is told why")
    stack.plane.admin.delete(POD, "w3", namespace, grace_s=0)
    wait_until(lambda: stack.node_of("more", namespace), "more starts", deadline_s=15)


def test_with_us_down_the_others_go_on(stack: Stack, namespace: str) -> None:
    """100 ordinary pods and 20 whole-card pods start on the 18 vendors' nodes while nothing of ours runs."""
    stack.controller.kill()
    stack.extender.kill()
    stock = stack.plane.make_scheduler("stock", {}, stack.plane.kubeconfig("system:kube-scheduler")).start()
    stack.scheduler.pause()
    try:
        for index in range(100):
            put(stack, namespace, f"o{index}", {"cpu": "100m"})
        for index in range(20):
            put(stack, namespace, f"w{index}", {"nvidia.com/gpu": 1})
        bound = stack.wait_bound([f"o{i}" for i in range(100)] + [f"w{i}" for i in range(20)], namespace)
        assert not OURS & {node for name, node in bound.items() if name.startswith("w")}
        with pytest.raises(ApiError, match="admit"):
            put(stack, namespace, "part", PART)
    finally:
        stock.stop()
        stack.scheduler.resume()
        stack.start_service("scheduler")
        stack.start_service("controller")
    wait_until(lambda: _created(stack, namespace), "pods of ours can be created again", deadline_s=30)
    stack.wait_bound(["part"], namespace)


def _created(stack: Stack, namespace: str) -> bool:
    try:
        put(stack, namespace, "part", PART)
    except ApiError as error:
        return error.status == 409
    return True


def test_grants_of_hami_count_during_a_move(stack: Stack, namespace: str) -> None:
    """A pod that HAMi bound holds what its annotation says, on a node that is ours now."""
    uuid = "gpu-0/nvidia-0"
    annotations = {
        "hami.io/vgpu-devices-allocated": f"{uuid},NVIDIA,81252,100:;",
        "hami.io/vgpu-node": "gpu-0",
    }
    put(stack, namespace, "theirs", {"nvidia.com/gpu": 1}, scheduler="hami-scheduler")
    stack.plane.admin.patch(POD, {"metadata": {"annotations": annotations}}, "theirs", namespace)
    target = {"apiVersion": "v1", "kind": "Node", "name": "gpu-0"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "theirs"}, "target": target}
    stack.plane.admin.call("POST", POD.path(namespace, "theirs", "binding"), binding)
    for index in range(3):
        put(stack, namespace, f"w{index}", {"terrazzo.io/gpu": 1}, nodeSelector={"kubernetes.io/hostname": "gpu-0"})
    stack.wait_bound([f"w{i}" for i in range(3)], namespace)
    put(stack, namespace, "w3", {"terrazzo.io/gpu": 1}, nodeSelector={"kubernetes.io/hostname": "gpu-0"})
    wait_until(lambda: "FailedScheduling" in stack.event_text("w3", namespace), "the fourth is told why")
    stack.plane.admin.delete(POD, "theirs", namespace, grace_s=0)
    stack.wait_bound(["w3"], namespace)


def test_the_service_makes_its_own_certificate_and_keeps_the_registration(stack: Stack, namespace: str) -> None:
    secret = stack.plane.admin.get(SECRET, "terrazzo-webhook-tls", NAMESPACE_NAME)
    assert secret["data"]["tls.crt"]
    hooks = stack.plane.admin.get(MUTATING, "terrazzo")["webhooks"]
    assert all(hook["clientConfig"]["caBundle"] for hook in hooks)
    assert stack.plane.admin.find(NODE, "gpu-0")
    put(stack, namespace, "again", PART)
    stack.wait_bound(["again"], namespace)
