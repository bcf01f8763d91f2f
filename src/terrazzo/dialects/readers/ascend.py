"""Ascend: resources of Huawei's and HAMi's plugins, labels, and the device-info config map.

Source: Ascend mind-cluster, "Device plugin" and "Resource reporting". The config map ``mindx-dl-deviceinfo-<node>``
lists device names: available ones under the resource's name, sick ones under ``-Unhealthy`` and ``-NetworkUnhealthy``,
and faults as JSON inside the JSON. HAMi offers slots under the chip's name and the node's memory under ``-memory``.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

from terrazzo.dialects import catalogue
from terrazzo.dialects.readers import Found, Source, made_up
from terrazzo.model.device import Device, Health
from terrazzo.model.errors import InputError
from terrazzo.model.unknown import Unknown

_WHOLE = re.compile(
    r"^(?:huawei\.com/(Ascend(?:910|310P?)[A-Z]?\d?(?:-1)?|Ascend310P-(?:V|VPro|IPro)|npu)|ascend\.com/npu)$"
)
_MAP = "mindx-dl-deviceinfo-"


class _Card(NamedTuple):
    name: str
    health: Health
    reason: str


def read(source: Source) -> Found | None:
    """Return the chips of a node that speaks Huawei's words.

    Raises:
        InputError: the config map is damaged.
    """
    offered = [name for name in source.resources() if _WHOLE.match(name) and max(source.listed(name)) > 0]
    told = _from_map(source)
    if not offered and told is None:
        return None
    unknowns: list[Unknown] = []
    devices: list[Device] = []
    for resource in offered:
        hint = resource.rpartition("/")[2]
        chip, doubt = _chip(source, hint)
        memory = source.allocatable(f"{resource}-memory")
        cards = told.pop(resource, None) if told else None
        if cards is None:
            cards = _counted(source, resource, chip, memory)
        each = memory // len(cards) if memory and cards else None
        if doubt is not None and each is None:
            unknowns.append(doubt)
        devices += _devices(source, hint, chip, cards, each, doubt, len(devices))
    for resource, cards in (told or {}).items():
        hint = resource.rpartition("/")[2]
        chip, doubt = _chip(source, hint)
        devices += _devices(source, hint, chip, cards, None, doubt, len(devices))
    return Found(tuple(devices), tuple(unknowns), ("ascend",))


def _counted(source: Source, resource: str, chip: catalogue.Chip | None, memory: int | None) -> list[_Card]:
    present, usable = source.listed(resource)
    if memory and chip is not None:
        # HAMi counts slots; the node's memory tells how many chips there are.
        present = usable = max(1, round(memory / chip.memory_mib))
    short = "the device plugin offers fewer than the node has"
    return [
        _Card("", Health.HEALTHY if i < usable else Health.DEGRADED, "" if i < usable else short)
        for i in range(present)
    ]


def _chip(source: Source, hint: str) -> tuple[catalogue.Chip | None, Unknown | None]:
    """Return the exact chip, or why it is not known: ``Ascend910`` alone may be any of eight."""
    for label in ("node.kubernetes.io/npu.chip.name", "npu.huawei.com/chip-name"):
        named = catalogue.chip("ascend", source.labels.get(label, ""))
        if named is not None:
            return named, None
    if hint not in {"Ascend910", "npu"}:
        base = re.sub(r"-(V|VPro|IPro)$", "", hint)
        exact = catalogue.chip("ascend", base)
        if exact is not None:
            return exact, None
    return None, Unknown(source.where(f"{hint} does not say which chip; label node.kubernetes.io/npu.chip.name would"))


def _devices(
    source: Source,
    hint: str,
    chip: catalogue.Chip | None,
    cards: list[_Card],
    memory_mib: int | None,
    doubt: Unknown | None,
    first: int,
) -> list[Device]:
    made = []
    for offset, card in enumerate(cards):
        index = first + offset
        more: dict[str, Any] = {"health": card.health, "health_reason": card.reason, "product": hint}
        memory: int | Unknown | None = memory_mib or _labelled(source) or (None if chip else doubt)
        uuid = f"{source.name}/{card.name}" if card.name else made_up(source, "ascend", index)
        name = chip.model if chip else hint
        made.append(
            catalogue.device("ascend", name, node=source.name, uuid=uuid, index=index, memory_mib=memory, **more)
        )
    return made


def _labelled(source: Source) -> int | None:
    text = source.labels.get("mind-cluster/npu-chip-memory", "").removesuffix("G")
    return int(text) * 1024 if text.isascii() and text.isdigit() else None


def _from_map(source: Source) -> dict[str, list[_Card]] | None:
    found = source.config_maps.get(f"{_MAP}{source.name}")
    if found is None:
        return None
    where = f"config map {_MAP}{source.name}"
    for text in (found.data or {}).values():
        listed = _device_list(text, where)
        if listed is not None:
            return _cards(listed)
    return None


def _device_list(text: str, where: str) -> dict[str, str] | None:
    if "DeviceList" not in text:
        return None
    try:
        decoded = msgspec.json.decode(text)
        listed = decoded["DeviceInfo"]["DeviceList"]
        return msgspec.convert(listed, dict[str, str])
    except (msgspec.MsgspecError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"cannot be read ({type(error).__name__}: {error})", where=where) from None


def _cards(listed: dict[str, str]) -> dict[str, list[_Card]]:
    tails = ("-Unhealthy", "-NetworkUnhealthy", "-Recovering", "-Fault")
    cards: dict[str, list[_Card]] = {}
    for resource in (name for name in listed if not name.endswith(tails)):
        faults = _faults(listed.get(f"{resource}-Fault", ""))
        sick = _names(listed.get(f"{resource}-Unhealthy", "")) + _names(listed.get(f"{resource}-Recovering", ""))
        network = _names(listed.get(f"{resource}-NetworkUnhealthy", ""))
        names = sorted({*_names(listed[resource]), *sick, *network}, key=_natural)
        cards[resource] = [
            _Card(
                name,
                Health.DEGRADED if name in sick else Health.HEALTHY,
                _reason(name in sick, name in network, faults.get(name, "")),
            )
            for name in names
        ]
    return cards


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _natural(name: str) -> tuple[str, int]:
    head, _, tail = name.rpartition("-")
    return (head, int(tail)) if tail.isascii() and tail.isdigit() else (name, -1)


def _reason(sick: bool, network: bool, fault: str) -> str:
    word = "unhealthy" if sick else "network unhealthy" if network else ""
    return f"{word} ({fault})" if word and fault else word


def _faults(text: str) -> dict[str, str]:
    """Return, per device name, its most telling fault; what cannot be read is left out, the lists suffice."""
    try:
        faults = msgspec.json.decode(text or "[]")
        return {str(each["npu_name"]): f"{each['fault_level']} {each['fault_code']}" for each in faults}
    except (msgspec.MsgspecError, KeyError, TypeError, RecursionError):
        return {}
