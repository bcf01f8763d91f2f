"""HAMi's node annotations, all vendors, old comma form and JSON form; Volcano's, which are alike.

Source: HAMi, ``docs/develop/protocol.md`` and its device packages. Old form: ``id,count,mem,core,type,numa,health`` (or
nine fields with ``index,mode``), each device closed by a colon. JSON form: a list of ``{id, index, count, devmem,
devcore, type, numa, mode, health}``; what is 0 or empty may be left out.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

from terrazzo.dialects import catalogue
from terrazzo.dialects.readers import Found, Source
from terrazzo.model.device import Device, Health, SharingMode
from terrazzo.model.errors import InputError
from terrazzo.model.unknown import Unknown

_KEYS = (
    (re.compile(r"^hami\.io/node-nvidia-register$"), "nvidia"),
    (re.compile(r"^hami\.io/node-(mlu|cambricon)-register$"), "cambricon"),
    (re.compile(r"^hami\.io/node-(dcu|hygon)-register$"), "hygon"),
    (re.compile(r"^hami\.io/node-(register-)?Ascend[\w.-]+$"), "ascend"),
    (re.compile(r"^hami\.io/node-(mthreads|musa)-register$"), "mthreads"),
    (re.compile(r"^hami\.io/node-(xpu-register|register-xpu|kunlun-register)$"), "kunlunxin"),
    (re.compile(r"^hami\.io/node-amd-register$"), "amd"),
    (re.compile(r"^hami\.io/node-((iluvatar|BI-V\d+|MR-V\d+)-register)$"), "iluvatar"),
    (re.compile(r"^volcano\.sh/node-vgpu-register$"), "nvidia"),
    (re.compile(r"^metax-tech\.com/node-gpu-devices$"), "metax"),
)
_CORDON = "hami.io/device-cordon"
_BRAND = re.compile(r"^(NVIDIA|MLU|DCU|Ascend|MetaX|Iluvatar)[- ]", re.IGNORECASE)
_CORE_PERCENT = 100


class _Row(NamedTuple):
    uuid: str
    slots: int
    mib: int
    core: int
    product: str
    numa: int | None
    healthy: bool
    number: int
    mode: str


def read(source: Source) -> Found | None:
    """Return the devices of all HAMi annotations of a node.

    Raises:
        InputError: an annotation is damaged beyond its last entry.
    """
    devices: list[Device] = []
    unknowns: list[Unknown] = []
    vendors: list[str] = []
    cordoned = {each.strip() for each in source.annotations.get(_CORDON, "").split(",")}
    for key in sorted(source.annotations):
        vendor = next((vendor for pattern, vendor in _KEYS if pattern.match(key)), None)
        if vendor is None:
            continue
        volcano = key.startswith("volcano.sh/")
        rows, lost = parse(source.annotations[key], source.where(f"annotation {key}"), volcano=volcano)
        unknowns += lost
        vendors.append(vendor)
        for row in rows:
            device, doubt = _device(source.name, vendor, row, row.uuid in cordoned)
            devices.append(device)
            unknowns += doubt
    return Found(tuple(devices), tuple(unknowns), tuple(vendors)) if vendors else None


def parse(text: str, where: str, *, volcano: bool = False) -> tuple[list[_Row], list[Unknown]]:
    """Return the rows of an annotation in either form, and what was cut off at its end.

    Raises:
        InputError: neither form.
    """
    text = text.strip().strip('"')
    if text.startswith(("[", "{")):
        return _json(text, where), []
    rows, lost = [], []
    entries = [entry for entry in text.split(":") if entry.strip()]
    for position, entry in enumerate(entries):
        row = _comma(entry.split(","), position, volcano)
        if row is not None:
            rows.append(row)
        elif position == len(entries) - 1:
            lost.append(Unknown(f"{where} ends in the middle of device {position + 1}"))
        else:
            raise InputError(f"device {position + 1} ({entry[:40]!r}) cannot be read", where=where)
    if text and not entries:
        raise InputError("holds no device", where=where)
    return rows, lost


def _comma(cells: list[str], position: int, volcano: bool) -> _Row | None:
    if volcano and len(cells) in (5, 6):
        # Volcano leaves out compute and NUMA: id,count,mem,type,health[,mode].
        cells = [*cells[:3], "100", cells[3], "", cells[4], "", *cells[5:]]
    if len(cells) < 7 or not cells[0].strip():
        return None
    try:
        slots, mib, core = (int(cell) for cell in cells[1:4])
        numa = int(cells[5]) if cells[5].strip() else None
        index = int(cells[7]) if len(cells) > 7 and cells[7].strip() else position
    except ValueError:
        return None
    mode = cells[8].strip() if len(cells) > 8 else ""
    if min(slots, mib, core) < 0:
        return None
    return _Row(cells[0].strip(), slots, mib, core, cells[4].strip(), numa, cells[6].strip() == "true", index, mode)


def _json(text: str, where: str) -> list[_Row]:
    try:
        listed = msgspec.json.decode(text)
        listed = listed if isinstance(listed, list) else [listed]
        return [_json_row(each) for each in listed]
    except (msgspec.MsgspecError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InputError(f"cannot be read ({type(error).__name__}: {error})", where=where) from None


def _json_row(entry: dict[str, Any]) -> _Row:
    numbers = [int(entry.get(key) or 0) for key in ("count", "devmem", "devcore", "index")]
    if min(numbers) < 0 or not str(entry["id"]):
        raise ValueError("a device needs an id and amounts of at least 0")
    slots, mib, core, index = numbers
    numa = entry.get("numa")
    return _Row(
        str(entry["id"]), slots, mib, core, str(entry.get("type") or ""), int(numa) if numa is not None else None,
        bool(entry.get("health")), index, str(entry.get("mode") or ""),
    )  # fmt: skip


def _device(node: str, vendor: str, row: _Row, cordoned: bool) -> tuple[Device, list[Unknown]]:
    product = _BRAND.sub("", row.product) if vendor == "nvidia" else row.product
    chip = catalogue.chip(vendor, row.product) or catalogue.chip(vendor, product)
    doubts: list[Unknown] = []
    memory: int | Unknown = row.mib or Unknown(f"annotation states no memory for {row.uuid}")
    if chip is not None and row.mib > chip.memory_mib * 5 // 4:
        doubts.append(
            Unknown(
                f"{row.uuid}: {row.mib} MiB is more than a {chip.model} has; taken as scaled, {chip.memory_mib} used"
            )
        )
        memory = chip.memory_mib - chip.reserved_mib
    elif chip is None and row.core > _CORE_PERCENT:
        doubts.append(Unknown(f"{row.uuid}: compute is scaled to {row.core} %, memory may be scaled too"))
    mode = _mode(vendor, row.mode, chip)
    why = "cordoned (hami.io/device-cordon)" if cordoned else "HAMi reports it unhealthy"
    ok = row.healthy and not cordoned
    more: dict[str, Any] = {
        "numa": row.numa,
        "health": Health.HEALTHY if ok else Health.DEGRADED,
        "health_reason": "" if ok else why,
    }
    if mode is SharingMode.CONTINUOUS and row.slots:
        more["sharers"] = row.slots
    name = chip.model if chip is not None else product
    made = catalogue.device(
        vendor,
        name,
        node=node,
        uuid=row.uuid,
        index=row.number,
        memory_mib=memory,
        mode=mode,
        product=row.product,
        **more,
    )
    return made, doubts


def _mode(vendor: str, stated: str, chip: catalogue.Chip | None) -> SharingMode | None:
    if stated == "mig" and chip is not None and chip.geometry:
        return SharingMode.GEOMETRY
    if vendor == "ascend":
        return SharingMode.CONTINUOUS if stated == "hami-core" else None
    return SharingMode.CONTINUOUS
