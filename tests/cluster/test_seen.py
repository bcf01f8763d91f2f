"""What the services notice and tell: sick devices, a backlog, and books that are right after a restart."""

from __future__ import annotations

import msgspec
import pytest

from terrazzo.dialects.inventory import publish
from terrazzo.kube.kinds import NODE, POD
from terrazzo.model.device import Health
from terrazzo.testing.builders import SHARED, Kind, make_node
from terrazzo.testing.cluster.audit import leaks
from terrazzo.testing.cluster.nodes import node_object
from terrazzo.testing.cluster.stack import Stack, pod_object
from terrazzo.testing.cluster.waiting import wait_until
from terrazzo.wire.state import INVENTORY

PART = {"terrazzo.io/gpu": 1, "terrazzo.io/gpu-memory": "8Gi"}


@pytest.mark.parametrize("stack", ["classic"], indirect=True)
@pytest.mark.parametrize("kind", SHARED, ids=str)
def test_a_sick_device_is_told_and_takes_nobody_until_it_is_well(stack: Stack, kind: Kind) -> None:
    node = make_node("sick", kind, 1)
    stack.add_node_objects([node_object(node, labels={"only": "this"})])

    def say(health: Health, reason: str) -> None:
        device = msgspec.structs.replace(node.devices[0], health=health, health_reason=reason)
        text = publish(msgspec.structs.replace(node, devices=(device,)), ledger="classic")
        stack.plane.admin.patch(NODE, {"metadata": {"annotations": {INVENTORY: text}}}, "sick")

    def put(name: str) -> None:
        annotations = {"terrazzo.io/vendor": kind.vendor}
        pod = pod_object(name, PART, annotations=annotations, nodeSelector={"only": "this"})
        stack.plane.admin.create(POD, pod, "default")

    put("holder")
    stack.wait_bound(["holder"])
    say(Health.DEGRADED, "the vendor says so")
    wait_until(lambda: "the vendor says so" in stack.event_text("holder"), "its holder is told")
    put("late")
    wait_until(lambda: "healthy" in stack.event_text("late"), "the next is told why")
    assert not stack.node_of("late")
    say(Health.HEALTHY, "")
    stack.wait_bound(["late"], seconds=20)


def test_a_backlog_is_nominated_and_no_nomination_is_left(stack: Stack) -> None:
    limits = {"terrazzo.io/gpu": 1, "terrazzo.io/gpu-memory": "512Mi"}
    stack.scheduler.pause()
    stack.plane.admin.create_all(POD, [pod_object(f"p{i}", limits) for i in range(120)], "default")
    wait_until(lambda: "nominated" in stack.metrics(), "nodes are nominated", deadline_s=30)
    stack.scheduler.resume()
    stack.wait_bound([f"p{i}" for i in range(120)], seconds=90)
    wait_until(lambda: not leaks(stack.plane), "nothing is left over", deadline_s=30)


def test_books_are_right_after_both_services_were_away(stack: Stack) -> None:
    names = [f"p{i}" for i in range(16)]
    stack.plane.admin.create_all(POD, [pod_object(n, {"terrazzo.io/gpu": 1}) for n in names], "default")
    stack.wait_bound(names)
    stack.extender.kill()
    stack.controller.kill()
    for name in names[:4]:
        stack.plane.admin.delete(POD, name, "default", grace_s=0)
    stack.start_service("scheduler")
    stack.start_service("controller")
    more = [f"q{i}" for i in range(5)]
    stack.plane.admin.create_all(POD, [pod_object(n, {"terrazzo.io/gpu": 1}) for n in more], "default")
    wait_until(lambda: sum(bool(stack.node_of(n)) for n in more) == 4, "four find a place, the fifth does not")
    wait_until(lambda: not leaks(stack.plane), "nothing is left over", deadline_s=30)
