"""Extended resources with little more than a count: Volcano, Cambricon, Hygon, Moore Threads, and everybody else.

A count says how many devices there are and nothing of their memory: that is ``unknown``, unless a label or a second
resource tells.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from terrazzo.dialects import catalogue
from terrazzo.dialects.readers import Found, Source, made_up
from terrazzo.model.device import Device, Health, SharingMode
from terrazzo.model.unknown import Unknown


class _Count(NamedTuple):
    """A resource that counts devices.

    Attributes:
        resource: its name.
        vendor: whose.
        per_device: how much of it one device offers.
        memory: resource with the node's memory, or empty.
        memory_unit_mib: unit of ``memory``.
        model: what the name itself says of the model.
        label: label with the model.
    """

    resource: str
    vendor: str
    per_device: int = 1
    memory: str = ""
    memory_unit_mib: int = 1
    model: str = ""
    label: str = ""


_COUNTS = (
    # Where one vendor has several, the first that the node offers settles it: the surest first.
    _Count("nvidia.com/gpu", "nvidia"),
    _Count("volcano.sh/gpu-number", "nvidia", memory="volcano.sh/gpu-memory"),
    _Count("volcano.sh/vgpu-number", "nvidia", 10, memory="volcano.sh/vgpu-memory"),
    _Count("nvidia.com/gpu.shared", "nvidia"),
    _Count("cambricon.com/real-mlu-counts", "cambricon", memory="cambricon.com/mlu.smlu.vmemory", memory_unit_mib=256,
           label="Model"),
    _Count("cambricon.com/mlu.smlu.vcore", "cambricon", 100, memory="cambricon.com/mlu.smlu.vmemory",
           memory_unit_mib=256, label="Model"),
    _Count("cambricon.com/mlu", "cambricon", label="Model"),
    _Count("cambricon.com/mlu370", "cambricon", model="MLU370"),
    _Count("cambricon.com/mlu590", "cambricon", model="MLU590"),
    _Count("cambricon.com/mlu290", "cambricon", model="MLU290"),
    _Count("hygon.com/dcu", "hygon"),
    _Count("hygon.com/hcu", "hygon"),
    _Count("hygon.com/dcunum", "hygon", 4),
    _Count("hygon.com/hcunum", "hygon", 4),
    _Count("mthreads.com/sgpu-core", "mthreads", 16, memory="mthreads.com/sgpu-memory", memory_unit_mib=512),
    _Count("mthreads.com/gpu", "mthreads"),
    _Count("mthreads.com/vgpu", "mthreads", 16),
    _Count("amd.com/gpu", "amd", label="amd.com/gpu.product-name"),
    _Count("gpu.intel.com/i915", "intel"),
    _Count("gpu.intel.com/xe", "intel"),
    _Count("metax-tech.com/gpu", "metax"),
    _Count("iluvatar.ai/gpu", "iluvatar"),
    _Count("enflame.com/gcu", "enflame"),
    _Count("kunlunxin.com/xpu", "kunlunxin"),
)  # fmt: skip
_LOOKS = re.compile(
    r"(^|[.\-/_])(gpu|npu|tpu|xpu|dcu|mlu|gcu|hpu|ipu|accelerator|gaudi|neuron)s?([.\-_]|$)", re.IGNORECASE
)
_NOT_CARDS = re.compile(r"(mem|memory|core|cores|percentage|priority|number|count|shared)$", re.IGNORECASE)
_OWN = ("terrazzo.io/", "huawei.com/", "ascend.com/", "volcano.sh/", "nvidia.com/")


def read(source: Source) -> Found | None:
    """Return devices for every counted resource that the node offers."""
    devices: list[Device] = []
    unknowns: list[Unknown] = []
    vendors: list[str] = list(source.settled)
    for row in _COUNTS:
        present, usable = source.listed(row.resource)
        if row.vendor in vendors or present < row.per_device:
            continue
        vendors.append(row.vendor)
        found, doubt = _devices(source, row, present // row.per_device, usable // row.per_device)
        devices += found
        unknowns += doubt
    for resource in source.resources():
        known = any(row.resource == resource for row in _COUNTS) or resource.startswith(_OWN)
        domain = resource.partition("/")[0]
        if known or any(row.resource.startswith(f"{domain}/") for row in _COUNTS):
            continue
        if _LOOKS.search(resource) and not _NOT_CARDS.search(resource) and max(source.listed(resource)) > 0:
            found, doubt = _devices(source, _Count(resource, domain), *source.listed(resource))
            devices += found
            unknowns += doubt
            vendors.append(domain)
    return Found(tuple(devices), tuple(unknowns), tuple(vendors)) if devices else None


def _devices(source: Source, row: _Count, present: int, usable: int) -> tuple[list[Device], list[Unknown]]:
    model = (source.labels.get(row.label, "") if row.label else "") or row.model
    chip = catalogue.chip(row.vendor, model)
    total = source.allocatable(row.memory) if row.memory else None
    each = total * row.memory_unit_mib // present if total else None
    reason = Unknown(source.where(f"{row.resource} counts devices and says nothing of their memory"))
    memory: int | Unknown | None = each or (None if chip else reason)
    mode = None if chip else _mode(row.vendor)
    doubts = [] if each or chip else [reason]
    devices = []
    for index in range(present):
        ok = index < usable
        more: dict[str, Any] = {
            "health": Health.HEALTHY if ok else Health.DEGRADED,
            "health_reason": "" if ok else "the device plugin offers fewer than the node has",
        }
        uuid = made_up(source, row.vendor, index)
        devices.append(
            catalogue.device(
                row.vendor, model, node=source.name, uuid=uuid, index=index, memory_mib=memory, mode=mode, **more
            )
        )
    return devices, doubts


def _mode(vendor: str) -> SharingMode:
    """Return the mode of a chip nobody named: how its vendor's chips are shared, ``whole`` where they are cut."""
    usual = next((chip.mode for chip in catalogue.chips(vendor)), SharingMode.WHOLE)
    return usual if usual is SharingMode.CONTINUOUS else SharingMode.WHOLE
