"""Many pods: CPU and memory are counted with devices, waiting costs next to nothing, a release starts who fits."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from terrazzo.kube.kinds import POD, Kind
from terrazzo.model.quantity import milli
from terrazzo.testing.builders import SHARED, make_node
from terrazzo.testing.cluster.audit import leaks, over_granted
from terrazzo.testing.cluster.kwok import Kwok
from terrazzo.testing.cluster.stack import Stack, pod_object
from terrazzo.testing.cluster.waiting import wait_until

PRIORITY = Kind("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
WHOLE = {"terrazzo.io/gpu": 2}
GATE = [{"name": "terrazzo.io/devices"}]


def test_two_thousand_mixed_pods_at_95_percent_of_the_cpu() -> None:
    with Stack(history=True) as stack:
        Kwok(stack.plane).start()
        stack.add_nodes(make_node(f"n{i}", SHARED[0], 8, cpu_milli=128_000, max_pods=200) for i in range(20))
        pods = []
        for index in range(2000):
            limits: dict[str, Any] = {"cpu": "1216m", "memory": "64Mi"}
            if index % 2:
                limits |= {"terrazzo.io/gpu": 1, "terrazzo.io/gpu-memory": "4Gi", "terrazzo.io/gpu-cores": 5}
            pods.append(pod_object(f"p{index}", limits))
        stack.plane.admin.create_all(POD, pods, "default")
        bound = stack.wait_bound([f"p{i}" for i in range(2000)], seconds=600)
        used = Counter(bound.values())
        assert all(count * milli("1216m") <= 128_000 for count in used.values())
        over_granted(stack.plane)


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with Stack(webhook=True, settings={"crowd": 5}) as made:
        Kwok(made.plane).start()
        made.add_nodes(make_node(f"gpu-{i}", SHARED[0], 2) for i in range(3))
        yield made


def _filtered(stack: Stack) -> float:
    found = re.findall(
        r'^terrazzo_decisions_total\{[^}]*verb="filter"[^}]*\} (\S+)', stack.metrics("scheduler"), re.MULTILINE
    )
    return sum(map(float, found))


def test_a_crowd_waits_behind_gates_and_who_fits_is_let_in(stack: Stack) -> None:
    admin = stack.plane.admin
    for index in range(3):
        admin.create(POD, pod_object(f"holder{index}", WHOLE, scheduler="default-scheduler"), "default")
    stack.wait_bound([f"holder{i}" for i in range(3)])
    for index in range(5):
        admin.create(POD, pod_object(f"first{index}", WHOLE, scheduler="default-scheduler"), "default")
    wait_until(lambda: all("FailedScheduling" in stack.event_text(f"first{i}") for i in range(5)), "five are told why")
    for index in range(40):
        admin.create(POD, pod_object(f"crowd{index}", WHOLE, scheduler="default-scheduler"), "default")
    gated = [p for p in admin.list(POD, "default") if p["spec"].get("schedulingGates") == GATE]
    assert len(gated) == 40
    told = wait_until(lambda: stack.event_text("crowd0"), "the crowd is told what it waits for")
    assert "WaitsForDevices" in told
    admin.create(PRIORITY, {"metadata": {"name": "dear"}, "value": 1000})
    admin.create(POD, pod_object("dear", WHOLE, scheduler="default-scheduler", priorityClassName="dear"), "default")
    stack.wait_bound(["dear"], seconds=30)
    admin.delete(POD, "dear", "default", grace_s=0)
    wait_until(lambda: not stack.pod("dear"), "dear is gone")
    time.sleep(3)
    before = _filtered(stack)
    time.sleep(10)
    assert _filtered(stack) - before <= 10, "waiting costs kube-scheduler next to nothing"

    def running() -> int:
        pods = admin.list(POD, "default")
        return sum(bool(p["spec"].get("nodeName")) for p in pods)

    wait_until(lambda: running() == 3, "somebody starts in its place", deadline_s=20)
    for pod in [p for p in admin.list(POD, "default") if p["spec"].get("nodeName")]:
        admin.delete(POD, pod["metadata"]["name"], "default", grace_s=0)
        wait_until(lambda: running() == 3, "somebody starts in its place", deadline_s=10)
    left = [p for p in admin.list(POD, "default") if p["spec"].get("schedulingGates") == GATE]
    assert len(left) >= 36, "nobody was let in without a place"
    for pod in admin.list(POD, "default"):
        admin.delete(POD, pod["metadata"]["name"], "default", grace_s=0)
    wait_until(lambda: not leaks(stack.plane), "nothing is left", deadline_s=30)


def test_a_pod_gets_the_image_of_the_vendor_it_landed_on(stack: Stack) -> None:
    stack.policy(
        "images:\n- image: example.test/app:*\n  vendors: [nvidia]\n  images: {nvidia: example.test/app-cuda:1}\n"
    )
    time.sleep(1)
    limits = {"terrazzo.io/gpu-memory": "4Gi"}
    stack.plane.admin.create(POD, pod_object("image", limits, scheduler="default-scheduler"), "default")
    stack.wait_bound(["image"])
    pod = stack.pod("image")
    assert pod
    assert pod["spec"]["containers"][0]["image"] == "example.test/app-cuda:1"
    stack.plane.admin.delete(POD, "image", "default", grace_s=0)
