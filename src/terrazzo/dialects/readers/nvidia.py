"""NVIDIA's labels (GPU feature discovery) with the resources of its device plugin.

Source: NVIDIA k8s-device-plugin, "GPU Feature Discovery Labels". MIG strategy ``single``: ``nvidia.com/gpu`` counts
instances and the product ends in ``-MIG-<profile>``. ``mixed``: each profile has its own resource and labels. With
time-slicing or MPS the resource counts replicas (and may be called ``.shared``), the label ``gpu.count`` cards.
"""

from __future__ import annotations

from terrazzo.dialects import catalogue
from terrazzo.dialects.readers import MOST_DEVICES, MOST_MIB, Found, Source, health, made_up
from terrazzo.model.device import Device, SharingMode
from terrazzo.model.unknown import Unknown

_P = "nvidia.com/"
_MIG = f"{_P}mig-"
_SHARED = ".shared"


def read(source: Source) -> Found | None:
    """Return cards and MIG instances of a labelled node."""
    product = source.labels.get(f"{_P}gpu.product", "")
    if not product and f"{_P}gpu.count" not in source.labels:
        return None
    unknowns: list[Unknown] = []
    if "-MIG-" in product:
        return Found(_single(source, product, unknowns), tuple(unknowns), ("nvidia",))
    instances = _mixed(source, unknowns)
    cards = _cards(source, product, bool(instances), unknowns)
    return Found((*cards, *instances), tuple(unknowns), ("nvidia",))


def _number(source: Source, label: str, unknowns: list[Unknown], most: int = MOST_MIB) -> int | None:
    text = source.labels.get(label)
    if text is None:
        return None
    if text.isascii() and text.isdigit() and len(text) < 16 and int(text) <= most:
        return int(text)
    unknowns.append(Unknown(source.where(f"label {label} is {text[:40]!r}, which is no such number")))
    return None


def _memory(source: Source, label: str, unknowns: list[Unknown]) -> int | Unknown:
    return _number(source, label, unknowns) or Unknown(source.where(f"label {label} tells no memory"))


def _listed(source: Source, resource: str) -> tuple[int, int] | None:
    """Return (present, usable) under the plain name and the one for replicas; None when neither is listed."""
    names = [name for name in (resource, f"{resource}{_SHARED}") if name in source.resources()]
    if not names:
        return None
    amounts = [source.listed(name) for name in names]
    return sum(present for present, _ in amounts), sum(usable for _, usable in amounts)


def _count(
    source: Source, resource: str, label: str, unknowns: list[Unknown], *, label_wins: bool = False
) -> tuple[int, int]:
    """Return (present, usable) devices of a kind, replicas taken out.

    Args:
        source: the node.
        resource: what the plugin offers.
        label: head of the labels about it (``nvidia.com/gpu``).
        unknowns: where to note what is not told.
        label_wins: the label counts every card; else a card in MIG mode is counted by it too, and the resource wins.
    """
    replicas = max(1, _number(source, f"{label}.replicas", unknowns, MOST_DEVICES) or 1)
    counted = _number(source, f"{label}.count", unknowns, MOST_DEVICES)
    listed = _listed(source, resource)
    if listed is None:
        if counted is None:
            unknowns.append(
                Unknown(source.where(f"neither label {label}.count nor a resource says how many there are"))
            )
        return counted or 0, counted or 0
    strategy = source.labels.get(f"{_P}gpu.sharing-strategy", "none")
    if counted and label_wins:
        if listed[0] > counted * replicas:
            replicas = -(-listed[0] // counted)
            strategy = "a plugin"
        present = max(counted, listed[0] // replicas)
    else:
        present = -(-listed[0] // replicas)
    if replicas > 1:
        unknowns.append(
            Unknown(source.where(f"{strategy} offers {replicas} replicas a device; who is on which is not told"))
        )
    if present > MOST_DEVICES:
        unknowns.append(Unknown(source.where(f"{resource} is {listed[0]}, which is no count of devices")))
        return 0, 0
    return present, -(-listed[1] // replicas)


def _cards(source: Source, product: str, mig: bool, unknowns: list[Unknown]) -> tuple[Device, ...]:
    present, usable = _count(source, f"{_P}gpu", f"{_P}gpu", unknowns, label_wins=not mig)
    told = _memory(source, f"{_P}gpu.memory", unknowns)
    known = catalogue.chip("nvidia", product) is not None
    return tuple(
        catalogue.device(
            "nvidia",
            product,
            node=source.name,
            uuid=made_up(source, "nvidia", index),
            index=index,
            memory_mib=None if known and isinstance(told, Unknown) else told,
            mode=None if known else SharingMode.CONTINUOUS,
            **health(index < usable),
        )
        for index in range(present)
    )


def _single(source: Source, product: str, unknowns: list[Unknown]) -> tuple[Device, ...]:
    profile = product.rpartition("-MIG-")[2].removesuffix("-SHARED")
    present, usable = _count(source, f"{_P}gpu", f"{_P}gpu", unknowns, label_wins=True)
    return _instances(source, profile, f"{_P}gpu", (present, usable), SharingMode.WHOLE, 0, unknowns)


def _mixed(source: Source, unknowns: list[Unknown]) -> tuple[Device, ...]:
    devices: list[Device] = []
    for resource in sorted({name.removesuffix(_SHARED) for name in source.resources() if name.startswith(_MIG)}):
        if _listed(source, resource) in {None, (0, 0)}:
            continue
        amounts = _count(source, resource, resource, unknowns)
        profile = resource.removeprefix(_MIG)
        devices += _instances(source, profile, resource, amounts, SharingMode.GEOMETRY, len(devices), unknowns)
    return tuple(devices)


def _instances(
    source: Source,
    profile: str,
    label: str,
    amounts: tuple[int, int],
    mode: SharingMode,
    first: int,
    unknowns: list[Unknown],
) -> tuple[Device, ...]:
    """Return MIG instances as devices. Which card each is on, the dump does not tell."""
    memory = _memory(source, f"{label}.memory", unknowns)
    units = _number(source, f"{label}.slices.ci", unknowns)
    return tuple(
        catalogue.partition(
            "nvidia",
            source.labels.get(f"{_P}gpu.product", ""),
            profile,
            node=source.name,
            uuid=f"{source.name}/nvidia-mig-{profile}/{number}",
            index=first + number,
            memory_mib=memory,
            units=units,
            mode=mode,
            **health(number < amounts[1]),
        )
        for number in range(amounts[0])
    )
