"""Extended resources with little more than a count: Volcano, Cambricon, Hygon, Moore Threads, and everybody else.

A count says how many devices there are and nothing of their memory: that is ``unknown``, unless a label or a second
resource tells. Sources: the vendors' device plugins; Volcano, ``docs/user-guide``; HAMi v2.10 for slots and units;
cloud providers' node labels.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from terrazzo.dialects import catalogue
from terrazzo.dialects.names import is_device_name
from terrazzo.dialects.readers import MOST_DEVICES, Found, Source, health, made_up
from terrazzo.dialects.readers.looks import looks_like_accelerator
from terrazzo.model.device import Device
from terrazzo.model.quantity import MIB
from terrazzo.model.unknown import Unknown

_GIB = 1024 * MIB


class _Count(NamedTuple):
    """A resource that counts devices.

    Attributes:
        resource: its name.
        vendor: whose.
        per_device: how much of it one device offers.
        memory: resource with the node's memory, or empty.
        memory_unit: bytes that 1 of ``memory`` is.
        model: what the name itself says of the model.
    """

    resource: str
    vendor: str
    per_device: int = 1
    memory: str = ""
    memory_unit: int = MIB
    model: str = ""


_COUNTS = (
    # Where one vendor has several, the first that the node offers settles it: the surest first.
    _Count("volcano.sh/gpu-number", "nvidia", memory="volcano.sh/gpu-memory"),
    _Count("aliyun.com/gpu-count", "nvidia", memory="aliyun.com/gpu-mem", memory_unit=_GIB),
    _Count("nvidia.com/gpu", "nvidia"),
    _Count("nvidia.com/gpu.shared", "nvidia"),
    _Count("volcano.sh/vgpu-number", "nvidia", 10, memory="volcano.sh/vgpu-memory"),
    _Count("koordinator.sh/gpu-core", "nvidia", 100, memory="koordinator.sh/gpu-memory", memory_unit=1),
    _Count("tencent.com/vcuda-core", "nvidia", 100, memory="tencent.com/vcuda-memory", memory_unit=256 * MIB),
    _Count("cambricon.com/real-mlu-counts", "cambricon", memory="cambricon.com/mlu.smlu.vmemory",
           memory_unit=256 * MIB),
    _Count("cambricon.com/mlu.smlu.vcore", "cambricon", 100, memory="cambricon.com/mlu.smlu.vmemory",
           memory_unit=256 * MIB),
    _Count("cambricon.com/mlu", "cambricon"),
    *(_Count(f"cambricon.com/mlu{kind}", "cambricon", model=f"MLU{kind}")
      for kind in ("220", "270", "290", "365", "370", "570", "580", "585", "590")),
    _Count("hygon.com/dcu", "hygon"),
    _Count("hygon.com/hcu", "hygon"),
    _Count("hygon.com/dcunum", "hygon", 4, memory="hygon.com/dcumem"),
    _Count("hygon.com/hcunum", "hygon", 4, memory="hygon.com/hcumem"),
    _Count("mthreads.com/sgpu-core", "mthreads", 16, memory="mthreads.com/sgpu-memory", memory_unit=512 * MIB),
    _Count("mthreads.com/gpu", "mthreads"),
    _Count("mthreads.com/vgpu", "mthreads", 16),
    _Count("amd.com/gpu", "amd"),
    _Count("gpu.intel.com/i915", "intel"),
    _Count("gpu.intel.com/xe", "intel"),
    _Count("metax-tech.com/gpu", "metax"),
    _Count("iluvatar.ai/gpu", "iluvatar"),
    *(_Count(f"iluvatar.ai/{chip}-vgpu", "iluvatar", 100, memory=f"iluvatar.ai/{chip}.vMem", memory_unit=256 * MIB,
             model=chip) for chip in ("BI-V100", "BI-V150", "MR-V50", "MR-V100")),
    _Count("enflame.com/gcu", "enflame"),
    _Count("kunlunxin.com/xpu", "kunlunxin"),
    _Count("google.com/tpu", "google"),
    _Count("habana.ai/gaudi", "habana"),
    _Count("aws.amazon.com/neuron", "aws"),
    _Count("birentech.com/gpu", "biren"),
    _Count("vastaitech.com/va", "vastai"),
    _Count("furiosa.ai/npu", "furiosa"),
    _Count("qualcomm.com/qaic", "qualcomm"),
)  # fmt: skip
_MODEL_LABELS = {
    "nvidia": ("nvidia.com/gpu.product", "cloud.google.com/gke-accelerator", "aliyun.accelerator/nvidia_name",
               "node.kubernetes.io/gpu-model", "karpenter.k8s.aws/instance-gpu-name"),
    "cambricon": ("Model",),
    "amd": ("amd.com/gpu.product-name", "beta.amd.com/gpu.product-name"),
    "intel": ("gpu.intel.com/product",),
    "metax": ("metax-tech.com/gpu.product",),
    "google": ("cloud.google.com/gke-tpu-accelerator",),
}  # fmt: skip
_MEMORY_LABELS = {
    "nvidia": ("nvidia.com/gpu.memory", "aliyun.accelerator/nvidia_mem", "karpenter.k8s.aws/instance-gpu-memory"),
    "amd": ("amd.com/gpu.vram", "beta.amd.com/gpu.vram"),
}
_SIZE = re.compile(r"^(\d{1,9})\s*(|M|Mi|MiB|G|Gi|GiB)$")


def read(source: Source) -> Found | None:
    """Return devices for every counted resource that the node offers."""
    devices: list[Device] = []
    unknowns: list[Unknown] = []
    vendors = set(source.settled)
    for row in _COUNTS:
        present, usable = source.listed(row.resource)
        if row.vendor in vendors or present < 1:
            continue
        vendors.add(row.vendor)
        devices += _devices(source, row, present, usable, unknowns)
    domains = {row.resource.partition("/")[0] for row in _COUNTS}
    for resource in source.resources():
        domain = resource.partition("/")[0]
        if domain in domains or is_device_name(resource) or not looks_like_accelerator(resource):
            continue
        present, usable = source.listed(resource)
        if present and domain not in vendors:
            vendors.add(domain)
            devices += _devices(source, _Count(resource, domain), present, usable, unknowns)
    if not devices and not unknowns:
        return None
    return Found(tuple(devices), tuple(unknowns), tuple(vendors))


def _devices(source: Source, row: _Count, present: int, usable: int, unknowns: list[Unknown]) -> list[Device]:
    each = min(row.per_device, present)
    if present % each:
        unknowns.append(
            Unknown(source.where(f"{row.resource} is {present}, not a multiple of the {each} that a device offers"))
        )
    present, usable = present // each, usable // each
    if present > MOST_DEVICES:
        unknowns.append(Unknown(source.where(f"{row.resource} is {present * each}, which is no count of devices")))
        return []
    model = next((text for label in _MODEL_LABELS.get(row.vendor, ()) if (text := source.labels.get(label))), row.model)
    chip = catalogue.chip(row.vendor, model)
    memory = _memory(source, row, present)
    if memory is None and chip is None:
        reason = Unknown(source.where(f"{row.resource} counts devices and says nothing of their memory"))
        unknowns.append(reason)
        memory = reason
    mode = None if chip is not None else catalogue.usual_mode(row.vendor)
    return [
        catalogue.device(
            row.vendor,
            model,
            node=source.name,
            uuid=made_up(source, row.vendor, index),
            index=index,
            memory_mib=memory,
            mode=mode,
            **health(index < usable),
        )
        for index in range(present)
    ]


def _memory(source: Source, row: _Count, cards: int) -> int | Unknown | None:
    """Return what one device has: its share of the node's memory resource, else what a label says."""
    total = max(source.listed(row.memory)) if row.memory else 0
    if total:
        return total * row.memory_unit // cards // MIB or None
    for label in _MEMORY_LABELS.get(row.vendor, ()):
        match = _SIZE.match(source.labels.get(label, ""))
        if match and int(match.group(1)):
            return int(match.group(1)) * (1024 if match.group(2).startswith("G") else 1)
    return None
