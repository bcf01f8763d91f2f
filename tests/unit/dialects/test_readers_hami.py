"""HAMi's node annotations: both forms, every vendor, scaled figures, damage."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from terrazzo.dialects import inventory
from terrazzo.model.device import Device, Health, SharingMode
from terrazzo.model.errors import InputError
from terrazzo.model.node import Node
from terrazzo.model.unknown import Unknown
from terrazzo.wire import kubernetes as k8s

NVIDIA = "hami.io/node-nvidia-register"


def node(annotations: dict[str, str], **allocatable: str) -> Node:
    body = {"metadata": {"name": "n1", "annotations": annotations}, "status": {"allocatable": allocatable}}
    return inventory.read_nodes([msgspec.convert(body, k8s.Node)])[0]


def facts(device: Device) -> tuple[Any, ...]:
    return device.uuid, device.model, device.memory_mib, device.sharers, device.health


def test_old_comma_form() -> None:
    text = (
        "GPU-0,10,32768,100,NVIDIA-Tesla V100-PCIE-32GB,0,true:GPU-1,10,32768,100,NVIDIA-Tesla V100-PCIE-32GB,1,false:"
    )
    found = node({NVIDIA: text})
    assert [facts(device) for device in found.devices] == [
        ("GPU-0", "V100-32", 32768, 10, Health.HEALTHY),
        ("GPU-1", "V100-32", 32768, 10, Health.DEGRADED),
    ]
    assert [(device.index, device.numa) for device in found.devices] == [(0, 0), (1, 1)]
    assert {device.mode for device in found.devices} == {SharingMode.CONTINUOUS}
    assert found.unknowns == ()


def test_nine_fields_carry_index_and_mode() -> None:
    found = node({NVIDIA: "GPU-7,7,81920,100,NVIDIA-NVIDIA A100-SXM4-80GB,1,true,5,mig:"})
    device = found.devices[0]
    assert (device.index, device.mode, device.units) == (5, SharingMode.GEOMETRY, 7)
    assert device.geometry is not None
    assert device.geometry.name == "A100-80"


def test_json_form_leaves_out_what_is_zero() -> None:
    kind = {"count": 10, "devmem": 11441, "devcore": 100, "type": "NVIDIA-Tesla-K80", "mode": "hami-core"}
    rows = [{"id": "GPU-0", **kind, "health": True}, {"id": "GPU-1", "index": 1, **kind}]
    found = node({NVIDIA: json.dumps(rows)})
    assert [(d.index, d.numa, d.health) for d in found.devices] == [
        (0, None, Health.HEALTHY),
        (1, None, Health.DEGRADED),  # health left out is health false
    ]
    assert {d.model for d in found.devices} == {"K80"}


def test_quotes_around_the_value_do_not_matter() -> None:
    found = node({NVIDIA: '"GPU-2,10,24576,100,NVIDIA-NVIDIA GeForce RTX 3090,0,true:"'})
    assert facts(found.devices[0])[:3] == ("GPU-2", "RTX-3090", 24576)


def test_scaled_memory_counts_as_the_chips_own() -> None:
    found = node({NVIDIA: "GPU-2,10,73728,300,NVIDIA-NVIDIA GeForce RTX 3090,0,true:"})
    assert found.devices[0].memory_mib == 24576
    assert found.devices[0].units == 100
    assert "scaled" in found.unknowns[0].reason
    assert "73728" in found.unknowns[0].reason


def test_memory_a_little_off_is_the_nodes_own() -> None:
    found = node({NVIDIA: "GPU-2,10,81251,100,NVIDIA-NVIDIA A100-SXM4-80GB,0,true:"})
    assert found.devices[0].memory_mib == 81251
    assert found.unknowns == ()


def test_unknown_chip_with_scaled_compute_is_doubted() -> None:
    found = node({NVIDIA: "GPU-2,10,99999,200,NVIDIA-Z9000,0,true:"})
    assert found.devices[0].memory_mib == 99999
    assert found.devices[0].mode is SharingMode.CONTINUOUS
    assert "200 %" in found.unknowns[0].reason


def test_no_memory_told() -> None:
    found = node({NVIDIA: "GPU-2,10,0,100,NVIDIA-Z9000,0,true:"})
    assert isinstance(found.devices[0].memory_mib, Unknown)


def test_last_entry_cut_off_leaves_the_rest() -> None:
    key = "hami.io/node-mlu-register"
    found = node({key: "MLU-0,10,23308,0,MLU-MLU370-X4,0,false:MLU-1,10,23308,0,"})
    assert [device.uuid for device in found.devices] == ["MLU-0"]
    assert found.devices[0].model == "MLU370-X4"
    assert "breaks off in device 2" in found.unknowns[0].reason


@pytest.mark.parametrize(
    "text",
    [
        "GPU-0,10,32768:GPU-1,10,32768,100,NVIDIA-T4,0,true:",
        "nonsense",
        "GPU-0,x,32768,100,NVIDIA-T4,0,true:GPU-1,10,1,1,NVIDIA-T4,0,true:",
        "[{]",
        '[{"count": 10}]',
        '[{"id": "GPU-0", "devmem": "many"}]',
        '[{"id": "GPU-0", "devmem": -1}]',
        "[7]",
        '{"id": ["GPU-0"]}',
        "[" * 5000,
    ],
)
def test_damage_is_said_with_its_place(text: str) -> None:
    with pytest.raises(InputError) as caught:
        node({NVIDIA: text})
    assert caught.value.where == f"node n1: annotation {NVIDIA}"
    assert caught.value.remedy


def test_a_device_listed_twice_is_refused_with_node_annotation_and_uuid() -> None:
    row = "GPU-0,10,32768,100,NVIDIA-Tesla V100-PCIE-32GB,0,true:"
    with pytest.raises(InputError) as caught:
        node({NVIDIA: row + row})
    assert caught.value.where == f"node n1: annotation {NVIDIA}"
    assert "GPU-0" in caught.value.what


def test_one_device_in_two_planes_words_is_one_device() -> None:
    row = "GPU-0,10,32768,100,NVIDIA-Tesla V100-PCIE-32GB,0,true:"
    found = node({NVIDIA: row, "volcano.sh/node-vgpu-register": "GPU-0,10,32768,NVIDIA-Tesla V100-PCIE-32GB,true:"})
    assert len(found.devices) == 1


@pytest.mark.parametrize("text", ["", "[]", ":", '""'])
def test_an_emptied_annotation_is_not_zero_devices(text: str) -> None:
    found = node({NVIDIA: text, "hami.io/node-handshake": "Deleted_2024.12.06 07:43:49"}, **{"nvidia.com/gpu": "2"})
    assert len(found.devices) == 2  # what the node itself offers
    assert any("lists no device" in unknown.reason for unknown in found.unknowns)


def test_a_stale_handshake_takes_no_device_away() -> None:
    row = "GPU-0,10,32768,100,NVIDIA-Tesla V100-PCIE-32GB,0,true:"
    found = node({NVIDIA: row, "hami.io/node-handshake": "Requesting_2024.12.24 03:31:30"})
    assert [device.health for device in found.devices] == [Health.HEALTHY]


def test_a_cordoned_device_takes_no_new_pod() -> None:
    rows = "".join(f"GPU-{i},10,15360,100,NVIDIA-Tesla T4,0,true:" for i in range(3))
    found = node({NVIDIA: rows, "hami.io/device-cordon": "GPU-1, GPU-9"})
    assert [device.health for device in found.devices] == [Health.HEALTHY, Health.DEGRADED, Health.HEALTHY]
    assert "cordon" in found.devices[1].health_reason


@pytest.mark.parametrize(
    ("key", "text", "vendor", "model", "mode", "units"),
    [
        ("hami.io/node-dcu-register", "DCU-0,4,32752,100,DCU-Z100L,0,true,0,:", "hygon", "Z100L", "continuous", 60),
        ("hami.io/node-mlu-register", "MLU-0,10,23374,100,MLU370-X8,0,true:", "cambricon", "MLU370-X8", "continuous",
         100),
        ("hami.io/node-register-Ascend910B4",
         '[{"id":"A","count":4,"devmem":32768,"type":"Ascend910B4","health":true}]',
         "ascend", "910B4", "geometry", 20),
        ("hami.io/node-register-Ascend310P",
         '[{"id":"A","count":7,"devmem":21527,"type":"Ascend310P","mode":"hami-core","health":true}]',
         "ascend", "310P3", "continuous", 100),
        ("hami.io/node-Ascend910A-register", "A,4,32768,30,Ascend910A,0,true:", "ascend", "910A", "geometry", 30),
        ("hami.io/node-register-xpu", '[{"id":"X","count":4,"devmem":98304,"type":"P800","health":true}]',
         "kunlunxin", "P800", "continuous", 100),
        ("hami.io/node-amd-register", '[{"id":"M","count":1,"devmem":196608,"type":"MI300X","health":true}]',
         "amd", "MI300X", "whole", 100),
        ("hami.io/node-BI-V150-register", "I,10,32768,100,BI-V150,0,true:", "iluvatar", "BI-V150", "continuous", 100),
        ("hami.io/node-mthreads-register", "T,16,49152,100,MTT-S4000,0,true:", "mthreads", "S4000", "continuous", 16),
        ("hami.io/node-biren-register", "B,1,65536,100,BR104,0,true:", "biren", "BR104", "whole", 100),
        ("metax-tech.com/node-gpu-devices",
         '[{"uuid":"GPU-m","model":"MXC500","totalDevCount":16,"totalCompute":100,"totalVRam":65536,"healthy":true}]',
         "metax", "C500", "continuous", 100),
        ("volcano.sh/node-vgpu-register", "GPU-v,10,15360,NVIDIA-Tesla T4,true:", "nvidia", "T4", "continuous", 100),
        ("4pd.io/node-nvidia-register", "GPU-o,10,15360,100,NVIDIA-Tesla T4,0,true:", "nvidia", "T4", "continuous",
         100),
    ],
)  # fmt: skip
def test_every_vendors_key(key: str, text: str, vendor: str, model: str, mode: str, units: int) -> None:
    device = node({key: text}).devices[0]
    assert (device.vendor, device.model, device.mode.value, device.units) == (vendor, model, mode, units)
    assert device.health is Health.HEALTHY
    assert (device.geometry is not None) == (mode == "geometry")


@pytest.mark.parametrize(
    "key", ["hami.io/node-nvidia-score", "hami.io/node-handshake-dcu", "hami.io/mutex.lock", "other.io/node-x-register"]
)
def test_other_annotations_are_left_alone(key: str) -> None:
    found = node({key: "whatever"})
    assert (found.devices, found.unknowns) == ((), ())


def test_mig_slices_that_the_node_lists_itself() -> None:
    places = [{"start": start, "size": 2} for start in (0, 2)]
    rows = [
        {"id": "GPU-0", "count": 2, "devmem": 97887, "type": "Card of tomorrow", "mode": "mig", "health": True,
         "migProfiles": [{"name": "2g.48gb", "memoryMB": 48512, "sliceCount": 2, "placements": places}]}
    ]  # fmt: skip
    device = node({NVIDIA: json.dumps(rows)}).devices[0]
    assert device.geometry is not None
    assert [(p.name, p.memory_mib, p.units, p.starts) for p in device.geometry.profiles] == [
        ("2g.48gb", 48512, 2, (0, 2))
    ]
    assert device.units == 2


def test_mig_mode_of_a_chip_without_table_is_said() -> None:
    found = node({NVIDIA: "GPU-0,10,46068,100,NVIDIA-Card of tomorrow,0,true,0,mig:"})
    assert (found.devices[0].mode, found.devices[0].geometry) == (SharingMode.GEOMETRY, None)
    assert "nobody tells the slices" in found.unknowns[0].reason
