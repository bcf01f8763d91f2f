"""Extended resources that only count: every vendor, slots, units, labels, and names that nobody knows."""

from __future__ import annotations

import msgspec
import pytest

from terrazzo.dialects import inventory
from terrazzo.dialects.readers.looks import looks_like_accelerator
from terrazzo.model.device import Health, SharingMode
from terrazzo.model.errors import InputError
from terrazzo.model.node import Node
from terrazzo.model.unknown import Unknown
from terrazzo.wire import kubernetes as k8s


def node(
    allocatable: dict[str, str | int],
    labels: dict[str, str] | None = None,
    capacity: dict[str, str | int] | None = None,
) -> Node:
    body = {
        "metadata": {"name": "n1", "labels": labels or {}},
        "status": {"allocatable": allocatable, "capacity": capacity or {}},
    }
    return inventory.read_nodes([msgspec.convert(body, k8s.Node)])[0]


@pytest.mark.parametrize(
    ("offered", "vendor", "count", "memory_mib", "mode"),
    [
        ({"nvidia.com/gpu": 8}, "nvidia", 8, None, "continuous"),
        ({"nvidia.com/gpu": 0, "nvidia.com/gpu.shared": 4}, "nvidia", 4, None, "continuous"),
        ({"volcano.sh/gpu-number": 1, "volcano.sh/gpu-memory": 0}, "nvidia", 1, None, "continuous"),
        ({"volcano.sh/gpu-number": 2, "volcano.sh/gpu-memory": 30720}, "nvidia", 2, 15360, "continuous"),
        ({"volcano.sh/vgpu-number": 20, "volcano.sh/vgpu-memory": 30720}, "nvidia", 2, 15360, "continuous"),
        ({"aliyun.com/gpu-count": 2, "aliyun.com/gpu-mem": 30}, "nvidia", 2, 15360, "continuous"),
        ({"cambricon.com/mlu": 4}, "cambricon", 4, None, "continuous"),
        ({"cambricon.com/mlu370": 4}, "cambricon", 4, None, "continuous"),
        ({"cambricon.com/real-mlu-counts": 2, "cambricon.com/mlu.smlu.vcore": 200,
          "cambricon.com/mlu.smlu.vmemory": 182}, "cambricon", 2, 23296, "continuous"),
        ({"cambricon.com/mlu.smlu.vcore": 200, "cambricon.com/mlu.smlu.vmemory": 182}, "cambricon", 2, 23296,
         "continuous"),
        ({"hygon.com/dcu": 0, "hygon.com/dcunum": 32}, "hygon", 8, None, "continuous"),
        ({"hygon.com/dcu": 8}, "hygon", 8, None, "continuous"),
        ({"hygon.com/hcu": 8}, "hygon", 8, None, "continuous"),
        ({"hygon.com/hcunum": 4, "hygon.com/hcumem": 65520}, "hygon", 1, 65520, "continuous"),
        ({"mthreads.com/gpu": 8}, "mthreads", 8, None, "continuous"),
        ({"mthreads.com/vgpu": 16, "mthreads.com/sgpu-core": 32, "mthreads.com/sgpu-memory": 192}, "mthreads", 2,
         49152, "continuous"),
        ({"amd.com/gpu": 8}, "amd", 8, None, "whole"),
        ({"gpu.intel.com/i915": 1}, "intel", 1, None, "whole"),
        ({"metax-tech.com/gpu": 8}, "metax", 8, None, "whole"),
        ({"iluvatar.ai/gpu": 16}, "iluvatar", 16, None, "whole"),
        ({"iluvatar.ai/BI-V150-vgpu": 200, "iluvatar.ai/BI-V150.vMem": 256}, "iluvatar", 2, 32768, "whole"),
        ({"enflame.com/gcu": 8}, "enflame", 8, None, "whole"),
        ({"kunlunxin.com/xpu": 8}, "kunlunxin", 8, None, "whole"),
        ({"google.com/tpu": 4}, "google", 4, None, "whole"),
        ({"habana.ai/gaudi": 8}, "habana", 8, None, "whole"),
        ({"aws.amazon.com/neuron": 16, "aws.amazon.com/neuroncore": 32}, "aws", 16, None, "whole"),
        ({"example.com/fancy-npu": 2}, "example.com", 2, None, "whole"),
    ],
)  # fmt: skip
def test_counts(offered: dict[str, str | int], vendor: str, count: int, memory_mib: int | None, mode: str) -> None:
    found = node(offered)
    assert [device.vendor for device in found.devices] == [vendor] * count
    assert [device.uuid for device in found.devices] == [f"n1/{vendor}-{i}" for i in range(count)]
    assert {device.mode.value for device in found.devices} == {mode}
    for device in found.devices:
        if memory_mib is None:
            assert isinstance(device.memory_mib, Unknown)
            assert "nothing of their memory" in device.memory_mib.reason
        else:
            assert device.memory_mib == memory_mib


