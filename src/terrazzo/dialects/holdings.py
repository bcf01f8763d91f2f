"""What a running pod holds, as it is written on the pod: our allocation annotation, or HAMi's.

HAMi's form: ``UUID,Type,memMiB,cores:`` for each device, containers closed by ``;``, init containers first, containers
without devices as empty places. The key carries the vendor: ``hami.io/vgpu-devices-allocated`` (NVIDIA),
``hami.io/<chip>-devices-allocated``, and so on; ``…-to-allocate`` is the same list while a pod starts. Which MIG slice
is meant, ``hami.io/vgpu-mig-allocations`` says. Source: HAMi v2.10, ``docs/develop/protocol.md`` and ``pkg/device``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from terrazzo.dialects.normalise import normalise
from terrazzo.dialects.readers import MOST_MIB
from terrazzo.model.allocation import Allocation, ContainerGrant, DeviceGrant, DeviceUse, Slice
from terrazzo.model.device import Device, Profile, SharingMode, units_for_percent
from terrazzo.model.errors import InputError, RequestError
from terrazzo.model.node import Node
from terrazzo.model.request import ContainerKind, PodRequest
from terrazzo.wire import state
from terrazzo.wire.kubernetes import Container, Pod

_KEY = re.compile(
    r"^(?:hami|4pd)\.io/(?P<word>[\w.-]+?)(?:-devices)?-(?P<state>allocated|to-allocate)$"
    r"|^(?:volcano\.sh|4pd\.io)/(?P<ids>vgpu-ids-new)$"
)
_MIG_KEY = "hami.io/vgpu-mig-allocations"
_NODE_KEY = "hami.io/vgpu-node"
_ENDED = ("Succeeded", "Failed")
_OLD_MIG = re.compile(r"^(.+)\[\d+-\d+\]$")
"""Before 2.10 HAMi wrote a MIG slice as ``<uuid>[template-position]`` of its own tables."""
_IN_UNITS = ("mthreads",)
"""Vendors whose cores HAMi counts in the device's own units; of all others in percent."""

_Grants = dict[str, tuple[DeviceGrant, ...]]


class _Entry(NamedTuple):
    uuid: str
    mib: int
    cores: int


class _MigSlice(NamedTuple):
    uuid: str
    profile: str
    start: int


def read(pod: Pod, nodes: Mapping[str, Node], request: PodRequest | None = None) -> Allocation | None:
    """Return what the pod's annotations say it holds, or None when they say nothing or the pod has ended.

    Devices that the node does not list are kept: what is running is running.

    Args:
        pod: a pod that was bound.
        nodes: the nodes of the dump, by name.
        request: what the pod asks for, where that is known already.

    Raises:
        InputError: an annotation is damaged, or was written for another pod.
    """
    annotations = pod.metadata.annotations or {}
    if pod.status.phase in _ENDED:
        return None
    node = pod.spec.node_name or annotations.get(_NODE_KEY, "")
    devices = {device.uuid: device for device in nodes[node].devices} if node in nodes else {}
    title = f"pod {pod.metadata.namespace or 'default'}/{pod.metadata.name}"
    if state.ALLOCATION in annotations:
        grants = _ours(pod, annotations[state.ALLOCATION], f"{title}: annotation {state.ALLOCATION}")
    else:
        grants = _theirs(pod, node, devices, title)
    return allocation(request or _request(pod), node, grants, devices) if grants else None


def _request(pod: Pod) -> PodRequest:
    try:
        return normalise(pod).request
    except RequestError:
        return host_request(pod)


def host_request(pod: Pod) -> PodRequest:
    """Return a pod's request without its containers' resources.

    What runs holds its devices even if nobody could ask for them like that today.
    """
    bare = msgspec.structs.replace(
        pod.spec, containers=_bare(pod.spec.containers), init_containers=_bare(pod.spec.init_containers)
    )
    return normalise(msgspec.structs.replace(pod, spec=bare)).request


