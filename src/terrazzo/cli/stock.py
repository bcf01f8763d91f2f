"""The figures of ``terrazzo inventory``: what there is, what is granted, what still fits."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from terrazzo.cli.cluster import Cluster
from terrazzo.model.device import Device, Health, SharingMode
from terrazzo.model.errors import InputError
from terrazzo.model.quantity import format_mib, memory_mib
from terrazzo.model.request import Ask, ContainerRequest, PodRequest
from terrazzo.placement.fleet import DeviceView

_SIZE = re.compile(r"^(?:(\d+)\s*[x×])?\s*(.+)$")


@dataclass(slots=True)
class Line:
    """One row. Amounts are sums over healthy devices; memory is None when no device of the row tells its own.

    Attributes:
        key: what the row is about.
        devices: all devices, sick ones too.
        whole_free: healthy devices that nobody holds.
        granted_mib, free_mib, total_mib: memory.
        granted_units, free_units, total_units: compute, each device counted as 100.
        largest: the largest slice that fits on one device now, in words.
        sick: devices that take no grant.
        unknown_memory: devices whose memory nobody tells.
        pods: pods that hold something (rows by namespace).
        granted_compute: devices' worth of compute granted.
    """

    key: tuple[str, ...]
    devices: int = 0
    whole_free: int = 0
    granted_mib: int = 0
    free_mib: int = 0
    total_mib: int | None = None
    granted_units: float = 0
    free_units: float = 0
    total_units: float = 0
    largest: str = "none"
    largest_mib: int = 0
    sick: int = 0
    unknown_memory: int = 0
    pods: int = 0
    granted_compute: float = 0

    def percent(self, amount: float) -> str:
        """Return an amount of compute as part of the row's whole."""
        return f"{amount * 100 / self.total_units:.0f}%" if self.total_units else "–"


@dataclass(slots=True)
class Stock:
    """All rows and what stands below them."""

    by: str
    lines: list[Line] = field(default_factory=list)
    nodes: int = 0
    devices: int = 0
    pods: int = 0
    unknowns: list[str] = field(default_factory=list)
    sick: list[str] = field(default_factory=list)


def take(cluster: Cluster, by: str) -> Stock:
    """Return the figures of a cluster, grouped by ``model``, ``vendor``, ``node`` or ``namespace``."""
    stock = Stock(by)
    lines: dict[tuple[str, ...], Line] = {}
    reasons: dict[str, None] = {}
    for node in cluster.fleet.nodes():
        stock.nodes += 1
        reasons.update(dict.fromkeys(each.reason for each in node.unknowns))
        for view in cluster.fleet.devices(node.name):
            stock.devices += 1
            if not isinstance(view.device.memory_mib, int):
                reasons[view.device.memory_mib.reason] = None
            if view.device.health is not Health.HEALTHY:
                stock.sick.append(
                    f"{node.name} device {view.device.index} ({view.device.model}): {view.device.health_reason}"
                )
            if by != "namespace":
                _count(cluster, lines.setdefault(_key(by, view.device), Line(_key(by, view.device))), view)
    stock.pods = sum(1 for allocation in cluster.fleet.allocations() if allocation.uses)
    if by == "namespace":
        lines = _namespaces(cluster)
    stock.lines = [lines[key] for key in sorted(lines)]
    stock.unknowns = list(reasons)
    return stock


def _key(by: str, device: Device) -> tuple[str, ...]:
    model = device.model or "?"
    return {"model": (device.vendor, model), "vendor": (device.vendor,), "node": (device.node, model)}[by]


def _count(cluster: Cluster, line: Line, view: DeviceView) -> None:
    device = view.device
    line.devices += 1
    if device.health is not Health.HEALTHY:
        line.sick += 1
        return
    uses = cluster.fleet.uses(device.node, device.uuid).values()
    taken = min(device.units, sum(device.units if use.alone else use.units for use in uses))
    line.total_units += 100
    line.granted_units += taken * 100 / device.units
    line.free_units += view.free_units * 100 / device.units
    line.whole_free += not view.holders and _gives_whole(view)
    if not isinstance(device.memory_mib, int):
        line.unknown_memory += 1
        return
    line.total_mib = (line.total_mib or 0) + device.memory_mib
    line.granted_mib += min(device.memory_mib, sum(use.memory_mib for use in uses))
    line.free_mib += view.free_mib
    size, words = _largest(view)
    if size > line.largest_mib:
        line.largest_mib, line.largest = size, words


def _gives_whole(view: DeviceView) -> bool:
    positional = view.device.geometry is not None and any(p.starts for p in view.device.geometry.profiles)
    return view.device.mode is not SharingMode.GEOMETRY or not (positional or view.device.profile)


