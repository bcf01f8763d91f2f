"""The figures of ``terrazzo inventory``: what there is, what is granted, what still fits."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from terrazzo.cli.cluster import Cluster
from terrazzo.cli.granted import memory
from terrazzo.cli.render import first
from terrazzo.model.allocation import Allocation
from terrazzo.model.device import Device, Health, SharingMode
from terrazzo.model.errors import InputError
from terrazzo.model.node import Node
from terrazzo.model.quantity import memory_mib
from terrazzo.model.request import Ask, ContainerRequest, NodeRules, PodRequest, Toleration
from terrazzo.model.unknown import Unknown
from terrazzo.placement.seat import DeviceView

_SIZE = re.compile(r"^(?:(\d+)\s*(?:[x×]|(?=gpu$)))?\s*(.+)$", re.ASCII)
_SIZES = "write a size such as 8Gi,30% or 2x40Gi or whole"


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
        unknowns: why it is not known, each reason once.
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
    unknowns: list[str] = field(default_factory=list)
    pods: int = 0
    granted_compute: float = 0


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
    notes: list[str] = field(default_factory=list)


def take(cluster: Cluster, by: str) -> Stock:
    """Return the figures of a cluster, grouped by ``model``, ``vendor``, ``node`` or ``namespace``."""
    stock = Stock(by)
    lines: dict[tuple[str, ...], Line] = {}
    for node in cluster.fleet.nodes():
        stock.nodes += 1
        _doubt(stock.unknowns, (f"{node.name}: {each.reason}" for each in node.unknowns if not node.devices))
        for view in cluster.fleet.devices(node.name):
            stock.devices += 1
            device = view.device
            line = lines.setdefault(_key(by, device), Line(_key(by, device)))
            if isinstance(device.memory_mib, Unknown):
                _doubt(stock.unknowns, [device.memory_mib.reason])
                _doubt(line.unknowns, [device.memory_mib.reason])
            if device.health is not Health.HEALTHY:
                stock.sick.append(f"{node.name} device {device.index} ({device.model}): {_illness(device)}")
            _count(cluster, line, view)
    closed = [node.name for node in cluster.fleet.nodes() if node.devices and (node.unschedulable or not node.ready)]
    if closed:
        stock.notes.append(f"cordoned or not ready, so that no new pod goes there: {first(closed)}")
    for node in cluster.fleet.nodes():
        _doubt(stock.unknowns, (each.reason for each in node.unknowns if node.devices))
    stock.pods = sum(1 for allocation in cluster.fleet.allocations() if allocation.uses)
    if by == "namespace":
        lines = _namespaces(cluster)
    stock.lines = [lines[key] for key in sorted(lines)]
    return stock


def _doubt(known: list[str], reasons: Iterable[str]) -> None:
    known += (reason for reason in reasons if reason not in known)


def _illness(device: Device) -> str:
    return device.health_reason or device.health.value


def _key(by: str, device: Device) -> tuple[str, ...]:
    model = _model(device)
    keys = {"model": (device.vendor, model), "vendor": (device.vendor,), "node": (device.node, model)}
    return keys.get(by, ())


def _model(device: Device) -> str:
    model = device.model or device.product or device.vendor
    return f"{model} {device.profile}" if device.profile and device.profile not in model else model


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
        if not view.holders and not line.largest_mib:
            line.largest = "whole"
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
            return view.free_mib, f"{memory(view.free_mib, down=True)}, 100%"
        best = max(open_, key=lambda p: (p.memory_mib, p.units), default=None)
        return (best.memory_mib, best.name) if best is not None else (0, "none")
    if device.mode is SharingMode.WHOLE:
        return (0, "none") if view.holders else (view.free_mib, f"whole, {memory(view.free_mib, down=True)}")
    mib = view.free_mib // device.memory_step_mib * device.memory_step_mib
    return mib, f"{memory(mib, down=True)}, {view.free_units * 100 // device.units}%"


def _namespaces(cluster: Cluster) -> dict[tuple[str, ...], Line]:
    lines: dict[tuple[str, ...], Line] = {}
    devices = {(node.name, device.uuid): device for node in cluster.fleet.nodes() for device in node.devices}
    for allocation in cluster.fleet.allocations():
        counted: set[tuple[str, ...]] = set()
        for use in allocation.uses:
            device = devices.get((allocation.node, use.uuid))
            key = (allocation.namespace, _model(device) if device is not None else "?")
            line = lines.setdefault(key, Line(key))
            line.pods += key not in counted
            counted.add(key)
            line.devices += 1
            total = device.units if device is not None else 100
            line.granted_compute += 1 if use.alone else use.units / total
            if device is not None and isinstance(device.memory_mib, int):
                line.granted_mib += min(use.memory_mib, device.memory_mib) if use.alone else use.memory_mib
            else:
                line.unknown_memory += 1
    return lines


class Size(NamedTuple):
    """A size that people ask for, as written and as an ask."""

    words: str
    ask: Ask


def parse_size(text: str) -> Size:
    """Return what ``8Gi,30%``, ``2x40Gi,50%``, ``30%``, ``whole``, ``4xwhole``, ``4gpu`` or ``mig-1g.10gb`` asks for.

    Raises:
        InputError: it is none of these.
    """
    match = _SIZE.match(text.strip())
    words = [word.strip() for word in match[2].split(",") if word.strip()] if match is not None else []
    if match is None or not words or len(match[1] or "") > 3 or not 1 <= int(match[1] or 1) <= 64 or len(words) > 2:
        raise InputError(f"{text!r} is no size", where="--request", remedy=_SIZES)
    count = int(match[1] or 1)
    if words[0] in {"whole", "gpu"} and len(words) == 1:
        return Size(text, Ask(count=count, whole=True))
    if words[0].startswith("mig-") and len(words) == 1:
        return Size(text, Ask(count=count, profile=words[0].removeprefix("mig-")))
    mib = cores = 0
    for word in words:
        if word.endswith("%") and not cores:
            cores = _percentage(word)
        elif not mib:
            mib = _mib(word)
        else:
            raise InputError(f"{text!r} says memory twice", where="--request", remedy=_SIZES)
    return Size(text, Ask(count=count, memory_mib=mib, memory_percent=0 if mib else cores, cores_percent=cores))


def _percentage(word: str) -> int:
    number = word[:-1].strip()
    if not (number.isascii() and number.isdigit() and len(number) <= 3 and 1 <= int(number) <= 100):
        raise InputError(f"{word!r} is no percentage of a device", where="--request", remedy="write 1% to 100%")
    return int(number)


def _mib(word: str) -> int:
    try:
        mib = memory_mib(word)
    except InputError as error:
        raise InputError(error.what, where="--request", remedy=error.remedy) from None
    if mib < 1:
        raise InputError(f"{word!r} is no amount of memory", where="--request", remedy=_SIZES)
    return mib


class Fits(NamedTuple):
    """How many pods of a size fit now, in all and by the model they would get."""

    size: str
    pods: int
    per_model: dict[str, int]


def count(cluster: Cluster, size: Size) -> Fits:
    """Return how many pods of a size fit now: placed one by one until one is refused.

    What fits on one node does not depend on the others, so nodes fill in turn, and nodes that look alike once. The
    pods ask for no host CPU or memory and tolerate every taint. The fleet is left as it was.
    """
    total: Counter[str] = Counter()
    known: dict[tuple[object, ...], Counter[str]] = {}
    for node in cluster.fleet.nodes():
        look = _look(cluster, node)
        if look not in known:
            known[look] = _fill(cluster, size.ask, node)
        total += known[look]
    return Fits(size.words, total.total(), dict(sorted(total.items(), key=lambda item: (-item[1], item[0]))))


def _look(cluster: Cluster, node: Node) -> tuple[object, ...]:
    """Return all that decides how many pods fit on a node."""
    room = None if node.max_pods is None else node.max_pods - len(cluster.fleet.allocations_on(node.name))
    views = tuple(
        (
            view.device.vendor, view.device.names, view.device.memory_mib, view.device.units, view.device.mode,
            view.device.sharers, view.device.memory_step_mib, view.device.geometry, view.device.profile,
            view.device.numa, view.device.links, view.device.health, view.free_mib, view.free_units,
            len(view.holders), view.alone, view.state,
        )
        for view in cluster.fleet.devices(node.name)
    )  # fmt: skip
    return node.ready, node.unschedulable, room, views


def pod_of(ask: Ask, vendor: str, number: int) -> PodRequest:
    """Return the pod number ``number`` of a size, for one vendor."""
    return PodRequest(
        namespace="",
        name=f"{vendor}-{number}",
        uid=f"size/{vendor}/{number}",
        containers=(ContainerRequest("size", asks=(msgspec.structs.replace(ask, vendors=(vendor,)),)),),
        rules=NodeRules(tolerations=(Toleration(operator="Exists"),)),
    )


def _fill(cluster: Cluster, ask: Ask, node: Node) -> Counter[str]:
    """Return how many pods find room on a node, by the model they get, and give it all back."""
    models = {device.uuid: _model(device) for device in node.devices}
    placed: list[Allocation] = []
    for vendor in sorted({device.vendor for device in node.devices}):
        while isinstance(found := cluster.engine.place_on(pod_of(ask, vendor, len(placed)), node.name), Allocation):
            cluster.fleet.grant(found)
            placed.append(found)
    for allocation in placed:
        cluster.fleet.release(allocation.pod)
    return Counter(models[allocation.uses[0].uuid] for allocation in placed)


_HEADS = {
    "model": ("vendor", "model"),
    "vendor": ("vendor",),
    "node": ("node", "model"),
    "namespace": ("namespace", "model"),
}


def _memory_data(stock: Stock, line: Line) -> dict[str, int | None]:
    if stock.by == "namespace":
        return {"granted": line.granted_mib}
    if line.total_mib is None:
        return {"granted": None, "free": None, "total": None}
    return {"granted": line.granted_mib, "free": line.free_mib, "total": line.total_mib}


def _compute_data(stock: Stock, line: Line) -> dict[str, float]:
    """Compute in devices' worth: units of different vendors are never added."""
    if stock.by == "namespace":
        return {"granted": round(line.granted_compute, 3)}
    figures = {"granted": line.granted_units, "free": line.free_units, "total": line.total_units}
    return {name: round(units / 100, 3) for name, units in figures.items()}


def as_data(stock: Stock, counts: list[Fits]) -> dict[str, Any]:
    """Return the figures for ``-o json``; the keys are part of the interface. Unknown memory is null."""
    return {
        "by": stock.by,
        "nodes": stock.nodes,
        "devices": stock.devices,
        "pods": stock.pods,
        "lines": [
            {
                **dict(zip(_HEADS[stock.by], line.key, strict=True)),
                "devices": line.devices,
                "whole_free": line.whole_free,
                "unhealthy": line.sick,
                "memory_mib": _memory_data(stock, line),
                "memory_unknown": {"devices": line.unknown_memory, "reasons": line.unknowns},
                "compute_devices": _compute_data(stock, line),
                "largest": line.largest,
                "pods": line.pods,
            }
            for line in stock.lines
        ],
        "fits": [{"size": fits.size, "pods": fits.pods, "per_model": fits.per_model} for fits in counts],
        "unknown": stock.unknowns,
        "unhealthy": stock.sick,
        "notes": stock.notes,
    }