def written(allocation: Allocation, isolation: str = "") -> str:
    """Return the text of ``terrazzo.io/allocation`` that ``read`` reads back.

    Args:
        allocation: of a pod with a UID.
        isolation: how the parts are enforced, empty where the node decides.
    """
    rows = {
        held.container: [
            state.DeviceState(g.uuid, g.memory_mib, g.units, g.whole, g.profile, g.start, isolation)
            for g in held.devices
        ]
        for held in allocation.containers
        if held.devices
    }
    return state.encode(state.AllocationState(node=allocation.node, uid=allocation.pod, containers=rows))


def _bare(containers: Iterable[Container] | None) -> list[Container]:
    return [msgspec.structs.replace(each, resources=None) for each in containers or ()]


def _ours(pod: Pod, text: str, where: str) -> _Grants:
    written = state.decode(text, state.AllocationState, where)
    for said, is_now, what in (
        (written.uid, pod.metadata.uid, "pod"),
        (written.node, pod.spec.node_name, "node"),
    ):
        if said and is_now and said != is_now:
            raise InputError(f"was written for {what} {said}", where=where, remedy="delete the annotation")
    for container, rows in written.containers.items():
        for row in rows:
            figures = (row.mib, row.units, row.start + 1)
            if not row.uuid or min(figures) < 0 or max(figures) > MOST_MIB:
                raise InputError(
                    f"container {container} holds {row.mib} MiB and {row.units} units of device {row.uuid!r}, "
                    "which cannot be",
                    where=where,
                    remedy="delete the annotation to have it rebuilt",
                )
    return {
        container: tuple(DeviceGrant(d.uuid, d.mib, d.units, d.whole, d.profile, d.start) for d in rows)
        for container, rows in written.containers.items()
        if rows
    }


def _theirs(pod: Pod, node: str, devices: Mapping[str, Device], title: str) -> _Grants:
    annotations = pod.metadata.annotations or {}
    slices = _mig_slices(annotations.get(_MIG_KEY, ""), f"{title}: annotation {_MIG_KEY}")
    grants: _Grants = {}
    for key in _keys(annotations):
        where = f"{title}: annotation {key}"
        for position, (container, entries) in enumerate(_places(pod, annotations[key], where)):
            known = {grant.uuid for grant in grants.get(container, ())}
            more = []
            for ordinal, entry in enumerate(entries):
                device = _device(entry.uuid, node, devices)
                uuid = device.uuid if device is not None else entry.uuid
                cut = slices.get((position, ordinal))
                if uuid not in known:  # another plane's key may repeat it
                    more.append(_grant(uuid, entry, device, cut if cut and cut.uuid == entry.uuid else None))
            if more:
                grants[container] = grants.get(container, ()) + tuple(more)
    return grants


def _keys(annotations: Mapping[str, str]) -> list[str]:
    """Return the keys that count: of each word the allocated list, the one still to allocate only without it."""
    chosen: dict[str, str] = {}
    for key in sorted(annotations):
        match = _KEY.match(key)
        if match is not None:
            word = match.group("word") or match.group("ids")
            if match.group("state") != "to-allocate" or word not in chosen:
                chosen[word] = key
    return sorted(chosen.values())


def _places(pod: Pod, text: str, where: str) -> list[tuple[str, list[_Entry]]]:
    """Return (container, its devices) in the order in which HAMi counts containers."""
    names = [container.name for container in [*(pod.spec.init_containers or ()), *(pod.spec.containers or ())]]
    places = text.split(";")
    if not places[-1].strip():
        places.pop()
    if len(places) > len(names):
        raise InputError(
            f"has places for {len(places)} containers, the pod has {len(names)}",
            where=where,
            remedy="delete the pod so that its scheduler writes it anew",
        )
    return [
        (name, [_entry(each, where) for each in place.split(":") if each.strip()])
        for name, place in zip(names, places, strict=False)
    ]


