"""Ascend: resources of Huawei's and HAMi's plugins, labels, and the device-info config map.

Source: Ascend mind-cluster, "Device plugin" and "Resource reporting". The config map ``mindx-dl-deviceinfo-<node>``
lists device names: available ones under the resource's name, sick ones under ``-Unhealthy`` and ``-NetworkUnhealthy``,
and faults as JSON inside the JSON. The same resource counts chips, AI cores or percent, depending on the plugin's mode.
HAMi offers slots under the chip's name and the node's memory under ``-memory``.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from terrazzo.dialects import catalogue, names
from terrazzo.dialects.readers import MOST_DEVICES, Found, Source, health, made_up
from terrazzo.dialects.readers.deviceinfo import Card, cards_of
from terrazzo.model.device import Device, Profile, SharingMode
from terrazzo.model.request import Pattern
from terrazzo.model.unknown import Unknown

_WHOLE = re.compile(
    r"^(?:huawei\.com/(Ascend(?:910|310P?)[A-Z]?\d?C?(?:-1)?|Ascend310P-(?:V|VPro|IPro)|npu)|ascend\.com/npu)$"
)
_CORES = "huawei.com/npu-core"
_CHIP_LABELS = ("node.kubernetes.io/npu.chip.name", "npu.huawei.com/chip-name")
_MODULE_LABEL = "accelerator-type"
_MODULES = (("module-a3", "910C"),)
"""Heads of that label's values which leave one chip."""
_MEMORY_LABEL = "mind-cluster/npu-chip-memory"
_SERVER = re.compile(r"^(Ascend\w+)-(\d{1,3})$")
"""``servertype``: the chip's kind and its AI cores."""
_SOFT = re.compile(r"^huawei\.com/scheduler\..*softsharedev\.enable$", re.IGNORECASE)
_PERCENT = 100


class _Kind(NamedTuple):
    """What a node says of the chips behind one resource.

    Attributes:
        hint: the name as the resource has it.
        chip: the exact chip, None when it is not told.
        doubt: what is not sure about that.
        mode: another mode than the chip's own.
    """

    hint: str
    chip: catalogue.Chip | None
    doubt: Unknown | None
    mode: SharingMode | None = None


def read(source: Source) -> Found | None:
    """Return the chips of a node that speaks Huawei's words.

    Raises:
        InputError: the config map is damaged.
    """
    told = cards_of(source)
    offered = [name for name in source.resources() if max(source.listed(name)) > 0]
    whole = sorted({*(name for name in offered if _WHOLE.match(name)), *(told or {})})
    cut = [name for name in offered if _profile_of(name) is not None]
    if not whole and not cut and _CORES not in offered and told is None:
        return None
    unknowns: list[Unknown] = []
    devices: list[Device] = []
    for resource in whole:
        if not _WHOLE.match(resource):
            continue
        kind = _kind(source, resource.rpartition("/")[2])
        memory = max(source.listed(f"{resource}-memory"))
        cards = _cards(source, resource, kind, memory, (told or {}).get(resource), unknowns)
        devices += _devices(source, kind, cards, memory, len(devices), unknowns)
    if not devices and _CORES in offered:
        devices += _by_cores(source, unknowns)
    for resource in cut:
        devices += _partitions(source, resource, len(devices), unknowns)
    return Found(tuple(devices), tuple(unknowns), ("ascend",))


def _kind(source: Source, hint: str) -> _Kind:
    """Return which exact chip a resource stands for: ``Ascend910`` alone may be any of eight."""
    soft = any(_SOFT.match(label) and value == "true" for label, value in source.labels.items())
    mode = SharingMode.CONTINUOUS if soft else None
    for label in _CHIP_LABELS:
        named = catalogue.chip("ascend", source.labels.get(label, ""))
        if named is not None:
            return _Kind(hint, named, None, mode)
    module = source.labels.get(_MODULE_LABEL, "")
    for head, model in _MODULES:
        if module.startswith(head):
            return _Kind(hint, catalogue.chip("ascend", model), None, mode)
    exact = catalogue.chip("ascend", re.sub(r"-(V|VPro|IPro)$", "", hint))
    if exact is None:
        doubt = source.where(f"{hint} does not say which chip; label {_CHIP_LABELS[0]} would")
        return _Kind(hint, None, Unknown(doubt), mode)
    if exact.family == "310P" and not source.listed(f"huawei.com/{hint}-memory")[0] and not _labelled(source):
        doubt = source.where(f"{hint} may be a card of 24 or 48 GB; counted as {exact.memory_mib} MiB a chip")
        return _Kind(hint, exact, Unknown(doubt), mode)
    return _Kind(hint, exact, None, mode)