def _largest(view: DeviceView) -> tuple[int, str]:
    """Return memory and words of the largest slice that still fits on a device."""
    from terrazzo.placement.geometry import cuts_of  # noqa: PLC0415 - only for devices that are cut

    device = view.device
    if view.alone or not view.free_units:
        return 0, "none"
    if device.profile:
        return (view.free_mib, device.profile) if not view.holders else (0, "none")
    if device.mode is SharingMode.GEOMETRY and device.geometry is not None:
        cuts = cuts_of(device.geometry)
        open_ = [p for p in device.geometry.profiles if cuts.starts(p, view.state)]
        if not view.holders and not cuts.positional:
            return view.free_mib, f"{format_mib(view.free_mib)}, 100%"
        best = max(open_, key=lambda p: (p.memory_mib, p.units), default=None)
        return (best.memory_mib, best.name) if best is not None else (0, "none")
    if device.mode is SharingMode.WHOLE and view.holders:
        return 0, "none"
    mib = view.free_mib // device.memory_step_mib * device.memory_step_mib
    return mib, f"{format_mib(mib)}, {view.free_units * 100 // device.units}%"


def _namespaces(cluster: Cluster) -> dict[tuple[str, ...], Line]:
    lines: dict[tuple[str, ...], Line] = {}
    units = {(node.name, d.uuid): d.units for node in cluster.fleet.nodes() for d in node.devices}
    for allocation in cluster.fleet.allocations():
        if not allocation.uses:
            continue
        line = lines.setdefault((allocation.namespace,), Line((allocation.namespace,)))
        line.pods += 1
        for use in allocation.uses:
            line.devices += 1
            line.granted_mib += use.memory_mib
            total = units.get((allocation.node, use.uuid), 100)
            line.granted_compute += 1 if use.alone else use.units / total
    return lines


class Size(NamedTuple):
    """A size that people ask for, as written and as an ask."""

    words: str
    ask: Ask


def parse_size(text: str) -> Size:
    """Return what ``8Gi,30%``, ``2x40Gi,50%``, ``30%``, ``whole`` or ``4xwhole`` asks for.

    Raises:
        InputError: it is none of these.
    """
    match = _SIZE.match(text.strip())
    remedy = "write a size such as 8Gi,30% or 2x40Gi or whole"
    if match is None:
        raise InputError(f"{text!r} is no size", where="--request", remedy=remedy)
    count = int(match[1] or 1)
    words = [word.strip() for word in match[2].split(",") if word.strip()]
    if not 1 <= count <= 64 or not words:
        raise InputError(f"{text!r} is no size", where="--request", remedy=remedy)
    if words == ["whole"]:
        return Size(text, Ask(count=count, whole=True))
    memory = cores = 0
    for word in words:
        if word.endswith("%"):
            number = word[:-1].strip()
            if not (number.isascii() and number.isdigit()) or not 1 <= int(number) <= 100:
                raise InputError(f"{word!r} is no percentage of a device", where="--request", remedy="write 1% to 100%")
            cores = int(number)
        else:
            try:
                memory = memory_mib(word)
            except InputError as error:
                raise InputError(error.what, where=f"--request {text}", remedy=error.remedy) from None
            if memory < 1:
                raise InputError(f"{word!r} is no amount of memory", where="--request", remedy=remedy)
    return Size(text, Ask(count=count, memory_mib=memory, memory_percent=0 if memory else cores, cores_percent=cores))


def count(cluster: Cluster, size: Size) -> tuple[str, dict[str, int], int]:
    """Return how many pods of a size fit now, per vendor and in all: placed one by one until one is refused.

    The fleet is left as it was.
    """
    per_vendor = {vendor: _fill(cluster, size.ask, vendor) for vendor in cluster.vendors}
    return size.words, {vendor: number for vendor, number in per_vendor.items() if number}, sum(per_vendor.values())


def _fill(cluster: Cluster, ask: Ask, vendor: str) -> int:
    placed: list[str] = []
    wanted = msgspec.structs.replace(ask, vendors=(vendor,))
    while True:
        name = f"size-{vendor}-{len(placed)}"
        request = PodRequest(namespace="", name=name, uid=name, containers=(ContainerRequest("size", asks=(wanted,)),))
        allocation = cluster.engine.decide(request)
        if allocation is None:
            break
        cluster.fleet.grant(allocation)
        placed.append(allocation.pod)
    for pod in placed:
        cluster.fleet.release(pod)
    return len(placed)


def as_data(stock: Stock, counts: list[tuple[str, dict[str, int], int]]) -> dict[str, Any]:
    """Return the figures for ``-o json``; the keys are part of the interface. Unknown memory is null."""
    return {
        "by": stock.by,
        "nodes": stock.nodes,
        "devices": stock.devices,
        "pods": stock.pods,
        "lines": [
            {
                "key": list(line.key),
                "devices": line.devices,
                "whole_free": line.whole_free,
                "unhealthy": line.sick,
                "memory_mib": {"granted": line.granted_mib, "free": line.free_mib, "total": line.total_mib},
                "memory_unknown": line.unknown_memory,
                "compute_devices": {
                    "granted": round((line.granted_units or line.granted_compute * 100) / 100, 3),
                    "free": round(line.free_units / 100, 3),
                    "total": round(line.total_units / 100, 3),
                },
                "largest": line.largest,
                "pods": line.pods,
            }
            for line in stock.lines
        ],
        "fits": [{"size": size, "pods": total, "per_vendor": per} for size, per, total in counts],
        "unknown": stock.unknowns,
        "unhealthy": stock.sick,
    }