def _entry(text: str, where: str) -> _Entry:
    cells = [cell.strip() for cell in text.split(",")]
    try:
        entry = _Entry(_OLD_MIG.sub(r"\1", cells[0]), int(cells[2]), int(cells[3]))
    except (IndexError, ValueError):
        entry = _Entry("", 0, 0)
    if not entry.uuid or min(entry.mib, entry.cores) < 0 or max(entry.mib, entry.cores) > MOST_MIB:
        raise InputError(
            f"{text[:60]!r} is not UUID,Type,MiB,cores",
            where=where,
            remedy="delete the pod so that its scheduler writes it anew",
        )
    return entry


def _mig_slices(text: str, where: str) -> dict[tuple[int, int], _MigSlice]:
    """Return the slices by (place of the container, ordinal of the device in it)."""
    if not text.strip():
        return {}
    try:
        return dict(_mig_slice(row) for row in msgspec.json.decode(text))
    except (msgspec.MsgspecError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError(
            f"cannot be read ({type(error).__name__}: {error})",
            where=where,
            remedy="delete the pod so that its scheduler writes it anew",
        ) from None


def _mig_slice(row: Any) -> tuple[tuple[int, int], _MigSlice]:
    place = row["containerIndex"], row["deviceIndex"]
    start = row["placement"]["start"]
    if not all(isinstance(number, int) and 0 <= number < MOST_MIB for number in (*place, start)):
        raise ValueError("a place is no number")
    return place, _MigSlice(str(row["gpuUUID"]), str(row["profile"]), start)


def _device(uuid: str, node: str, devices: Mapping[str, Device]) -> Device | None:
    """Return the device that HAMi means. Where a node names none, HAMi makes ids up: ``<node>-cambricon-mlu-0``."""
    if uuid in devices or not uuid.startswith(f"{node}-"):
        return devices.get(uuid)
    word, _, number = uuid.removeprefix(f"{node}-").rpartition("-")
    vendor = word.partition("-")[0]
    alike = (
        device
        for device in devices.values()
        if vendor and device.vendor.startswith(vendor) and device.uuid == f"{node}/{device.vendor}-{number}"
    )
    return next(alike, None)


def _grant(uuid: str, entry: _Entry, device: Device | None, cut: _MigSlice | None) -> DeviceGrant:
    if device is None:
        name, start = (cut.profile, cut.start) if cut is not None else ("", -1)
        return DeviceGrant(uuid, entry.mib, entry.cores, profile=name, start=start)
    total = device.memory_mib if isinstance(device.memory_mib, int) else 0
    if device.profile:
        return DeviceGrant(uuid, total, device.units, profile=device.profile)
    if device.mode is SharingMode.GEOMETRY:
        profile = _profile(entry, device, cut)
        if profile is not None:
            start = cut.start if cut is not None and cut.start in profile.starts else -1
            return DeviceGrant(uuid, profile.memory_mib, profile.units, profile=profile.name, start=start)
    percent = device.vendor not in _IN_UNITS
    units = units_for_percent(entry.cores, device.units) if percent else entry.cores
    if device.mode is not SharingMode.CONTINUOUS or (units >= device.units and 0 < total <= entry.mib):
        return DeviceGrant(uuid, total, device.units, whole=True)
    # No more than there is: an operator may have scaled memory and compute.
    return DeviceGrant(uuid, min(entry.mib, total or entry.mib), min(units, device.units))


def _profile(entry: _Entry, device: Device, cut: _MigSlice | None) -> Profile | None:
    """Return the slice that is meant, None for the whole device."""
    if device.geometry is None or not entry.mib:
        return None
    named = device.geometry.profile(cut.profile) if cut is not None else None
    if named is not None:
        return named
    # HAMi's older tables state nominal sizes (10240 for a 1g.10gb of 9856 MiB); neighbours are far apart.
    return next((each for each in device.geometry.profiles if each.memory_mib * 10 >= entry.mib * 9), None)


def allocation(
    request: PodRequest,
    node: str,
    grants: Mapping[str, tuple[DeviceGrant, ...]],
    devices: Mapping[str, Device],
) -> Allocation:
    """Return the allocation of a pod from what each container was granted.

    What the books hold per device is the maximum over the pod's life: init containers one after the other, each
    beside the sidecars started before it, then app containers and sidecars together.

    Args:
        request: the pod.
        node: where it runs.
        grants: per container name.
        devices: of the node, by UUID; a grant may name others.
    """
    uuids = dict.fromkeys(grant.uuid for held in grants.values() for grant in held)
    order = {container.name: position for position, container in enumerate(request.containers)}
    names = sorted(grants, key=lambda name: order.get(name, len(order)))
    return Allocation(
        pod=request.key, namespace=request.namespace, name=request.name, node=node,
        containers=tuple(ContainerGrant(name, grants[name]) for name in names),
        uses=tuple(_use(request, uuid, devices.get(uuid), grants) for uuid in uuids),
        priority=request.priority, created_s=request.created_s, labels=tuple(sorted(request.labels.items())),
        cpu_milli=request.cpu_milli, memory_mib=request.memory_mib,
    )  # fmt: skip


class _Amount(NamedTuple):
    """Memory, compute and slices of one device, at one moment of a pod's life."""

    mib: int = 0
    units: int = 0
    slices: Counter[Slice] = Counter()  # noqa: RUF012 - never changed in place

    def beside(self, other: _Amount) -> _Amount:
        """Return both at once."""
        return _Amount(self.mib + other.mib, self.units + other.units, self.slices + other.slices)

    def or_else(self, other: _Amount) -> _Amount:
        """Return what covers either; a slice that one has left serves the other."""
        return _Amount(max(self.mib, other.mib), max(self.units, other.units), self.slices | other.slices)


def _use(
    request: PodRequest, uuid: str, device: Device | None, grants: Mapping[str, tuple[DeviceGrant, ...]]
) -> DeviceUse:
    kinds = {container.name: container.kind for container in request.containers}
    held = {name: [grant for grant in rows if grant.uuid == uuid] for name, rows in grants.items()}
    most = running = sidecars = _Amount()
    for name in [*kinds, *(name for name in held if name not in kinds)]:
        mine = _amount(held.get(name, ()), device)
        match kinds.get(name, ContainerKind.APP):
            case ContainerKind.INIT:
                most = most.or_else(sidecars.beside(mine))
            case ContainerKind.SIDECAR:
                sidecars, running = sidecars.beside(mine), running.beside(mine)
            case ContainerKind.APP:
                running = running.beside(mine)
    total = most.or_else(running)
    rows = [grant for each in held.values() for grant in each]
    whole = any(grant.whole for grant in rows)
    alone = request.exclusive or whole
    if total.slices:
        # One place holds one slice, whoever uses it; slices without a place are as many as there are users.
        cuts = [cut for cut, count in sorted(total.slices.items()) for _ in range(count if cut.start < 0 else 1)]
        size = {Slice(grant.profile, grant.start): (grant.memory_mib, grant.units) for grant in rows}
        mib, units = sum(size[cut][0] for cut in cuts), sum(size[cut][1] for cut in cuts)
        return DeviceUse(uuid, mib, units, alone=alone, slices=tuple(cuts))
    if whole and device is not None and not isinstance(device.memory_mib, int):
        # 1 stands for all the memory of a device whose memory nobody told.
        return DeviceUse(uuid, 1, device.units, alone=True)
    return DeviceUse(uuid, total.mib, total.units, alone=alone)


def _amount(grants: Iterable[DeviceGrant], device: Device | None) -> _Amount:
    amount = _Amount()
    for grant in grants:
        if device is None:
            cut = grant.start >= 0
        else:
            cut = bool(grant.profile) and device.geometry is not None and not device.profile
        slices = Counter([Slice(grant.profile, grant.start)]) if cut else Counter[Slice]()
        amount = amount.beside(_Amount(grant.memory_mib, grant.units, slices))
    return amount
