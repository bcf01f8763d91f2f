"""HAMi's node annotations, all vendors, old comma form and JSON form; Volcano's, which are alike.

Sources: HAMi, ``docs/develop/protocol.md`` and its device packages (v2.10). Old form:
``id,count,mem,core,type,numa,health`` (or nine fields with ``index,mode``), each device closed by a colon. JSON form:
a list of ``{id, index, count, devmem, devcore, type, numa, mode, health, migProfiles}``; what is 0, false or empty is
left out. MetaX writes a list of its own: ``{uuid, model, totalDevCount, totalVRam, totalCompute, numa, healthy}``.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

from terrazzo.dialects import catalogue
from terrazzo.dialects.readers import MOST_MIB, Found, Source, health, no_twins
from terrazzo.model.device import Device, Geometry, Profile, SharingMode
from terrazzo.model.errors import InputError
from terrazzo.model.unknown import Unknown

_KEY = re.compile(
    r"^(?:(?:hami|4pd)\.io/node-(?:register-(?P<tail>[\w.-]+)|(?P<head>[\w.-]+)-register)"
    r"|volcano\.sh/node-(?P<volcano>vgpu)-register|(?P<metax>metax)-tech\.com/node-gpu-devices)$"
)
_VENDORS = {
    "vgpu": "nvidia", "nvidia": "nvidia", "mlu": "cambricon", "cambricon": "cambricon", "cambricon-mlu": "cambricon",
    "dcu": "hygon", "hygon": "hygon", "mthreads": "mthreads", "musa": "mthreads", "xpu": "kunlunxin",
    "kunlun": "kunlunxin", "kunlunxin": "kunlunxin", "gcu": "enflame", "enflame": "enflame",
}  # fmt: skip
"""The word in the key. Others: ``Ascend…`` by its head, Iluvatar's chips by theirs, else the word is the vendor."""
_CORDON = "hami.io/device-cordon"
_BRAND = re.compile(r"^NVIDIA[- ]", re.IGNORECASE)
_FULL = 100
_YES = {"true", "1", "t"}


class Row(NamedTuple):
    """One device of an annotation.

    Attributes:
        uuid: identity.
        slots: how many pods may share it.
        mib: memory, as the operator may have scaled it; 0 when not told.
        core: compute in percent, as the operator may have scaled it.
        product: type.
        numa: NUMA node, None when not told.
        healthy: as HAMi reports it.
        number: the vendor's number.
        mode: ``hami-core``, ``mig`` or empty.
        geometry: the slices that the node itself lists, None when it lists none.
    """

    uuid: str
    slots: int
    mib: int
    core: int
    product: str
    numa: int | None
    healthy: bool
    number: int
    mode: str = ""
    geometry: Geometry | None = None


def read(source: Source) -> Found | None:
    """Return the devices of all HAMi annotations of a node.

    Raises:
        InputError: an annotation is damaged beyond its last entry, or names a device twice.
    """
    devices: dict[str, Device] = {}
    unknowns: list[Unknown] = []
    vendors: list[str] = []
    cordoned = {each.strip() for each in source.annotations.get(_CORDON, "").split(",")}
    for key in sorted(source.annotations):
        vendor = _vendor(key)
        if vendor is None:
            continue
        where = source.where(f"annotation {key}")
        rows, doubts = parse(source.annotations[key], where, volcano=key.startswith("volcano.sh/"))
        unknowns += doubts
        if not rows:
            # An annotation that lists nothing was emptied by somebody; it does not say that there is nothing.
            continue
        vendors.append(vendor)
        made = [_device(source.name, vendor, row, row.uuid in cordoned, unknowns) for row in rows]
        no_twins(made, where)
        for device in made:
            devices.setdefault(device.uuid, device)
    return Found(tuple(devices.values()), tuple(unknowns), tuple(vendors)) if vendors or unknowns else None


