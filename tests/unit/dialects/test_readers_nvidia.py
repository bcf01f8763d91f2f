"""NVIDIA's labels: whole cards, MIG single and mixed, time-slicing and MPS."""

from __future__ import annotations

import msgspec

from terrazzo.dialects import inventory
from terrazzo.model.device import Health, SharingMode
from terrazzo.model.node import Node
from terrazzo.model.unknown import Unknown
from terrazzo.wire import kubernetes as k8s

A100 = {"gpu.product": "NVIDIA-A100-SXM4-40GB", "gpu.memory": "40960", "gpu.count": "1", "gpu.replicas": "1"}


def node(
    labels: dict[str, str], allocatable: dict[str, int] | None = None, capacity: dict[str, int] | None = None
) -> Node:
    body = {
        "metadata": {"name": "n1", "labels": {f"nvidia.com/{key}": value for key, value in labels.items()}},
        "status": {
            "allocatable": {f"nvidia.com/{key}": str(value) for key, value in (allocatable or {}).items()},
            "capacity": {f"nvidia.com/{key}": str(value) for key, value in (capacity or {}).items()},
        },
    }
    return inventory.read_nodes([msgspec.convert(body, k8s.Node)])[0]


def test_whole_cards() -> None:
    found = node({**A100, "gpu.product": "Tesla-T4", "gpu.memory": "15360", "gpu.count": "2"}, {"gpu": 2}, {"gpu": 2})
    assert [(d.model, d.memory_mib, d.mode, d.index) for d in found.devices] == [
        ("T4", 15360, SharingMode.CONTINUOUS, 0),
        ("T4", 15360, SharingMode.CONTINUOUS, 1),
    ]
    assert found.devices[0].product == "Tesla-T4"
    assert found.devices[0].uuid == "n1/nvidia-0"
    assert found.unknowns == ()


def test_labels_alone_are_enough() -> None:
    found = node({**A100, "gpu.count": "8"})
    assert len(found.devices) == 8
    assert {device.health for device in found.devices} == {Health.HEALTHY}


def test_node_states_memory_other_than_the_table() -> None:
    assert node({**A100, "gpu.memory": "40536"}, {"gpu": 1}).devices[0].memory_mib == 40536


def test_known_chip_fills_missing_memory_and_unknown_chip_does_not() -> None:
    labels = {key: value for key, value in A100.items() if key != "gpu.memory"}
    assert node(labels, {"gpu": 1}).devices[0].memory_mib == 40960 - 424
    device = node({**labels, "gpu.product": "Z9000"}, {"gpu": 1}).devices[0]
    assert isinstance(device.memory_mib, Unknown)
    assert "gpu.memory" in device.memory_mib.reason


def test_fewer_allocatable_than_capacity() -> None:
    found = node({**A100, "gpu.count": "4"}, {"gpu": 3}, {"gpu": 4})
    assert [device.health for device in found.devices] == [Health.HEALTHY] * 3 + [Health.DEGRADED]


def test_time_slicing_counts_cards_not_replicas() -> None:
    labels = {**A100, "gpu.product": "NVIDIA-A100-SXM4-40GB-SHARED", "gpu.count": "2", "gpu.replicas": "4",
              "gpu.sharing-strategy": "time-slicing"}  # fmt: skip
    found = node(labels, {"gpu": 8}, {"gpu": 8})
    assert [(device.model, device.memory_mib) for device in found.devices] == [("A100-40", 40960)] * 2
    assert "time-slicing offers 4 replicas" in found.unknowns[0].reason


def test_renamed_replicas_count_too() -> None:
    labels = {**A100, "gpu.count": "2", "gpu.replicas": "10", "gpu.sharing-strategy": "mps"}
    found = node(labels, {"gpu": 0, "gpu.shared": 20}, {"gpu": 0, "gpu.shared": 20})
    assert len(found.devices) == 2
    assert {device.health for device in found.devices} == {Health.HEALTHY}


def test_slots_of_a_plugin_that_does_not_say_so() -> None:
    found = node(A100, {"gpu": 10}, {"gpu": 10})
    assert len(found.devices) == 1
    assert "replicas" in found.unknowns[0].reason


def test_mig_single_counts_instances() -> None:
    labels = {
        "gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "gpu.memory": "4864", "gpu.count": "14",
        "gpu.replicas": "1", "gpu.slices.ci": "1", "mig.strategy": "single",
    }  # fmt: skip
    for offered in ({"gpu": 14}, None):  # with the resource, and with labels alone
        found = node(labels, offered, offered)
        assert len(found.devices) == 14
        assert len({device.uuid for device in found.devices}) == 14
        device = found.devices[0]
        assert (device.mode, device.profile, device.memory_mib, device.units) == (SharingMode.WHOLE, "1g.5gb", 4864, 1)
        assert (device.family, device.sharers) == ("A100", 1)


def test_mig_mixed_beside_whole_cards() -> None:
    labels = {**A100, "gpu.count": "4", "mig.strategy": "mixed", "mig-1g.5gb.count": "14", "mig-1g.5gb.memory": "4864",
              "mig-1g.5gb.slices.ci": "1", "mig-3g.20gb.count": "2"}  # fmt: skip
    offered = {"gpu": 2, "mig-1g.5gb": 13, "mig-3g.20gb": 2, "mig-7g.40gb": 0}
    found = node(labels, offered, {**offered, "mig-1g.5gb": 14})
    cards = [device for device in found.devices if not device.profile]
    small = [device for device in found.devices if device.profile == "1g.5gb"]
    large = [device for device in found.devices if device.profile == "3g.20gb"]
    assert (len(cards), len(small), len(large)) == (2, 14, 2)
    assert {device.mode for device in small + large} == {SharingMode.GEOMETRY}
    assert [device.health for device in small].count(Health.DEGRADED) == 1
    assert (large[0].memory_mib, large[0].units) == (19968, 3)  # no memory label: the table's
    assert len({device.index for device in small + large}) == 16


def test_mig_mixed_replicas_are_instances_shared() -> None:
    labels = {**A100, "mig.strategy": "mixed", "mig-1g.5gb.count": "7", "mig-1g.5gb.replicas": "2"}
    found = node(labels, {"gpu": 0, "mig-1g.5gb.shared": 14}, {"gpu": 0, "mig-1g.5gb.shared": 14})
    assert len([device for device in found.devices if device.profile == "1g.5gb"]) == 7
    assert any("replicas" in unknown.reason for unknown in found.unknowns)


def test_a_profile_nobody_knows_has_the_labels_figures() -> None:
    labels = {**A100, "mig-1g.5gb.me.memory": "4864", "mig-1g.5gb.me.slices.ci": "1"}
    device = node(labels, {"gpu": 0, "mig-1g.5gb.me": 1}).devices[0]
    assert (device.profile, device.memory_mib, device.units) == ("1g.5gb.me", 4864, 1)


def test_no_number_of_cards_is_unknown_not_zero() -> None:
    found = node({"gpu.product": "Tesla-T4"})
    assert found.devices == ()
    assert "gpu.count" in found.unknowns[0].reason


def test_labels_that_are_no_numbers() -> None:
    found = node({**A100, "gpu.memory": "4O960", "gpu.count": "-1"}, {"gpu": 1})
    assert found.devices[0].memory_mib == 40960 - 424
    assert len(found.unknowns) == 2


def test_absurd_count_is_no_count() -> None:
    found = node({**A100, "gpu.count": "1", "gpu.replicas": "0"}, {"gpu": 10**15})
    assert len(found.devices) <= 1
