"""From a dump's Node objects to nodes with devices.

Readers are asked in this order; a later one adds only vendors that no earlier one settled, because a node often tells
the same devices in several words and the first tells more:

1. our own annotation, or our driver's ResourceSlices,
2. ResourceSlices of other drivers,
3. HAMi's (and Volcano's) annotations,
4. NVIDIA's labels,
5. Ascend's resources and config map,
6. counted resources of everybody.
"""

from __future__ import annotations

from collections.abc import Iterable

from terrazzo.dialects.names import is_device_name
from terrazzo.dialects.readers import Reader, Source, ascend, counts, dra, hami, no_twins, nvidia, ours
from terrazzo.model.device import Device
from terrazzo.model.errors import InputError
from terrazzo.model.node import Node, Taint
from terrazzo.model.quantity import memory_mib, milli
from terrazzo.model.unknown import Unknown
from terrazzo.wire import kubernetes as k8s

READERS: tuple[Reader, ...] = (ours.read, dra.read, hami.read, nvidia.read, ascend.read, counts.read)
publish = ours.publish
publish_slices = ours.publish_slices


def read_nodes(
    nodes: Iterable[k8s.Node],
    *,
    config_maps: Iterable[k8s.ConfigMap] = (),
    slices: Iterable[k8s.ResourceSlice] = (),
) -> list[Node]:
    """Return the nodes of a dump with their devices.

    Args:
        nodes: Node objects.
        config_maps: config maps of the dump; Ascend's device-info is used.
        slices: ResourceSlices of the dump.

    Raises:
        InputError: a node is listed twice, lists a device twice, or says something that cannot be read.
    """
    maps = {each.metadata.name: each for each in config_maps}
    by_node: dict[str, list[k8s.ResourceSlice]] = {}
    for each in slices:
        by_node.setdefault(each.spec.node_name, []).append(each)
    found: dict[str, Node] = {}
    for node in nodes:
        name = node.metadata.name
        if not name:
            raise InputError("a Node has no metadata.name", where="node")
        if name in found:
            raise InputError("is listed twice", where=f"node {name}", remedy="give each node once")
        found[name] = read_node(Source(node, maps, tuple(by_node.get(name, ()))))
    return list(found.values())


def read_node(source: Source) -> Node:
    """Return one node with its devices; see ``read_nodes``."""
    devices: list[Device] = []
    unknowns: list[Unknown] = []
    settled: set[str] = set()
    for reader in READERS:
        result = reader(source._replace(settled=frozenset(settled)))
        if result is not None:
            no_twins(result.devices, f"node {source.name}")
            devices += (device for device in result.devices if device.vendor not in settled)
            unknowns += result.unknowns
            settled.update(result.vendors)
        if reader is ours.read and result is not None:
            break
    return _node(source, tuple(devices), tuple(unknowns))


def _node(source: Source, devices: tuple[Device, ...], unknowns: tuple[Unknown, ...]) -> Node:
    node = source.node
    offered = node.status.allocatable or {}
    ready = next((c.status == "True" for c in node.status.conditions or () if c.type == "Ready"), True)
    return Node(
        name=source.name,
        labels=source.labels,
        taints=tuple(Taint(t.key, t.value or "", t.effect) for t in node.spec.taints or ()),
        unschedulable=bool(node.spec.unschedulable),
        ready=ready,
        cpu_milli=_host(source, offered, "cpu"),
        memory_mib=_host(source, offered, "memory"),
        max_pods=source.allocatable("pods"),
        devices=devices,
        other={name: source.allocatable(name) or 0 for name in offered if "/" in name and not is_device_name(name)},
        unknowns=unknowns,
    )


def _host(source: Source, offered: dict[str, k8s.Quantity], name: str) -> int | None:
    value = offered.get(name)
    if value is None:
        return None
    try:
        # Memory is rounded up to MiB; a node's last fraction of a MiB is nobody's loss.
        return milli(value) if name == "cpu" else memory_mib(value)
    except InputError as error:
        raise InputError(error.what, where=source.where(f"status.allocatable[{name}]"), remedy=error.remedy) from None
