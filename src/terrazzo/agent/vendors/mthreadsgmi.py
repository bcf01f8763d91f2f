"""What ``mthreads-gmi`` prints: the JSON of ``-q -j`` and the table, seen in versions 1.14 to 2.4.

Columns of the table are not read by position, since copies collapse their spaces: each of a card's three lines is
split at ``|`` and its cells are told by their shape.
"""

from __future__ import annotations

import json
import re
from typing import Any

from msgspec import Struct

from terrazzo.agent.vendors.port import Failure, Trouble
from terrazzo.model.unknown import Unknown

_DRIVER = re.compile(r"Driver Version:\s*(\S+)")
_FIRST = re.compile(r"^(\d+)\s+(.*?)\s*\|\s*([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)\s*\|\s*(\S+)\s+(.*)$")
_MEMORY = re.compile(r"^(\S+?)\s*\(\s*(\S+?)\s*\)")
_TYPE = re.compile(r"^(.*?)(?:\s+P\d+)?\s*\|")
_AMOUNT = re.compile(r"^(\d+(?:\.\d+)?)\s*(KiB|MiB|MB|GiB|%|)$")
_MIB = {"KiB": 1 / 1024, "MiB": 1, "MB": 1, "GiB": 1024}


class Card(Struct, frozen=True):
    """One card as the tool states it.

    Attributes:
        index: the tool's number.
        product: ``MTT S4000``.
        uuid: identity; empty in the table, which does not print it.
        pci: bus address; empty when not told.
        total_mib, used_mib: memory.
        busy_percent: load.
        kind: ``Physical``, ``MPC Parent``; empty when not told.
    """

    index: int
    product: str
    uuid: str
    pci: str
    total_mib: int | Unknown
    used_mib: int | Unknown
    busy_percent: float | Unknown
    kind: str = ""


class Told(Struct, frozen=True):
    """Every card, and the driver's version where it is printed."""

    cards: tuple[Card, ...]
    driver: str = ""


def read_json(text: str) -> Told | Failure:
    """Return what ``mthreads-gmi -q -j`` says; values are strings with units, cards a list under ``GPU``."""
    if not text.strip():
        return Failure(Trouble.SILENT, "`mthreads-gmi -q -j` printed nothing")
    try:
        tree = json.loads(text)
    except ValueError as error:
        return Failure(Trouble.GARBLED, f"`mthreads-gmi -q -j` printed what is not JSON: {error}")
    listed = tree.get("GPU") if isinstance(tree, dict) else None
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        return Failure(Trouble.GARBLED, "`mthreads-gmi -q -j` printed no list of cards under `GPU`")
    return Told(tuple(_card(each, position) for position, each in enumerate(listed)), _word(tree, "Driver Version"))


def read_table(text: str) -> Told | Failure:
    """Return what bare ``mthreads-gmi`` says. It prints no UUID."""
    if not text.strip():
        return Failure(Trouble.SILENT, "`mthreads-gmi` printed nothing")
    driver = _DRIVER.search(text)
    if driver is None:
        return Failure(Trouble.GARBLED, f"`mthreads-gmi` printed no table: {text.strip().splitlines()[0][:200]}")
    lines = text.splitlines()
    cards = []
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if first := _FIRST.match(line.strip()):
            index, product, pci, load, memory = first.groups()
            pair = _MEMORY.match(memory)
            used, total = pair.groups() if pair else ("", "")
            kind = _TYPE.match(below.strip())
            cards.append(
                Card(
                    int(index), product, "", pci.casefold(), amount_mib(total), amount_mib(used), percent(load),
                    kind.group(1).strip() if kind else "",
                )
            )  # fmt: skip
    return Told(tuple(cards), driver.group(1))


def amount_mib(text: str) -> int | Unknown:
    """Return the MiB of ``49152MiB``; ``N/A``, an empty cell or another unit is unknown."""
    found = _AMOUNT.match(text.strip())
    if found is None or found.group(2) not in _MIB:
        return Unknown(f"mthreads-gmi says {text.strip()!r}" if text.strip() else "mthreads-gmi does not tell")
    return int(float(found.group(1)) * _MIB[found.group(2)])


def percent(text: str) -> float | Unknown:
    """Return the number of ``58%``; anything else is unknown."""
    found = _AMOUNT.match(text.strip())
    if found is None or found.group(2) != "%":
        return Unknown(f"mthreads-gmi says {text.strip()!r}" if text.strip() else "mthreads-gmi does not tell")
    return float(found.group(1))


def _card(each: dict[str, Any], position: int) -> Card:
    memory = each.get("FB Memory Usage")
    index = _word(each, "Index")
    return Card(
        index=int(index) if index.isdecimal() else position,
        product=_word(each, "Product Name"),
        uuid=_word(each, "GPU UUID"),
        pci=_word(each.get("PCI"), "Bus ID").casefold(),
        total_mib=amount_mib(_word(memory, "Total")),
        used_mib=amount_mib(_word(memory, "Used")),
        # No capture holds this key or `Used` above: where a version names them otherwise, both are unknown.
        busy_percent=percent(_word(each.get("Utilization"), "Gpu")),
    )


def _word(tree: Any, key: str) -> str:
    value = tree.get(key, "") if isinstance(tree, dict) else ""
    word = value.strip() if isinstance(value, str) else ""
    return "" if word in {"N/A", "NA", "-"} else word
