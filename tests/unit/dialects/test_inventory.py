"""Nodes of a dump: host facts, which reader wins, our own inventory and its way back."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from terrazzo.dialects import catalogue, inventory
from terrazzo.model.device import Device, Health, SharingMode
from terrazzo.model.errors import InputError
from terrazzo.model.node import Node, Taint
from terrazzo.model.unknown import Unknown
from terrazzo.wire import kubernetes as k8s
from terrazzo.wire import state


def read(*bodies: dict[str, Any]) -> list[Node]:
    return inventory.read_nodes(msgspec.convert(bodies, list[k8s.Node]))


def ours(devices: list[dict[str, Any]], name: str = "n1", **more: Any) -> dict[str, Any]:
    text = json.dumps({"v": 1, "generation": 1, "devices": devices})
    return {"metadata": {"name": name, "annotations": {state.INVENTORY: text}}, **more}


def test_host_facts() -> None:
    node = read(
        {
            "metadata": {"name": "n1", "labels": {"zone": "a"}},
            "spec": {"unschedulable": True, "taints": [{"key": "k", "value": "v", "effect": "NoExecute"}]},
            "status": {
                "allocatable": {
                    "cpu": "1930m", "memory": "5752532Ki", "pods": "110", "rdma/hca": "4", "nvidia.com/gpu": "1",
                    "hugepages-2Mi": "0", "ephemeral-storage": "1G",
                },
                "conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "Unknown"}],
            },
        }
    )[0]  # fmt: skip
    assert (node.cpu_milli, node.memory_mib, node.max_pods) == (1930, 5618, 110)
    assert node.labels == {"zone": "a"}
    assert node.taints == (Taint("k", "v", "NoExecute"),)
    assert (node.unschedulable, node.ready) == (True, False)
    assert node.other == {"rdma/hca": 4}
    assert len(node.devices) == 1


def test_what_is_not_stated_is_not_zero() -> None:
    node = read({"metadata": {"name": "n1"}})[0]
    assert (node.cpu_milli, node.memory_mib, node.max_pods, node.ready) == (None, None, None, True)
    assert (node.devices, node.unknowns, node.other) == ((), (), {})


def test_our_own_inventory_wins_over_all_others() -> None:
    body = ours([{"uuid": "GPU-1", "vendor": "nvidia", "model": "T4", "mib": 15000}])
    body["metadata"]["annotations"]["hami.io/node-nvidia-register"] = "GPU-9,10,15360,100,NVIDIA-Tesla T4,0,true:"
    body["metadata"]["labels"] = {"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.count": "4"}
    body["status"] = {"allocatable": {"nvidia.com/gpu": "4", "hygon.com/dcu": "2"}}
    assert [(device.uuid, device.memory_mib) for device in read(body)[0].devices] == [("GPU-1", 15000)]


def test_one_vendor_is_told_once_and_two_vendors_both() -> None:
    body = {
        "metadata": {
            "name": "n1",
            "labels": {"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.count": "4"},
            "annotations": {"hami.io/node-nvidia-register": "GPU-9,10,15360,100,NVIDIA-Tesla T4,0,true:"},
        },
        "status": {"allocatable": {"nvidia.com/gpu": "10", "huawei.com/Ascend910B4": "1", "amd.com/gpu": "2"}},
    }
    found = read(body)[0].devices
    assert [(device.vendor, device.uuid) for device in found] == [
        ("nvidia", "GPU-9"), ("ascend", "n1/ascend-0"), ("amd", "n1/amd-0"), ("amd", "n1/amd-1"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("bodies", "where", "what"),
    [
        ([{"metadata": {"name": "n1"}}, {"metadata": {"name": "n1"}}], "node n1", "twice"),
        ([{"metadata": {}}], "node", "no metadata.name"),
        ([{"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "much"}}}], "node n1: status.allocatable[cpu]",
         "not a quantity"),
        ([{"metadata": {"name": "n1"}, "status": {"allocatable": {"memory": "8GB"}}}],
         "node n1: status.allocatable[memory]", "suffix"),
    ],
)  # fmt: skip
def test_bad_nodes_are_said(bodies: list[dict[str, Any]], where: str, what: str) -> None:
    with pytest.raises(InputError) as caught:
        read(*bodies)
    assert caught.value.where == where
    assert what in caught.value.what


GOOD = {"uuid": "GPU-1", "vendor": "nvidia", "model": "T4", "mib": 15000}


@pytest.mark.parametrize(
    "row",
    [
        {**GOOD, "mode": "sideways"},
        {**GOOD, "health": "so-so"},
        {**GOOD, "geometry": "nobody's"},
        {**GOOD, "mib": 0},
        {**GOOD, "mib": -1},
        {**GOOD, "mib": 1 << 50},
        {**GOOD, "units": 0},
        {**GOOD, "step": 0},
        {**GOOD, "sharers": 0},
        {**GOOD, "foreign_mib": -1},
        {**GOOD, "uuid": ""},
        {**GOOD, "mib": "many"},
    ],
)
def test_damage_in_our_own_is_said_with_its_place(row: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        read(ours([row]))
    assert caught.value.where.startswith(f"node n1: annotation {state.INVENTORY}")


def test_our_own_names_no_device_twice() -> None:
    with pytest.raises(InputError, match="GPU-1 twice") as caught:
        read(ours([GOOD, GOOD]))
    assert caught.value.where == f"node n1: annotation {state.INVENTORY}"


def test_newer_inventory_is_refused_in_a_sentence() -> None:
    body = {"metadata": {"name": "n1", "annotations": {state.INVENTORY: '{"v": 7}'}}}
    with pytest.raises(InputError, match="v7"):
        read(body)


def back(*devices: Device) -> tuple[Device, ...]:
    text = inventory.publish(Node(name="n1", devices=devices), ledger="dra", generation=3, time=5)
    written = state.decode(text, state.InventoryState, "here")
    assert (written.v, written.ledger, written.generation, written.time) == (1, "dra", 3, 5)
    return read({"metadata": {"name": "n1", "annotations": {state.INVENTORY: text}}})[0].devices


@pytest.mark.parametrize("chip", list(catalogue.chips()), ids=lambda chip: f"{chip.vendor}-{chip.model}")
def test_every_chip_survives_publishing(chip: catalogue.Chip) -> None:
    device = catalogue.device(
        chip.vendor, chip.model, node="n1", uuid="u", index=3, numa=1, links=("a", "b"), foreign_mib=7,
        health=Health.DEGRADED, health_reason="tired", product="P",
    )  # fmt: skip
    assert back(device) == (device,)


def test_the_rest_survives_publishing() -> None:
    devices = (
        catalogue.device("nvidia", "A100-40", node="n1", uuid="a", mode=SharingMode.GEOMETRY),
        catalogue.partition("nvidia", "A100-40", "1g.5gb", node="n1", uuid="a/0", mode=SharingMode.WHOLE),
        catalogue.device("nvidia", "Z9000", node="n1", uuid="b", memory_mib=Unknown("nobody knows")),
    )
    assert back(*devices) == devices