def _vendor(key: str) -> str | None:
    match = _KEY.match(key)
    if match is None:
        return None
    word = next(group for group in match.groups() if group).casefold()
    if word.startswith("ascend"):
        return "ascend"
    if word.startswith(("iluvatar", "bi-v", "mr-v")):
        return "iluvatar"
    return _VENDORS.get(word, word)


def parse(text: str, where: str, *, volcano: bool = False) -> tuple[list[Row], list[Unknown]]:
    """Return the rows of an annotation in either form, and what it does not tell.

    Args:
        text: the annotation's value.
        where: its place, for messages.
        volcano: whether a row may leave out compute and NUMA, as Volcano's do.

    Raises:
        InputError: neither form.
    """
    text = text.strip().strip('"').strip()
    lost: list[Unknown] = []
    if text.startswith(("[", "{")):
        rows = _json(text, where)
    else:
        rows, lost = _commas(text, where, volcano)
    if not rows and not lost:
        lost = [Unknown(f"{where} lists no device; whether the node has any is not told")]
    return rows, lost


def _commas(text: str, where: str, volcano: bool) -> tuple[list[Row], list[Unknown]]:
    rows: list[Row] = []
    entries = [entry for entry in text.split(":") if entry.strip()]
    for position, entry in enumerate(entries):
        row = _comma(entry.split(","), position, volcano)
        if row is not None:
            rows.append(row)
        elif position == len(entries) - 1 and entry.strip(", ") and "," in entry:
            return rows, [Unknown(f"{where} breaks off in device {position + 1}; it and any after it are not told")]
        else:
            raise InputError(
                f"device {position + 1} ({entry[:40]!r}) cannot be read",
                where=where,
                remedy="restart the device plugin, which writes it anew",
            )
    return rows, []


def _comma(cells: list[str], position: int, volcano: bool) -> Row | None:
    cells = [cell.strip() for cell in cells]
    if volcano and len(cells) in {5, 6}:
        # id,count,mem,type,health[,mode]
        cells = [*cells[:3], "100", cells[3], "", cells[4], "", *cells[5:]]
    if not 7 <= len(cells) <= 9 or not cells[0]:
        return None
    try:
        slots, mib, core = (int(cell) for cell in cells[1:4])
        numa = int(cells[5]) if cells[5] else -1
        index = int(cells[7]) if len(cells) > 7 and cells[7] else position
    except ValueError:
        return None
    mode = cells[8] if len(cells) > 8 else ""
    if min(slots, mib, core, index) < 0 or max(slots, mib, core, index) > MOST_MIB:
        return None
    healthy = cells[6].casefold() in _YES
    return Row(cells[0], slots, mib, core, cells[4], numa if numa >= 0 else None, healthy, index, mode)


