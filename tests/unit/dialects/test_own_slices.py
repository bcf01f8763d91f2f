from __future__ import annotations

from typing import Any

import msgspec
import pytest

from terrazzo.dialects import inventory
from terrazzo.model.device import Health
from terrazzo.model.node import Node
from terrazzo.model.unknown import Unknown
from terrazzo.testing.builders import CUT, SHARED, Kind, make_node
from terrazzo.wire import kubernetes as k8s


def _read_back(node: Node, slices: list[dict[str, Any]]) -> Node:
    objects = [msgspec.convert(each, k8s.ResourceSlice) for each in slices]
    return inventory.read_nodes([k8s.Node(k8s.ObjectMeta(name=node.name))], slices=objects)[0]


@pytest.mark.parametrize("kind", [*SHARED, *CUT], ids=str)
def test_what_is_published_in_slices_is_read_back(kind: Kind) -> None:
    node = make_node("gpu-1", kind, 4)
    assert _read_back(node, inventory.publish_slices(node)).devices == node.devices


def test_more_than_128_devices_take_two_slices_of_one_pool() -> None:
    node = make_node("gpu-1", SHARED[0], 130)
    slices = inventory.publish_slices(node, generation=7)
    assert [len(each["spec"]["devices"]) for each in slices] == [128, 2]
    assert len(_read_back(node, slices).devices) == 130
    missing = _read_back(node, slices[:1])
    assert len(missing.devices) == 128
    assert "1 of 2 slices of generation 7" in missing.unknowns[0].reason


def test_an_old_generation_is_not_read() -> None:
    node = make_node("gpu-1", SHARED[0], 4)
    old = inventory.publish_slices(msgspec.structs.replace(node, devices=node.devices[:2]), generation=1)
    old[0]["metadata"]["name"] = "old"
    assert _read_back(node, [*old, *inventory.publish_slices(node, generation=2)]).devices == node.devices


def test_sick_and_unknown_devices_are_told_as_such() -> None:
    node = make_node("gpu-1", SHARED[0], 2)
    sick = msgspec.structs.replace(node.devices[0], health=Health.DEGRADED, health_reason="Xid 79")
    blind = msgspec.structs.replace(node.devices[1], memory_mib=Unknown("the driver did not say"))
    node = msgspec.structs.replace(node, devices=(sick, blind))
    slices = inventory.publish_slices(node)
    assert slices[0]["spec"]["devices"][0]["taints"][0]["effect"] == "NoSchedule"
    assert _read_back(node, slices).devices == node.devices