@pytest.mark.parametrize(
    ("offered", "labels", "model", "memory_mib"),
    [
        ({"cambricon.com/mlu": 1}, {"Model": "MLU370-X8"}, "MLU370-X8", 23374),
        ({"nvidia.com/gpu": 1}, {"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"}, "T4", 15360 - 388),
        ({"nvidia.com/gpu": 1}, {"aliyun.accelerator/nvidia_name": "Tesla-V100-SXM2-16GB",
                                 "aliyun.accelerator/nvidia_mem": "16160MiB"}, "V100-16", 16160),
        ({"nvidia.com/gpu": 1}, {"karpenter.k8s.aws/instance-gpu-name": "a10g",
                                 "karpenter.k8s.aws/instance-gpu-memory": "22888"}, "a10g", 22888),
        ({"amd.com/gpu": 1}, {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM", "amd.com/gpu.vram": "192G"},
         "MI300X", 196608),
        ({"amd.com/gpu": 1}, {"amd.com/gpu.vram": "64G"}, "", 65536),
    ],
)  # fmt: skip
def test_labels_tell_model_and_memory(
    offered: dict[str, str | int], labels: dict[str, str], model: str, memory_mib: int
) -> None:
    device = node(offered, labels).devices[0]
    assert (device.model, device.memory_mib) == (model, memory_mib)


def test_missing_ones_are_unhealthy() -> None:
    found = node({"mthreads.com/gpu": 6}, capacity={"mthreads.com/gpu": 8})
    assert [device.health for device in found.devices] == [Health.HEALTHY] * 6 + [Health.DEGRADED] * 2
    assert "fewer" in found.devices[7].health_reason


def test_memory_is_shared_over_all_cards_not_over_the_healthy_ones() -> None:
    found = node(
        {"volcano.sh/gpu-number": 1, "volcano.sh/gpu-memory": 15360},
        capacity={"volcano.sh/gpu-number": 2, "volcano.sh/gpu-memory": 30720},
    )
    assert [device.memory_mib for device in found.devices] == [15360, 15360]


def test_an_odd_number_of_slots_is_doubted() -> None:
    found = node({"hygon.com/dcunum": 6})
    assert len(found.devices) == 1
    assert "not a multiple of the 4" in found.unknowns[0].reason
    assert len(node({"hygon.com/dcunum": 2}).devices) == 1


def test_several_vendors_on_one_node() -> None:
    found = node({"nvidia.com/gpu": 1, "hygon.com/dcu": 2})
    assert sorted(device.vendor for device in found.devices) == ["hygon", "hygon", "nvidia"]


@pytest.mark.parametrize(
    "name",
    ["rdma/hca", "example.com/gpu-memory", "example.com/gpu.percent", "intel.com/sriov", "example.com/gpu-license",
     "gpu.intel.com/millicores", "smarter-devices/fuse", "example.com/input"],
)  # fmt: skip
def test_what_counts_no_device_is_left_alone(name: str) -> None:
    found = node({name: 4})
    assert found.devices == ()
    assert found.other[name] == 4


@pytest.mark.parametrize(
    "name", ["example.com/gpu", "example.com/vgpu", "npu.example.com", "example.com/tpu-v5", "example.com/gaudi2"]
)
def test_names_that_look_like_accelerators(name: str) -> None:
    assert looks_like_accelerator(name)


def test_absurd_counts_make_no_devices() -> None:
    found = node({"nvidia.com/gpu": "1E", "example.com/npu": 99999})
    assert found.devices == ()
    assert len(found.unknowns) == 2


def test_a_quantity_that_is_none_is_said_with_its_place() -> None:
    with pytest.raises(InputError) as caught:
        node({"nvidia.com/gpu": "eight"})
    assert caught.value.where == "node n1: status.allocatable[nvidia.com/gpu]"


def test_mode_of_an_unknown_chip_follows_its_vendor() -> None:
    assert node({"nvidia.com/gpu": 1}).devices[0].mode is SharingMode.CONTINUOUS
    device = node({"mthreads.com/gpu": 1}).devices[0]
    assert (device.units, device.memory_step_mib, device.sharers) == (16, 512, 16)
