"""Huawei's device-info config map: which chips a node has, which are sick, and of what.

Source: Ascend mind-cluster, "Resource reporting". Key ``DeviceInfoCfg`` holds JSON; in it ``DeviceList`` maps
``<resource>`` to the available chips, ``-Unhealthy``, ``-NetworkUnhealthy`` and ``-Recovering`` behind it to others,
and ``-Fault`` to JSON again.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from terrazzo.dialects.readers import Source
from terrazzo.model.errors import InputError

_MAP = "mindx-dl-deviceinfo-"
_TAILS = ("-Unhealthy", "-NetworkUnhealthy", "-Recovering", "-Fault")


class Card(NamedTuple):
    """One chip.

    Attributes:
        name: as the plugin calls it (``Ascend910-3``); empty when nobody names it.
        number: the one in the name.
        ok: whether it takes new work.
        reason: what is the matter with it, also where it still works.
    """

    name: str
    number: int
    ok: bool
    reason: str = ""


def cards_of(source: Source) -> dict[str, list[Card]] | None:
    """Return the chips per resource name, None when the dump has no such map of this node.

    Raises:
        InputError: the map is damaged.
    """
    found = source.config_maps.get(f"{_MAP}{source.name}")
    if found is None:
        return None
    for key, text in (found.data or {}).items():
        if "DeviceList" in text:
            return _cards(_device_list(text, f"config map {_MAP}{source.name}: data[{key}]"))
    return None


def _device_list(text: str, where: str) -> dict[str, str]:
    try:
        decoded = msgspec.json.decode(text)
        return msgspec.convert(decoded["DeviceInfo"]["DeviceList"], dict[str, str])
    except (msgspec.MsgspecError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(
            f"cannot be read ({type(error).__name__}: {error})",
            where=where,
            remedy="dump it again, whole: kubectl get configmap -n kube-system -o yaml",
        ) from None


def _cards(listed: dict[str, str]) -> dict[str, list[Card]]:
    cards: dict[str, list[Card]] = {}
    resources = {name for name in listed if not name.endswith(_TAILS)}
    resources |= {name.removesuffix(tail) for name in listed for tail in _TAILS if name.endswith(tail)}
    for resource in sorted(resources):
        words = {tail: _names(listed.get(f"{resource}{tail}", "")) for tail in _TAILS[:3]}
        sick = dict.fromkeys(words["-Unhealthy"], "unhealthy")
        sick |= dict.fromkeys(words["-Recovering"], "recovering")
        network = dict.fromkeys(words["-NetworkUnhealthy"], "network unhealthy")
        faults = _faults(listed.get(f"{resource}-Fault", ""))
        found = {*_names(listed.get(resource, "")), *sick, *network}
        rows = []
        for position, name in enumerate(sorted(found, key=_natural)):
            word, fault = sick.get(name) or network.get(name, ""), faults.get(name, "")
            number = _natural(name)[1]
            reason = f"{word} ({fault})" if word and fault else word
            rows.append(Card(name, number if number >= 0 else position, name not in sick, reason))
        cards[resource] = rows
    return cards


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _natural(name: str) -> tuple[str, int]:
    head, _, tail = name.rpartition("-")
    return (head, int(tail)) if tail.isascii() and tail.isdigit() and len(tail) < 6 else (name, -1)


def _faults(text: str) -> dict[str, str]:
    """Return each device's fault; what cannot be read is left out, the lists say who is sick."""
    try:
        faults = msgspec.json.decode(text or "[]")
        return {str(each["npu_name"]): f"{each['fault_level']} {each['fault_code']}" for each in faults}
    except (msgspec.MsgspecError, ValueError, KeyError, TypeError, RecursionError):
        return {}
