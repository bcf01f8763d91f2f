"""Rejections in words: the only place where reasons become text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from terrazzo.model.quantity import format_mib
from terrazzo.model.reason import DeviceRejection, NodeRejection, Reason
from terrazzo.model.request import PodRequest

SHORT = {
    Reason.NOT_READY: "not ready",
    Reason.TAINT: "tainted",
    Reason.SELECTOR: "excluded by node selector or affinity",
    Reason.CPU: "short of CPU",
    Reason.HOST_MEMORY: "short of host memory",
    Reason.PODS: "full of pods",
    Reason.OTHER_RESOURCE: "short of another resource",
    Reason.NO_DEVICE: "without accelerator",
    Reason.INVENTORY_UNKNOWN: "with unknown devices",
    Reason.VENDOR: "of another vendor",
    Reason.MODEL: "of another model",
    Reason.DEVICE: "without the device asked for",
    Reason.HEALTH: "with no healthy device left",
    Reason.MODE: "that cannot share that way",
    Reason.PROFILE: "without that slice",
    Reason.TOO_SMALL: "with too small devices",
    Reason.MEMORY_UNKNOWN: "with unknown memory",
    Reason.HELD_ALONE: "whose devices are held whole",
    Reason.IN_USE: "whose devices are in use",
    Reason.SHARERS: "at the sharer limit",
    Reason.MEMORY: "short of device memory",
    Reason.CORES: "short of compute",
    Reason.PLACEMENT: "with no place for the slice",
    Reason.COUNT: "with too few devices",
    Reason.NUMA: "without enough on one NUMA node",
    Reason.CORDONED: "cordoned",
    Reason.VENDOR_UNDECIDED: "waiting for a vendor decision",
}


def grouped(rejections: Iterable[NodeRejection]) -> list[tuple[Reason, int]]:
    """Return reasons with the number of nodes, commonest first."""
    return counted(each.reason for each in rejections)


def counted(reasons: Iterable[Reason]) -> list[tuple[Reason, int]]:
    """Return how often each reason comes, commonest first."""
    counts: dict[Reason, int] = {}
    for reason in reasons:
        counts[reason] = counts.get(reason, 0) + 1
    order = list(Reason)
    return sorted(counts.items(), key=lambda item: (-item[1], order.index(item[0])))


def why_line(rejections: Sequence[NodeRejection], nodes: int) -> str:
    """Return one line: ``0/20 nodes: 11 of another model, 5 short of device memory``."""
    return counts_line((each.reason for each in rejections), nodes)


def counts_line(reasons: Iterable[Reason], nodes: int) -> str:
    """Return the line of ``why_line`` from one reason per node."""
    parts = ", ".join(f"{count} {SHORT[reason]}" for reason, count in counted(reasons))
    return f"0/{nodes} nodes: {parts}" if parts else f"0/{nodes} nodes"


def asks(request: PodRequest) -> str:
    """Return what a pod asks for: ``2×(40Gi, 50%) nvidia|ascend``; containers joined by ``+``."""
    parts = []
    for container in request.containers:
        for ask in container.asks:
            narrowed = " ".join(filter(None, ["|".join(ask.vendors), *ask.models, *request.model.include]))
            parts.append(f"{ask.describe()} {narrowed}".strip())
    return " + ".join(parts) or "no device"


def device_line(no: DeviceRejection) -> str:
    """Return why one device does not do, with numbers and holders."""
    text = f"{no.reason}"
    if no.reason in {Reason.MEMORY, Reason.TOO_SMALL, Reason.IN_USE} and no.needed >= 0:
        short = no.needed - no.available
        text += f": needs {format_mib(no.needed)}, {format_mib(max(0, no.available))} free"
        text += f", short {format_mib(short)}" if short > 0 else ""
    elif no.needed >= 0:
        unit = " units" if no.reason is Reason.CORES else ""
        text += f": needs {no.needed}{unit}, {max(0, no.available)} left"
    if no.detail:
        text += f" ({no.detail})"
    if no.holders:
        shown = ", ".join(no.holders[:4]) + (f" and {len(no.holders) - 4} more" if len(no.holders) > 4 else "")
        text += f"; held by {shown}"
    return text


def node_line(no: NodeRejection) -> str:
    """Return why one node does not do."""
    text = str(no.reason)
    match no.reason:
        case Reason.CPU:
            text += f": needs {no.needed}m, {no.available}m left"
        case Reason.HOST_MEMORY:
            text += f": needs {format_mib(no.needed)}, {format_mib(max(0, no.available))} left"
        case Reason.MEMORY | Reason.TOO_SMALL if no.needed > 0:
            text += f": needs {format_mib(no.needed)}, {format_mib(max(0, no.available))} at best"
        case _ if no.needed > 0:
            text += f": needs {no.needed}, {max(0, no.available)} do"
    return f"{text} ({no.detail})" if no.detail else text


def span(indices: Sequence[int]) -> str:
    """Return indices as people write them: ``0-3,6``."""
    runs: list[list[int]] = []
    for index in sorted(indices):
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def may_do(no: NodeRejection) -> bool:
    """Return whether the node could take the pod if somebody else left it."""
    if no.devices:
        return any(not device.reason.permanent for device in no.devices)
    return not no.reason.permanent


def _shortage(device: DeviceRejection) -> tuple[bool, int]:
    return device.reason.permanent or device.needed < 0, device.needed - device.available


def distance(no: NodeRejection) -> tuple[int, tuple[bool, int], str]:
    """Return how far a node is from doing: devices refused, then what the nearest of them is short of."""
    return len(no.devices), min(map(_shortage, no.devices), default=(True, 0)), no.node


def nearest_line(no: NodeRejection) -> str:
    """Return what a node lacks, and the device that comes nearest."""
    line = node_line(no)
    if not no.devices:
        return line
    device = min(no.devices, key=_shortage)
    told = device_line(device)
    return f"device {device.index} {told}" if no.reason is device.reason else f"{line}; device {device.index} {told}"
