"""Objects vanish or turn up under our hands: nodes, pods of one name, device classes, claims."""

from __future__ import annotations

import time
from typing import Any

import pytest
from settling import holds

from terrazzo.kube.kinds import CLAIM, DEVICE_CLASS, NODE, POD, Kind
from terrazzo.testing.cluster.audit import leaks
from terrazzo.testing.cluster.stack import Stack, pod_object
from terrazzo.testing.cluster.waiting import wait_until

STATEFUL_SET = Kind("apps", "v1", "statefulsets", "StatefulSet")
PART = {"terrazzo.io/gpu": 1, "terrazzo.io/gpu-memory": "8Gi"}
SETTLES_S = 10


def test_node_deleted_with_pods_on_it(stack: Stack) -> None:
    for index in range(12):
        stack.plane.admin.create(POD, pod_object(f"p{index}", PART), "default")
    bound = stack.wait_bound([f"p{i}" for i in range(12)])
    gone = bound["p0"]
    stack.plane.admin.delete(NODE, gone)
    lost = [name for name, node in bound.items() if node == gone]
    wait_until(lambda: not any(stack.pod(name) for name in lost), "its pods are collected", deadline_s=90)
    stack.plane.admin.create(POD, pod_object("next", PART), "default")
    assert stack.wait_bound(["next"])["next"] != gone
    wait_until(lambda: not leaks(stack.plane), "nothing is left over", deadline_s=SETTLES_S)


def _uid(stack: Stack, name: str) -> str:
    return str((stack.pod(name) or {}).get("metadata", {}).get("uid", ""))


def test_stateful_set_pods_replaced_under_the_same_name(stack: Stack) -> None:
    template = pod_object("x", PART, labels={"app": "db"})
    spec = {"serviceName": "db", "replicas": 3, "selector": {"matchLabels": {"app": "db"}}, "template": template}
    spec["podManagementPolicy"] = "Parallel"
    stack.plane.admin.create(STATEFUL_SET, {"metadata": {"name": "db"}, "spec": spec}, "default")
    names = [f"db-{i}" for i in range(3)]
    for _ in range(8):
        stack.wait_bound(names)
        before = {name: _uid(stack, name) for name in names}
        for name in names:
            stack.plane.admin.delete(POD, name, "default", grace_s=0)

        def replaced(before: dict[str, str] = before) -> bool:
            return all(_uid(stack, name) not in {"", before[name]} for name in names)

        wait_until(replaced, "all are replaced")
    stack.wait_bound(names)
    holds(stack)


@pytest.mark.parametrize("stack", ["dra"], indirect=True)
def test_a_device_class_that_takes_a_name_away(stack: Stack) -> None:
    body = {"metadata": {"name": "theirs"}, "spec": {"extendedResourceName": "nvidia.com/gpu"}}
    stack.plane.admin.create(DEVICE_CLASS, body)
    time.sleep(0.5)
    stack.plane.admin.create(POD, pod_object("hijacked", {"nvidia.com/gpu": 1}), "default")
    stack.plane.admin.create(POD, pod_object("ours", PART), "default")
    stack.wait_bound(["ours"])
    wait_until(lambda: "theirs" in stack.event_text("hijacked") or "claims" in stack.event_text("hijacked"), "told why")
    assert not stack.node_of("hijacked")
    stack.plane.admin.delete(DEVICE_CLASS, "theirs")
    stack.wait_bound(["hijacked"], seconds=30)
    holds(stack)


@pytest.mark.parametrize("stack", ["dra"], indirect=True)
def test_a_claim_deleted_by_hand_is_rebuilt_under_its_name(stack: Stack) -> None:
    stack.plane.admin.create(POD, pod_object("p", PART), "default")
    stack.wait_bound(["p"])
    (claim,) = stack.plane.admin.list(CLAIM, "default")
    name, uid = claim["metadata"]["name"], claim["metadata"]["uid"]
    stack.plane.admin.patch(CLAIM, {"metadata": {"finalizers": None}}, name, "default")
    stack.plane.admin.delete(CLAIM, name, "default")

    def rebuilt() -> Any:
        found = stack.plane.admin.find(CLAIM, name, "default")
        return (
            found if found and found["metadata"]["uid"] != uid and found.get("status", {}).get("allocation") else None
        )

    again = wait_until(rebuilt, "the claim is there again", deadline_s=30)
    assert again["status"]["allocation"]["devices"] == claim["status"]["allocation"]["devices"]
    holds(stack)