def _json(text: str, where: str) -> list[Row]:
    try:
        listed = msgspec.json.decode(text)
        listed = listed if isinstance(listed, list) else [listed]
        return [_json_row(each, position) for position, each in enumerate(listed)]
    except (msgspec.MsgspecError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InputError(
            f"cannot be read ({type(error).__name__}: {error})",
            where=where,
            remedy="restart the device plugin, which writes it anew",
        ) from None


def _json_row(entry: dict[str, Any], position: int) -> Row:
    uuid, index = entry.get("id"), entry.get("index")
    names = ("count", "devmem", "devcore")
    if uuid is None and "uuid" in entry:
        # MetaX counts by position and calls things otherwise.
        uuid, index, names = entry["uuid"], position, ("totalDevCount", "totalVRam", "totalCompute")
    if not uuid or not isinstance(uuid, str):
        raise ValueError(f"device {position + 1} has no id")
    slots, mib, core = (_whole(entry.get(name), name) for name in names)
    numa = entry.get("numa")
    return Row(
        uuid, slots, mib, core, str(entry.get("type") or entry.get("model") or ""),
        numa if isinstance(numa, int) and numa >= 0 else None,
        str(entry.get("health", entry.get("healthy", ""))).casefold() in _YES,
        _whole(index, "index"), str(entry.get("mode") or ""), _listed_slices(entry),
    )  # fmt: skip


def _whole(value: Any, name: str) -> int:
    """Return a number; what was left out is 0."""
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_MIB:
        raise ValueError(f"{name} {value!r} is not an amount")
    return value


def _listed_slices(entry: dict[str, Any]) -> Geometry | None:
    """Return the table that ``migProfiles`` spells, None when it spells none that eight slots could hold."""
    profiles = []
    for each in entry.get("migProfiles") or ():
        starts = tuple(sorted(_whole(place["start"], "start") for place in each["placements"]))
        sizes = {_whole(place["size"], "size") for place in each["placements"]}
        if len(sizes) != 1 or max(starts) + max(sizes) > 8:
            return None
        name, memory_mib = str(each["name"]), _whole(each["memoryMB"], "memoryMB")
        units, size = _whole(each["sliceCount"], "sliceCount"), sizes.pop()
        profiles.append(Profile(name, max(1, memory_mib), max(1, units), max(1, size), starts))
    if not profiles:
        return None
    profiles.sort(key=lambda profile: (profile.memory_mib, profile.units))
    return Geometry(str(entry.get("type") or "listed"), 8, tuple(profiles), "the node's HAMi annotation")


def _device(node: str, vendor: str, row: Row, cordoned: bool, unknowns: list[Unknown]) -> Device:
    product = _BRAND.sub("", row.product)
    chip = catalogue.chip(vendor, row.product) or catalogue.chip(vendor, product)
    memory: int | Unknown | None = row.mib or Unknown(f"the annotation states no memory of {row.uuid}")
    if chip is not None and row.mib == 0:
        memory = None
    elif chip is not None and vendor == "nvidia" and row.mib > chip.memory_mib * 21 // 20:
        # Drivers differ by a percent or two; more is the operator's deviceMemoryScaling, and no memory.
        memory = None
        unknowns.append(
            Unknown(
                f"{row.uuid}: {row.mib} MiB is more than a {chip.model} has, so it is scaled; its own figure counts"
            )
        )
    elif chip is None and row.core > _FULL:
        unknowns.append(Unknown(f"{row.uuid}: compute is scaled to {row.core} %, memory may be scaled too"))
    mode = _mode(vendor, row, chip)
    more: dict[str, Any] = {"numa": row.numa, **health(row.healthy and not cordoned, _why(cordoned))}
    if mode is SharingMode.CONTINUOUS and row.slots:
        more["sharers"] = row.slots
    if mode is SharingMode.GEOMETRY and not (chip is not None and chip.geometry):
        if row.geometry is None:
            unknowns.append(Unknown(f"{row.uuid}: in MIG mode, but nobody tells the slices of a {product}"))
        else:
            units = max(profile.units for profile in row.geometry.profiles)
            more |= {"geometry": row.geometry, "units": units, "sharers": row.geometry.slots}
    return catalogue.device(
        vendor,
        chip.model if chip is not None else product,
        node=node,
        uuid=row.uuid,
        index=row.number,
        memory_mib=memory,
        mode=mode,
        product=row.product,
        **more,
    )


def _why(cordoned: bool) -> str:
    return f"cordoned ({_CORDON})" if cordoned else "HAMi reports it unhealthy"


def _mode(vendor: str, row: Row, chip: catalogue.Chip | None) -> SharingMode | None:
    if row.mode == "mig":
        return SharingMode.GEOMETRY
    usual = chip.mode if chip is not None else catalogue.usual_mode(vendor)
    if vendor == "ascend":
        # Without its interposer HAMi cuts templates, as the chip's own table says.
        return SharingMode.CONTINUOUS if row.mode == "hami-core" else None
    return SharingMode.CONTINUOUS if row.slots > 1 or usual is SharingMode.CONTINUOUS else None
