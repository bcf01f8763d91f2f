"""ResourceSlices of any driver, in v1 and v1beta1."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from terrazzo.dialects import inventory
from terrazzo.model.device import Health, SharingMode
from terrazzo.model.errors import InputError
from terrazzo.model.node import Node
from terrazzo.model.unknown import Unknown
from terrazzo.wire import kubernetes as k8s

LABELS = {"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.count": "4"}


def gpu(name: str, product: str = "NVIDIA A100-SXM4-80GB", memory: str | None = "80Gi") -> dict[str, Any]:
    return {
        "name": name,
        "attributes": {
            "type": {"string": "gpu"},
            "uuid": {"string": f"GPU-{name}"},
            "productName": {"string": product},
            "index": {"int": int(name.rpartition("-")[2])},
        },
        "capacity": {} if memory is None else {"memory": {"value": memory}},
    }


def part(devices: list[dict[str, Any]], driver: str = "gpu.nvidia.com", generation: int = 1, count: int = 1) -> Any:
    pool = {"name": "n1", "generation": generation, "resourceSliceCount": count}
    return {"metadata": {"name": "s"}, "spec": {"driver": driver, "nodeName": "n1", "pool": pool, "devices": devices}}


def node(*slices: Any, labels: dict[str, str] | None = None) -> Node:
    told = msgspec.convert({"metadata": {"name": "n1", "labels": labels or {}}}, k8s.Node)
    return inventory.read_nodes([told], slices=msgspec.convert(slices, list[k8s.ResourceSlice]))[0]


def test_gpus_of_the_vendors_driver() -> None:
    found = node(part([gpu("gpu-0"), gpu("gpu-1")]), labels=LABELS)
    assert [(d.uuid, d.model, d.memory_mib, d.index) for d in found.devices] == [
        ("GPU-gpu-0", "A100-80", 81920, 0),
        ("GPU-gpu-1", "A100-80", 81920, 1),
    ]
    assert found.unknowns == ()


def test_v1beta1_wraps_fields_in_basic() -> None:
    new = gpu("gpu-0")
    old = {"name": "gpu-0", "basic": {key: value for key, value in new.items() if key != "name"}}
    assert node(part([old])).devices == node(part([new])).devices


def test_names_with_a_domain() -> None:
    device = gpu("gpu-0", memory=None)
    device["attributes"] = {f"gpu.nvidia.com/{key}": value for key, value in device["attributes"].items()}
    device["attributes"]["resource.kubernetes.io/numaNode"] = {"int": 1}
    device["capacity"] = {"gpu.nvidia.com/memory": {"value": "40Gi"}}
    found = node(part([device])).devices[0]
    assert (found.uuid, found.memory_mib, found.numa) == ("GPU-gpu-0", 40960, 1)


def test_static_mig_instances() -> None:
    mig = gpu("gpu-0", memory="9856Mi")
    mig["attributes"] |= {
        "type": {"string": "mig"},
        "profile": {"string": "1g.10gb"},
        "parentUUID": {"string": "GPU-9"},
    }
    device = node(part([mig])).devices[0]
    assert (device.mode, device.profile, device.memory_mib, device.units, device.sharers) == (
        SharingMode.GEOMETRY, "1g.10gb", 9856, 1, 1,
    )  # fmt: skip
    assert device.family == "A100"


@pytest.mark.parametrize("beta", [False, True])
def test_slices_that_are_only_offered_are_not_devices(beta: bool) -> None:
    counters: dict[str, Any] = {"consumesCounters": [{"counterSet": "gpu-0", "counters": {}}]}
    offered: dict[str, Any] = {
        "name": "gpu-0-mig-1g10gb-0",
        "attributes": {
            "type": {"string": "mig"},
            "profile": {"string": "1g.10gb"},
            "parentUUID": {"string": "GPU-gpu-0"},
        },
        "capacity": {"memory": {"value": "9856Mi"}},
    }
    if beta:
        offered = {"name": offered["name"], "basic": {**offered, **counters}}
    else:
        offered |= counters
    found = node(part([gpu("gpu-0") | counters, offered]))
    assert [device.uuid for device in found.devices] == ["GPU-gpu-0"]


def test_an_incomplete_pool_is_unknown_not_small() -> None:
    found = node(part([gpu("gpu-0")], count=2))
    assert len(found.devices) == 1
    assert "1 of 2 slices" in found.unknowns[0].reason


def test_older_generations_do_not_count() -> None:
    found = node(part([gpu("gpu-0"), gpu("gpu-1")], generation=1), part([gpu("gpu-1")], generation=2))
    assert [device.uuid for device in found.devices] == ["GPU-gpu-1"]
    assert found.unknowns == ()


def test_a_tainted_device_takes_nothing_new() -> None:
    taint = {"taints": [{"key": "gpu.nvidia.com/unhealthy", "effect": "NoExecute"}]}
    device = node(part([gpu("gpu-0") | taint])).devices[0]
    assert device.health is Health.DEGRADED
    assert "gpu.nvidia.com/unhealthy" in device.health_reason
    beta = {"name": "gpu-0", "basic": {**gpu("gpu-0"), **taint}}
    assert node(part([beta])).devices[0].health is Health.DEGRADED


@pytest.mark.parametrize(
    ("driver", "product", "vendor", "model"),
    [
        ("gpu.nvidia.com", "NVIDIA H100 80GB HBM3", "nvidia", "H100-80"),
        ("npu.huawei.com", "Ascend910B3", "ascend", "910B3"),
        ("gpu.amd.com", "MI300X", "amd", "MI300X"),
        ("gpu.intel.com", "Flex-170", "intel", "Flex-170"),
        ("mlu.cambricon.com", "MLU370-X8", "cambricon", "MLU370-X8"),
        ("dcu.hygon.com", "Z100", "hygon", "Z100"),
        ("gpu.mthreads.com", "MTT S4000", "mthreads", "S4000"),
        ("gpu.example.com", "gpu-model-x", "gpu.example.com", "gpu-model-x"),
    ],
)
def test_every_vendors_driver(driver: str, product: str, vendor: str, model: str) -> None:
    device = node(part([gpu("gpu-0", product, "16Gi")], driver)).devices[0]
    assert (device.vendor, device.model, device.memory_mib) == (vendor, model, 16384)


@pytest.mark.parametrize("driver", ["dra.net", "compute-domain.nvidia.com", "dra.cpu", "input.example.com"])
def test_other_drivers_are_left_alone(driver: str) -> None:
    found = node(part([gpu("gpu-0")], driver), labels=LABELS)
    assert len(found.devices) == 4  # what the labels tell


def test_memory_that_is_not_stated() -> None:
    assert node(part([gpu("gpu-0", memory=None)])).devices[0].memory_mib == 81920 - 669
    assert isinstance(node(part([gpu("gpu-0", "Z9000", None)])).devices[0].memory_mib, Unknown)


def test_memory_that_is_no_quantity_is_said() -> None:
    with pytest.raises(InputError) as caught:
        node(part([gpu("gpu-0", memory="80GB")]))
    assert caught.value.where == "resource slice of gpu.nvidia.com on n1: devices[gpu-0].capacity[memory]"


def test_a_device_listed_twice_is_refused() -> None:
    with pytest.raises(InputError, match="GPU-gpu-0 twice"):
        node(part([gpu("gpu-0"), gpu("gpu-0")]))
