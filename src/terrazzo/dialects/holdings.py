"""What a running pod holds, as it is written on the pod: our allocation annotation, or HAMi's.

HAMi's form: ``UUID,Type,memMiB,cores:`` for each device, containers closed by ``;``, init containers first, containers
without devices as empty places. The key carries the vendor: ``hami.io/vgpu-devices-allocated`` (NVIDIA),
``hami.io/<chip>-devices-allocated``, and so on. Source: HAMi, ``docs/develop/protocol.md``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from terrazzo.dialects.normalise import normalise
from terrazzo.model.allocation import Allocation, ContainerGrant, DeviceGrant, DeviceUse, Slice
from terrazzo.model.device import Device, units_for_percent
from terrazzo.model.errors import InputError
from terrazzo.model.node import Node
from terrazzo.model.request import ContainerKind, ContainerRequest, PodRequest
from terrazzo.wire import state
from terrazzo.wire.kubernetes import Pod

_HAMI = re.compile(r"^(hami\.io/[\w.-]*devices-allocated|volcano\.sh/vgpu-ids-new)$")


class _Entry(NamedTuple):
    uuid: str
    mib: int
    cores: int


def read(pod: Pod, nodes: Mapping[str, Node]) -> Allocation | None:
    """Return what the pod's annotations say it holds, or None when they say nothing.

    Devices that the node does not list are kept: what is running is running.

    Args:
        pod: a pod that was bound.
        nodes: the nodes of the dump, by name.

    Raises:
        InputError: an annotation is damaged.
    """
    annotations = pod.metadata.annotations or {}
    node = nodes.get(pod.spec.node_name)
    devices = {device.uuid: device for device in node.devices} if node is not None else {}
    title = f"pod {pod.metadata.namespace or 'default'}/{pod.metadata.name}"
    if state.ALLOCATION in annotations:
        grants = _ours(annotations[state.ALLOCATION], f"{title}: annotation {state.ALLOCATION}")
    else:
        grants = {}
        for key in sorted(annotations):
            if _HAMI.match(key):
                _add(grants, _hami(pod, annotations[key], devices, f"{title}: annotation {key}"))
        if not grants:
            return None
    request = normalise(pod).request
    return allocation(request, pod.spec.node_name, grants, devices)


def _add(grants: dict[str, tuple[DeviceGrant, ...]], more: dict[str, tuple[DeviceGrant, ...]]) -> None:
    for container, devices in more.items():
        grants[container] = grants.get(container, ()) + devices


def _ours(text: str, where: str) -> dict[str, tuple[DeviceGrant, ...]]:
    written = state.decode(text, state.AllocationState, where)
    return {
        container: tuple(DeviceGrant(d.uuid, d.mib, d.units, d.whole, d.profile, d.start) for d in devices)
        for container, devices in written.containers.items()
    }


def _hami(pod: Pod, text: str, devices: Mapping[str, Device], where: str) -> dict[str, tuple[DeviceGrant, ...]]:
    names = [c.name for c in [*(pod.spec.init_containers or ()), *(pod.spec.containers or ())]]
    places = text.split(";")
    if places and not places[-1].strip():
        places.pop()
    if len(places) > len(names):
        raise InputError(f"has places for {len(places)} containers, the pod has {len(names)}", where=where)
    grants = {}
    for name, place in zip(names, places, strict=False):
        entries = [_entry(each, where) for each in place.split(":") if each.strip()]
        if entries:
            grants[name] = tuple(_grant(entry, devices.get(entry.uuid)) for entry in entries)
    return grants


def _entry(text: str, where: str) -> _Entry:
    cells = text.split(",")
    try:
        entry = _Entry(cells[0].strip(), int(cells[2]), int(cells[3]))
    except (IndexError, ValueError):
        entry = _Entry("", 0, 0)
    if not entry.uuid or min(entry.mib, entry.cores) < 0:
        raise InputError(f"{text[:60]!r} is not UUID,Type,MiB,cores", where=where)
    return entry


def _grant(entry: _Entry, device: Device | None) -> DeviceGrant:
    if device is None:
        return DeviceGrant(entry.uuid, entry.mib, entry.cores)
    if device.geometry is not None and not device.profile:
        profile = next((p for p in device.geometry.profiles if p.memory_mib >= entry.mib), None)
        if profile is not None:
            return DeviceGrant(entry.uuid, profile.memory_mib, profile.units, profile=profile.name, start=-1)
    whole = isinstance(device.memory_mib, int) and entry.mib >= device.memory_mib and entry.cores >= 100
    return DeviceGrant(entry.uuid, entry.mib, units_for_percent(min(entry.cores, 100), device.units), whole=whole)


def allocation(
    request: PodRequest,
    node: str,
    grants: Mapping[str, tuple[DeviceGrant, ...]],
    devices: Mapping[str, Device],
) -> Allocation:
    """Return the allocation of a pod from what each container was granted.

    What the books hold per device is the maximum over the pod's life: init containers one after the other, each
    beside the sidecars started before it, then app containers and sidecars together.
    """
    kinds = {container.name: container for container in request.containers}
    by_device: dict[str, dict[str, DeviceGrant]] = {}
    for name, held in grants.items():
        for grant in held:
            by_device.setdefault(grant.uuid, {})[name] = grant
    uses = (_use(request, uuid, devices.get(uuid), held, kinds) for uuid, held in by_device.items())
    return Allocation(
        pod=request.key, namespace=request.namespace, name=request.name, node=node,
        containers=tuple(ContainerGrant(name, held) for name, held in grants.items()),
        uses=tuple(_known(use, devices.get(use.uuid)) for use in uses),
        priority=request.priority, created_s=request.created_s, labels=tuple(sorted(request.labels.items())),
        cpu_milli=request.cpu_milli, memory_mib=request.memory_mib,
    )  # fmt: skip


def _known(use: DeviceUse, device: Device | None) -> DeviceUse:
    """A whole device of unknown memory is held whole whatever the annotation says."""
    if device is None or isinstance(device.memory_mib, int) or not use.alone:
        return use
    return DeviceUse(use.uuid, 1, device.units, alone=True)


def _use(
    request: PodRequest,
    uuid: str,
    device: Device | None,
    held: Mapping[str, DeviceGrant],
    kinds: Mapping[str, ContainerRequest],
) -> DeviceUse:
    running = sidecars_mib = sidecars_units = 0
    most_mib = most_units = units = 0
    for name in [c.name for c in request.containers if c.name in held] + [name for name in held if name not in kinds]:
        grant = held[name]
        kind = kinds[name].kind if name in kinds else ContainerKind.APP
        if kind is ContainerKind.INIT:
            most_mib = max(most_mib, sidecars_mib + grant.memory_mib)
            most_units = max(most_units, sidecars_units + grant.units)
            continue
        running, units = running + grant.memory_mib, units + grant.units
        if kind is ContainerKind.SIDECAR:
            sidecars_mib, sidecars_units = sidecars_mib + grant.memory_mib, sidecars_units + grant.units
    cuttable = device is not None and device.geometry is not None and not device.profile
    cuts = tuple(sorted({Slice(g.profile, g.start) for g in held.values() if g.profile})) if cuttable else ()
    alone = request.exclusive or any(grant.whole for grant in held.values())
    return DeviceUse(uuid, max(most_mib, running), max(most_units, units), alone=alone, slices=cuts)
