"""NVIDIA's labels (GPU feature discovery) with the resources of its device plugin.

Source: NVIDIA k8s-device-plugin, "GPU Feature Discovery Labels". MIG strategy ``single``: ``nvidia.com/gpu`` counts
instances and the product ends in ``-MIG-<profile>``. ``mixed``: each profile has its own resource and labels. With
time-slicing or MPS the resource counts replicas, the label ``gpu.count`` cards.
"""

from __future__ import annotations

from typing import Any

from terrazzo.dialects import catalogue
from terrazzo.dialects.readers import Found, Source, made_up
from terrazzo.model.device import Device, Health, SharingMode
from terrazzo.model.unknown import Unknown

_P = "nvidia.com/"
_MIG = f"{_P}mig-"


def read(source: Source) -> Found | None:
    """Return cards and MIG instances of a labelled node."""
    product = source.labels.get(f"{_P}gpu.product", "")
    if not product and f"{_P}gpu.count" not in source.labels:
        return None
    unknowns: list[Unknown] = []
    if "-MIG-" in product:
        return _single(source, product, unknowns)
    instances = _mixed(source, product, unknowns)
    cards = _cards(source, product, bool(instances), unknowns)
    return Found((*cards, *instances), tuple(unknowns), ("nvidia",))


def _number(source: Source, label: str, unknowns: list[Unknown]) -> int | None:
    text = source.labels.get(label)
    if text is None:
        return None
    if text.isascii() and text.isdigit():
        return int(text)
    unknowns.append(Unknown(source.where(f"label {label} is {text!r}, not a number")))
    return None


def _memory(source: Source, label: str, unknowns: list[Unknown]) -> int | Unknown:
    number = _number(source, label, unknowns)
    return number or Unknown(f"label {label} is missing")


def _cards(source: Source, product: str, mig: bool, unknowns: list[Unknown]) -> tuple[Device, ...]:
    replicas = max(1, _number(source, f"{_P}gpu.replicas", unknowns) or 1)
    present, usable = _listed(source)
    counted = _number(source, f"{_P}gpu.count", unknowns)
    strategy = source.labels.get(f"{_P}gpu.sharing-strategy", "none")
    cards = present // replicas if mig or counted is None else max(counted, present // replicas)
    if present == 0 and not mig and not _lists_gpu(source):
        usable = cards * replicas
    if replicas > 1:
        unknowns.append(
            Unknown(source.where(f"{strategy} with {replicas} replicas a card: who holds which card is not told"))
        )
    memory = _memory(source, f"{_P}gpu.memory", unknowns)
    return tuple(
        _device(source, product, index, memory, allocatable=index * replicas < usable) for index in range(cards)
    )


def _lists_gpu(source: Source) -> bool:
    return any(name in source.resources() for name in (f"{_P}gpu", f"{_P}gpu.shared"))


def _listed(source: Source) -> tuple[int, int]:
    plain, shared = source.listed(f"{_P}gpu"), source.listed(f"{_P}gpu.shared")
    return plain[0] + shared[0], plain[1] + shared[1]


def _device(
    source: Source, product: str, index: int, memory: int | Unknown, *, allocatable: bool, **more: Any
) -> Device:
    health = Health.HEALTHY if allocatable else Health.DEGRADED
    why = "" if allocatable else "the device plugin offers fewer than the node has"
    mode = None if catalogue.chip("nvidia", product) else SharingMode.CONTINUOUS
    fields: dict[str, Any] = {"mode": mode, "health": health, "health_reason": why, **more}
    uuid = fields.pop("uuid", made_up(source, "nvidia", index))
    stated = None if isinstance(memory, Unknown) and catalogue.chip("nvidia", product) else memory
    return catalogue.device("nvidia", product, node=source.name, uuid=uuid, index=index, memory_mib=stated, **fields)


def _single(source: Source, product: str, unknowns: list[Unknown]) -> Found:
    profile = product.rpartition("-MIG-")[2].removesuffix("-SHARED")
    present, usable = _listed(source)
    replicas = max(1, _number(source, f"{_P}gpu.replicas", unknowns) or 1)
    memory = _memory(source, f"{_P}gpu.memory", unknowns)
    units = _number(source, f"{_P}gpu.slices.ci", unknowns)
    devices = (
        _instance(source, product, profile, index, memory, units, SharingMode.WHOLE, ok=index * replicas < usable)
        for index in range(present // replicas)
    )
    return Found(tuple(devices), tuple(unknowns), ("nvidia",))


def _mixed(source: Source, product: str, unknowns: list[Unknown]) -> tuple[Device, ...]:
    devices: list[Device] = []
    for resource in source.resources():
        if not resource.startswith(_MIG) or resource.endswith(".shared"):
            continue
        profile = resource.removeprefix(_MIG)
        present, usable = source.listed(resource)
        replicas = max(1, _number(source, f"{resource}.replicas", unknowns) or 1)
        memory = _memory(source, f"{resource}.memory", unknowns) if present else Unknown("no such instance")
        units = _number(source, f"{resource}.slices.ci", unknowns) if present else None
        for index in range(present // replicas):
            ok = index * replicas < usable
            devices.append(_instance(source, product, profile, index, memory, units, SharingMode.GEOMETRY, ok=ok))
    return tuple(devices)


def _instance(
    source: Source,
    product: str,
    profile: str,
    index: int,
    memory: int | Unknown,
    units: int | None,
    mode: SharingMode,
    *,
    ok: bool,
) -> Device:
    """Return one MIG instance as a device. Which card it is on, the dump does not tell."""
    chip = catalogue.chip("nvidia", product)
    table = catalogue.geometry(chip.geometry) if chip is not None and chip.geometry else None
    row = table.profile(profile) if table is not None else None
    if isinstance(memory, Unknown) and row is not None:
        memory = row.memory_mib
    return Device(
        node=source.name,
        uuid=f"{source.name}/nvidia-mig-{profile}/{index}",
        vendor="nvidia",
        model=f"{chip.model if chip else product}-MIG-{profile}",
        product=product,
        family=chip.family if chip else "",
        index=index,
        memory_mib=memory,
        units=units or (row.units if row is not None else 1),
        mode=mode,
        sharers=1,
        geometry=table,
        profile=profile,
        health=Health.HEALTHY if ok else Health.DEGRADED,
        health_reason="" if ok else "the device plugin offers fewer than the node has",
    )
