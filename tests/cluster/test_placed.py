"""Every vendor through a real kube-scheduler, in both ledgers: bound, written, counted, given back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from terrazzo.dialects import holdings, inventory
from terrazzo.kube.kinds import CLAIM, NODE, POD
from terrazzo.testing.builders import CUT, SHARED, Kind, make_node
from terrazzo.testing.cluster.audit import leaks, over_granted
from terrazzo.testing.cluster.kwok import Kwok
from terrazzo.testing.cluster.stack import Stack, pod_object
from terrazzo.testing.cluster.waiting import wait_until
from terrazzo.wire import kubernetes as k8s

KINDS = (*SHARED, CUT[0])
OWN_WORDS = {
    "nvidia": {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 8000, "nvidia.com/gpucores": 25},
    "ascend": {"huawei.com/Ascend910B3": 1, "huawei.com/Ascend910B3-memory": 8000},
    "cambricon": {"cambricon.com/vmlu": 1, "cambricon.com/mlu.smlu.vmemory": 30, "cambricon.com/mlu.smlu.vcore": 25},
    "hygon": {"hygon.com/dcunum": 1, "hygon.com/dcumem": 8000, "hygon.com/dcucores": 25},
    "mthreads": {"mthreads.com/vgpu": 1, "mthreads.com/sgpu-memory": 16, "mthreads.com/sgpu-core": 4},
}
WHOLE = {
    "nvidia": "nvidia.com/gpu", "ascend": "huawei.com/Ascend910", "cambricon": "cambricon.com/mlu",
    "hygon": "hygon.com/dcu", "mthreads": "mthreads.com/gpu",
}  # fmt: skip
LEDGERS = [("1.37", "dra"), ("1.37", "classic"), ("1.35", "auto")]


@pytest.fixture(scope="module", params=LEDGERS, ids="-".join)
def stack(request: pytest.FixtureRequest) -> Iterator[Stack]:
    version, ledger = request.param
    with Stack(version, ledger=ledger, history=True) as made:
        Kwok(made.plane).start()
        made.add_nodes([make_node(f"{kind}".lower(), kind, 4) for kind in KINDS])
        yield made


@pytest.fixture
def namespace(stack: Stack) -> Iterator[str]:
    name = stack.plane.new_namespace()
    yield name
    for pod in stack.plane.admin.list(POD, name):
        stack.plane.admin.delete(POD, pod["metadata"]["name"], name, grace_s=0)
    wait_until(lambda: not leaks(stack.plane), "nothing is left", deadline_s=30)
    over_granted(stack.plane)


def _granted(stack: Stack, name: str, namespace: str) -> Any:
    pod = msgspec.convert(stack.pod(name, namespace), k8s.Pod)
    nodes = {n.name: n for n in inventory.read_nodes(msgspec.convert(stack.plane.admin.list(NODE), list[k8s.Node]))}
    return holdings.read(pod, nodes)


def _put(stack: Stack, namespace: str, *pods: dict[str, Any]) -> None:
    for pod in pods:
        stack.plane.admin.create(POD, pod, namespace)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_part_of_a_device_of_every_vendor(stack: Stack, namespace: str, kind: Kind) -> None:
    limits = {"terrazzo.io/gpu": 1, "terrazzo.io/gpu-memory": "4Gi", "terrazzo.io/gpu-cores": 10}
    pin = {"kubernetes.io/hostname": f"{kind}".lower()}
    annotations = {"terrazzo.io/vendor": kind.vendor}
    _put(stack, namespace, pod_object("part", limits, annotations=annotations, nodeSelector=pin))
    node = stack.wait_bound(["part"], namespace)["part"]
    held = _granted(stack, "part", namespace)
    assert held.node == node == f"{kind}".lower()
    (grant,) = held.containers[0].devices
    assert grant.memory_mib >= 4096
    assert not grant.whole
    claims = stack.plane.admin.list(CLAIM, namespace) if stack.plane.version != "1.35" else []
    assert len(claims) == (stack.ledger == "dra")


@pytest.mark.parametrize("kind", SHARED, ids=str)
def test_the_same_in_the_vendors_own_words(stack: Stack, namespace: str, kind: Kind) -> None:
    _put(stack, namespace, pod_object("own", OWN_WORDS[kind.vendor]))
    stack.wait_bound(["own"], namespace)
    held = _granted(stack, "own", namespace)
    assert held.node.startswith(kind.vendor)


@pytest.mark.parametrize("kind", SHARED, ids=str)
def test_whole_devices_in_the_vendors_word(stack: Stack, namespace: str, kind: Kind) -> None:
    pin = {"kubernetes.io/hostname": f"{kind}".lower()}
    _put(stack, namespace, *(pod_object(f"w{i}", {WHOLE[kind.vendor]: 1}, nodeSelector=pin) for i in range(4)))
    stack.wait_bound([f"w{i}" for i in range(4)], namespace)
    uuids = {_granted(stack, f"w{i}", namespace).uses[0].uuid for i in range(4)}
    assert len(uuids) == 4
    _put(stack, namespace, pod_object("late", {WHOLE[kind.vendor]: 1}, nodeSelector=pin))
    told = ("short", "held", "in use")
    wait_until(lambda: any(word in stack.event_text("late", namespace) for word in told), "late is told why")
    stack.plane.admin.delete(POD, "w2", namespace, grace_s=0)
    stack.wait_bound(["late"], namespace, seconds=20)


def test_several_containers_with_their_own_devices(stack: Stack, namespace: str) -> None:
    pod = pod_object("many", {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 4000})
    first = pod["spec"]["containers"][0]
    pod["spec"]["containers"].append({**first, "name": "second", "resources": {"limits": {"nvidia.com/gpu": 2}}})
    pod["spec"]["initContainers"] = [{**first, "name": "before"}]
    _put(stack, namespace, pod)
    stack.wait_bound(["many"], namespace)
    held = _granted(stack, "many", namespace)
    assert {each.container: len(each.devices) for each in held.containers} == {"before": 1, "main": 1, "second": 2}


def test_examples_can_be_applied_as_they_are(stack: Stack, namespace: str) -> None:
    examples = Path(__file__).parents[2] / "examples"
    stack.plane.apply(examples / "one-card" / "pods.yaml", namespace=namespace)
    names = [doc["metadata"]["name"] for doc in yaml.safe_load_all((examples / "one-card" / "pods.yaml").read_text())]
    stack.policy("vendors: [nvidia]")
    bound = stack.wait_bound(names, namespace)
    assert set(bound.values()) <= {"nvidia-a100-80", "nvidia-a100-80-geometry"}
    stack.policy("{}")
