"""Ascend: Huawei's and HAMi's resources, labels, the device-info config map."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from terrazzo.dialects import inventory
from terrazzo.model.device import Health, SharingMode
from terrazzo.model.errors import InputError
from terrazzo.model.node import Node
from terrazzo.model.unknown import Unknown
from terrazzo.wire import kubernetes as k8s

CHIP = "node.kubernetes.io/npu.chip.name"


def node(
    allocatable: dict[str, int],
    labels: dict[str, str] | None = None,
    capacity: dict[str, int] | None = None,
    device_list: Any = None,
) -> Node:
    body = {
        "metadata": {"name": "n1", "labels": labels or {}},
        "status": {
            "allocatable": {f"huawei.com/{key}": str(value) for key, value in allocatable.items()},
            "capacity": {f"huawei.com/{key}": str(value) for key, value in (capacity or {}).items()},
        },
    }
    maps = []
    if device_list is not None:
        text = device_list if isinstance(device_list, str) else json.dumps({"DeviceInfo": {"DeviceList": device_list}})
        maps = [{"metadata": {"name": "mindx-dl-deviceinfo-n1"}, "data": {"DeviceInfoCfg": text}}]
    return inventory.read_nodes(
        [msgspec.convert(body, k8s.Node)], config_maps=msgspec.convert(maps, list[k8s.ConfigMap])
    )[0]


def test_a_wide_name_leaves_the_chip_unknown() -> None:
    found = node({"Ascend910": 8}, {"accelerator": "huawei-Ascend910"})
    assert len(found.devices) == 8
    assert {device.mode for device in found.devices} == {SharingMode.WHOLE}
    assert all(isinstance(device.memory_mib, Unknown) for device in found.devices)
    assert CHIP in found.unknowns[0].reason


@pytest.mark.parametrize(
    ("labels", "model", "memory_mib"),
    [
        ({CHIP: "910B3"}, "910B3", 65536),
        ({CHIP: "Ascend910B4"}, "910B4", 32768),
        ({"accelerator-type": "module-a3-16"}, "910C", 65536),
        ({CHIP: "910B3", "mind-cluster/npu-chip-memory": "64G"}, "910B3", 65536),
    ],
)
def test_labels_tell_the_exact_chip(labels: dict[str, str], model: str, memory_mib: int) -> None:
    found = node({"Ascend910": 2}, labels)
    assert [(d.model, d.memory_mib, d.mode) for d in found.devices] == [(model, memory_mib, SharingMode.GEOMETRY)] * 2
    assert found.unknowns == ()


def test_label_with_memory_alone_leaves_the_chip_unknown() -> None:
    found = node({"Ascend910": 2}, {"mind-cluster/npu-chip-memory": "64G"})
    assert [(device.model, device.memory_mib) for device in found.devices] == [("Ascend910", 65536)] * 2


def test_older_names() -> None:
    assert [d.model for d in node({"Ascend310": 4}).devices] == ["310"] * 4
    found = node({"Ascend310P": 3})
    assert [(d.model, d.memory_mib) for d in found.devices] == [("310P3", 21527)] * 3
    assert "24 or 48 GB" in found.unknowns[0].reason


def test_three_kinds_of_card_in_one_chassis() -> None:
    found = node({"Ascend310P-IPro": 1, "Ascend310P-V": 1, "Ascend310P-VPro": 1})
    assert [device.product for device in found.devices] == ["Ascend310P-IPro", "Ascend310P-V", "Ascend310P-VPro"]
    assert [device.index for device in found.devices] == [0, 1, 2]
    assert len({device.uuid for device in found.devices}) == 3


def test_hami_slots_are_told_apart_by_memory() -> None:
    found = node({"Ascend310P": 14, "Ascend310P-memory": 43054})
    assert [(d.model, d.memory_mib) for d in found.devices] == [("310P3", 21527)] * 2
    assert found.unknowns == ()
    found = node({"Ascend910B4-1": 32, "Ascend910B4-1-memory": 8 * 65536})
    assert [(d.model, d.memory_mib) for d in found.devices] == [("910B4-1", 65536)] * 8


def test_hami_memory_short_of_capacity() -> None:
    found = node(
        {"Ascend910B4": 12, "Ascend910B4-memory": 3 * 32768},
        capacity={"Ascend910B4": 16, "Ascend910B4-memory": 4 * 32768},
    )
    assert [device.health for device in found.devices] == [Health.HEALTHY] * 3 + [Health.DEGRADED]


def test_soft_share_counts_percent() -> None:
    found = node({"Ascend910": 800}, {CHIP: "910B3", "huawei.com/scheduler.chip1softsharedev.enable": "true"})
    assert len(found.devices) == 8
    assert {(device.mode, device.units) for device in found.devices} == {(SharingMode.CONTINUOUS, 100)}


def test_dynamic_vnpu_counts_cores() -> None:
    found = node({"npu-core": 16}, {"servertype": "Ascend310P-8"})
    assert [device.model for device in found.devices] == ["310P3"] * 2
    found = node({"npu-core": 16})
    assert found.devices == ()
    assert "servertype" in found.unknowns[0].reason


def test_static_vnpus_are_partitions() -> None:
    found = node({"Ascend910": 6, "Ascend910-10c.3cpu.32g": 2, "Ascend910-2c": 1}, {CHIP: "910B3"})
    cut = [device for device in found.devices if device.profile]
    assert len(found.devices) == 9
    assert [(d.profile, d.memory_mib, d.units, d.mode) for d in cut if d.profile != "vir02"] == [
        ("vir10_3c_32g", 32768, 10, SharingMode.GEOMETRY)
    ] * 2


def test_a_template_that_one_size_fits_needs_no_chip() -> None:
    device = node({"Ascend910-5c.1cpu.16g": 1}).devices[0]
    assert (device.profile, device.memory_mib, device.units) == ("vir05_1c_16g", 16384, 5)


LISTS = {
    "huawei.com/Ascend910": ",".join(f"Ascend910-{i}" for i in (0, 1, 2, 3, 5, 6, 7)),
    "huawei.com/Ascend910-Fault": json.dumps(
        [
            {"npu_name": "Ascend910-0", "fault_level": "PreSeparateNPU", "fault_code": "81078603"},
            {"npu_name": "Ascend910-4", "fault_level": "SeparateNPU", "fault_code": "A8028801,A4028801"},
        ]
    ),
    "huawei.com/Ascend910-NetworkUnhealthy": "Ascend910-0",
    "huawei.com/Ascend910-Recovering": "",
    "huawei.com/Ascend910-Unhealthy": "Ascend910-4",
}


def test_device_info_names_the_sick() -> None:
    found = node({"Ascend910": 7}, {CHIP: "910A"}, {"Ascend910": 8}, LISTS)
    assert [device.uuid for device in found.devices] == [f"n1/Ascend910-{i}" for i in range(8)]
    assert [device.index for device in found.devices if device.health is not Health.HEALTHY] == [4]
    assert found.devices[4].health_reason == "unhealthy (SeparateNPU A8028801,A4028801)"
    assert found.devices[0].health_reason == "network unhealthy (PreSeparateNPU 81078603)"
    assert found.unknowns == ()


def test_device_info_without_the_resource_still_tells() -> None:
    assert len(node({}, device_list=LISTS).devices) == 8


def test_an_empty_list_is_not_zero_chips() -> None:
    found = node({"Ascend910": 0}, {CHIP: "910B3"}, {"Ascend910": 2}, {"huawei.com/Ascend910": ""})
    assert [device.health for device in found.devices] == [Health.DEGRADED] * 2
    assert "lists 0" in found.unknowns[0].reason


def test_an_unreadable_fault_list_loses_nobody() -> None:
    found = node({"Ascend910": 1}, device_list={**LISTS, "huawei.com/Ascend910-Fault": "{oops"})
    assert len(found.devices) == 8
    assert found.devices[4].health_reason == "unhealthy"


@pytest.mark.parametrize(
    "text", ['{"DeviceInfo": {"DeviceList": 3}}', '{"DeviceInfo": "DeviceList"}', '["DeviceList"]', '{"DeviceList": {']
)
def test_damaged_device_info_is_said(text: str) -> None:
    with pytest.raises(InputError) as caught:
        node({"Ascend910": 8}, device_list=text)
    assert "mindx-dl-deviceinfo-n1: data[DeviceInfoCfg]" in caught.value.where