def _cards(
    source: Source, resource: str, kind: _Kind, memory: int, told: list[Card] | None, unknowns: list[Unknown]
) -> list[Card]:
    present, usable = source.listed(resource)
    if memory and kind.chip is not None:
        # HAMi counts slots; the node's memory tells how many chips there are.
        usable = round((source.allocatable(f"{resource}-memory") or memory) / kind.chip.memory_mib)
        present = max(1, round(memory / kind.chip.memory_mib))
    elif kind.mode is SharingMode.CONTINUOUS:
        present, usable = -(-present // _PERCENT), usable // _PERCENT
    if present > MOST_DEVICES:
        unknowns.append(Unknown(source.where(f"{resource} is {present}, which is no count of chips")))
        return told or []
    if told is None:
        return [Card("", index, index < usable) for index in range(present)]
    if len(told) < present:
        unknowns.append(
            Unknown(source.where(f"{resource} is {present}, but the device-info config map lists {len(told)}"))
        )
    listed = {card.number for card in told}
    lost = [index for index in range(present + len(told)) if index not in listed][: max(0, present - len(told))]
    missing = [Card("", index, False, "in none of the lists of the device-info config map") for index in lost]
    return sorted([*told, *missing], key=lambda card: card.number)


def _devices(
    source: Source, kind: _Kind, cards: list[Card], memory: int, first: int, unknowns: list[Unknown]
) -> list[Device]:
    each = memory // len(cards) if memory and cards else _labelled(source)
    if kind.doubt is not None and cards:
        unknowns.append(kind.doubt)
    stated: int | Unknown | None = each or (kind.doubt if kind.chip is None else None)
    made = []
    for card in cards:
        index = card.number if first == 0 else first + card.number
        ok = health(card.ok, card.reason or "the device plugin offers fewer than the node has")
        if card.ok and card.reason:
            ok["health_reason"] = card.reason
        made.append(
            catalogue.device(
                "ascend",
                kind.chip.model if kind.chip is not None else kind.hint,
                node=source.name,
                uuid=f"{source.name}/{card.name}" if card.name else made_up(source, "ascend", index),
                index=index,
                memory_mib=stated,
                mode=kind.mode,
                product=kind.hint,
                **ok,
            )
        )
    return made


def _labelled(source: Source) -> int | None:
    text = source.labels.get(_MEMORY_LABEL, "").removesuffix("B").removesuffix("G")
    return int(text) * 1024 or None if text.isascii() and text.isdigit() and len(text) < 6 else None


def _by_cores(source: Source, unknowns: list[Unknown]) -> list[Device]:
    """Return chips where only AI cores are counted (dynamic vNPU): how many a chip has, ``servertype`` tells."""
    match = _SERVER.match(source.labels.get("servertype", ""))
    present, usable = source.listed(_CORES)
    each = int(match.group(2)) if match else 0
    if match is None or each < 1 or present // each > MOST_DEVICES:
        unknowns.append(Unknown(source.where(f"{_CORES} is {present}; label servertype would tell how many chips")))
        return []
    kind = _kind(source, match.group(1))
    cards = [Card("", index, index < usable // each) for index in range(present // each)]
    return _devices(source, kind, cards, 0, 0, unknowns)


def _profile_of(resource: str) -> names.Word | None:
    """Return the word of a static vNPU's resource (``huawei.com/Ascend910-2c``), None for any other."""
    word = names.lookup(resource)
    return word if word is not None and word.profile and word.phrase.vendor == "ascend" else None


def _partitions(source: Source, resource: str, first: int, unknowns: list[Unknown]) -> list[Device]:
    word = _profile_of(resource)
    present, usable = source.listed(resource)
    if word is None or present > MOST_DEVICES:
        unknowns.append(Unknown(source.where(f"{resource} is {present}, which is no count of slices")))
        return []
    kind = _kind(source, resource.rpartition("/")[2].partition("-")[0])
    cut = _same_everywhere(word) if kind.chip is None else None
    fields: dict[str, Any] = {"memory_mib": cut.memory_mib, "units": cut.units} if cut is not None else {}
    made = [
        catalogue.partition(
            "ascend",
            kind.chip.model if kind.chip is not None else kind.hint,
            word.profile,
            node=source.name,
            uuid=f"{source.name}/ascend-{word.profile}/{number}",
            index=first + number,
            **fields,
            **health(number < usable),
        )
        for number in range(present)
    ]
    unknowns += [device.memory_mib for device in made[:1] if isinstance(device.memory_mib, Unknown)]
    return made


def _same_everywhere(word: names.Word) -> Profile | None:
    """Return the template when all chips that have it agree on its size; then the chip need not be known."""
    models = Pattern(include=word.phrase.models)
    tables = [catalogue.geometry(chip.geometry) for chip in catalogue.chips("ascend") if models.matches(chip.model)]
    found = [table.profile(word.profile) for table in tables if table is not None]
    sizes = {(cut.memory_mib, cut.units): cut for cut in found if cut is not None}
    return next(iter(sizes.values())) if len(sizes) == 1 else None
