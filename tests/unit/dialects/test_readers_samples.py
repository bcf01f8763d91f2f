"""Figures of real nodes, and the answers that a reader must give. The dumps themselves are read where they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from terrazzo.dialects import holdings, inventory
from terrazzo.model.device import Health, SharingMode
from terrazzo.model.node import Node
from terrazzo.wire import kubernetes as k8s

SAMPLES = Path(__file__).parents[4] / "shared" / "samples" / "kubernetes"


def sample(name: str) -> str:
    path = SAMPLES / name
    if not path.exists():
        pytest.skip(f"{path} is not here")
    return path.read_text(encoding="utf-8")


def node(body: dict[str, Any], **more: Any) -> Node:
    return inventory.read_nodes([msgspec.convert(body, k8s.Node)], **more)[0]


def described(labels: list[str], capacity: dict[str, str]) -> dict[str, Any]:
    pairs = [line.replace(": ", "=", 1).partition("=") for line in labels]
    return {
        "metadata": {"name": "node-a", "labels": {key.strip(): value.strip() for key, _, value in pairs}},
        "status": {"allocatable": capacity, "capacity": capacity},
    }


def test_a100_cut_as_one_7g_slice() -> None:
    found = node(msgspec.yaml.decode(sample("01-node-yaml-a100-40g-mig-mixed-7g.txt")))
    assert [(d.profile, d.memory_mib, d.mode, d.family) for d in found.devices] == [
        ("7g.40gb", 40192, SharingMode.GEOMETRY, "A100")
    ]
    assert (found.cpu_milli, found.max_pods, found.ready) == (12000, 110, True)
    assert found.unknowns == ()


def test_two_t4() -> None:
    found = node(msgspec.yaml.decode(sample("03-node-yaml-2x-t4-no-mig.txt")))
    assert [(d.model, d.memory_mib, d.product) for d in found.devices] == [("T4", 15360, "Tesla-T4")] * 2
    assert (found.cpu_milli, found.unknowns) == (32000, ())


def test_two_h100_by_labels_alone() -> None:
    labels = sample("04-describe-grep-h100-gfd-labels-mig-single.txt").splitlines()
    found = node(described([line for line in labels if line.strip()], {}))
    assert [(d.model, d.memory_mib, d.profile) for d in found.devices] == [("H100-80", 81559, "")] * 2


@pytest.mark.parametrize(
    ("section", "products"),
    [
        ("Atlas 800 training server", ["Ascend910"] * 8),
        ("Atlas 300I inference card", ["Ascend310"] * 4),
        ("Atlas 300I Pro, all cards alike", ["Ascend310P"] * 3),
        ("Atlas 300I Pro / 300V", ["Ascend310P-IPro", "Ascend310P-V", "Ascend310P-VPro"]),
        ("8-card 910", ["Ascend910"] * 8),
    ],
)
def test_ascend_nodes_as_described(section: str, products: list[str]) -> None:
    text = sample("05-describe-node-ascend-official-plugin.txt")
    part = next(each for each in text.split("### ") if each.startswith(section))
    capacity: dict[str, str] = {}
    for line in part.partition("Allocatable:")[2].splitlines():
        name, _, value = line.strip().partition(":")
        if value.strip():
            capacity[name] = value.strip()
    found = node(described(["accelerator=huawei-Ascend910"], capacity))
    assert [device.product or device.model for device in found.devices] == products
    assert found.unknowns or section.startswith("Atlas 300I inference")


def test_device_info_of_eight_cards() -> None:
    text = sample("07-configmap-ascend-deviceinfo.json.txt")
    body = described([], {"huawei.com/Ascend910": "7"})
    body["status"]["capacity"] = {"huawei.com/Ascend910": "8"}
    info = msgspec.convert(
        {"metadata": {"name": "mindx-dl-deviceinfo-node-a"}, "data": {"DeviceInfoCfg": text}}, k8s.ConfigMap
    )
    found = node(body, config_maps=[info])
    assert len(found.devices) == 8
    assert [d.index for d in found.devices if d.health is not Health.HEALTHY] == [4]
    assert [d.index for d in found.devices if d.health_reason.startswith("network unhealthy")] == [0]
    assert "A8028801" in found.devices[4].health_reason


def test_two_310p_behind_fourteen_slots_and_what_a_pod_holds() -> None:
    labels = ["accelerator=huawei-Ascend310P", "ascend=on", "servertype=Ascend310P-8"]
    found = node(described(labels, {"huawei.com/Ascend310P": "14", "huawei.com/Ascend310P-memory": "43054"}))
    assert [(device.model, device.memory_mib) for device in found.devices] == [("310P3", 21527)] * 2
    text = sample("08-volcano-hami-ascend310p-soft-slice.txt")
    line = next(each for each in text.splitlines() if "devices-allocated" in each)
    annotations = json.loads("{" + line.strip().rstrip(",") + "}")
    pod = {"metadata": {"name": "p", "annotations": annotations},
           "spec": {"nodeName": "node-a", "containers": [{"name": "npu"}]}}  # fmt: skip
    held = holdings.read(msgspec.convert(pod, k8s.Pod), {"node-a": found})
    assert held is not None
    assert [(use.memory_mib, use.units) for use in held.uses] == [(8192, 0)]


def test_volcano_counts_one_card_of_unknown_memory() -> None:
    found = node(described([], {"volcano.sh/gpu-memory": "0", "volcano.sh/gpu-number": "1"}))
    assert len(found.devices) == 1
    assert len(found.unknowns) == 1


def test_hami_annotations() -> None:
    answers = iter(
        [
            ("cambricon", [("MLU370-X4", 23308, Health.DEGRADED)], 1),
            ("nvidia", [("V100-32", 32768, Health.HEALTHY)] * 2, 0),
            ("nvidia", [("RTX-3090", 24576, Health.HEALTHY)], 1),
            ("nvidia", [("RTX-PRO-6000", 97887, Health.HEALTHY)], 0),
            ("nvidia", [("K80", 11441, Health.HEALTHY)] * 2, 0),
        ]
    )
    for line in sample("11-hami-node-annotations.txt").splitlines():
        key, _, text = line.partition(": ")
        if not key.endswith("-register"):
            continue
        found = node({"metadata": {"name": "node-a", "annotations": {key: text}}})
        vendor, devices, unknowns = next(answers)
        assert {device.vendor for device in found.devices} == {vendor}
        assert [(d.model, d.memory_mib, d.health) for d in found.devices] == devices
        assert len(found.unknowns) == unknowns
    assert next(answers, None) is None
