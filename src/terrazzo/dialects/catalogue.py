"""Chips that we know: memory, compute units, how each can be cut, and the names it goes by.

One TOML file per vendor under ``chips/``; every row names its source. What a node says of its own devices always wins
over a row; the row fills in what the node does not say.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any

from msgspec import Struct, convert

from terrazzo.model.device import Device, Geometry, Profile, SharingMode
from terrazzo.model.unknown import Unknown


class Chip(Struct, frozen=True):
    """One row of the catalogue.

    Attributes:
        vendor: vendor word.
        model: our short name.
        family: the wider name people select by; empty when there is none.
        aliases: names that tools, labels and plugins use for it.
        memory_mib: memory as the vendor's tool reports it.
        reserved_mib: what the driver keeps of it.
        units: compute in the device's own units.
        mode, memory_step_mib, sharers: how it is shared when nobody says otherwise.
        geometry: name of its table of slices; empty when it cannot be cut.
        source: where the row comes from.
    """

    vendor: str
    model: str
    family: str
    aliases: tuple[str, ...]
    memory_mib: int
    reserved_mib: int
    units: int
    mode: SharingMode
    memory_step_mib: int
    sharers: int
    geometry: str
    source: str


VENDORS = (
    "nvidia", "ascend", "cambricon", "hygon", "mthreads",
    "metax", "iluvatar", "enflame", "kunlunxin", "amd", "intel",
)  # fmt: skip
_NOISE = re.compile(r"[\s_-]+")
_SUFFIX = re.compile(r"-(SHARED|MIG-[0-9A-Za-z.+]+)$", re.IGNORECASE)


@cache
def _table(vendor: str) -> dict[str, Any]:
    text = (files("terrazzo.dialects") / "chips" / f"{vendor}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _defaults(vendor: str) -> dict[str, Any]:
    return dict(_table(vendor)["vendor"]) if vendor in VENDORS else {}


@cache
def _chips(vendor: str) -> tuple[Chip, ...]:
    defaults = {"family": "", "aliases": (), "reserved_mib": 0, "geometry": "", "vendor": vendor}
    shared = {key: value for key, value in _defaults(vendor).items() if key not in {"name", "note"}}
    return tuple(convert({**defaults, **shared, **row}, Chip) for row in _table(vendor).get("chip", ()))


def chips(vendor: str = "") -> Iterator[Chip]:
    """Yield the rows of one vendor, or of all."""
    for each in (vendor,) if vendor else VENDORS:
        if each in VENDORS:
            yield from _chips(each)


@cache
def geometry(name: str) -> Geometry | None:
    """Return the table of slices of that name, such as ``A100-80`` or ``910B3``."""
    for vendor in VENDORS:
        for row in _table(vendor).get("geometry", ()):
            if row["name"] == name:
                profiles = convert(row["profiles"], tuple[Profile, ...])
                return Geometry(name, row["slots"], profiles, row["source"])
    return None


def _plain(name: str) -> str:
    return _NOISE.sub("", _SUFFIX.sub("", name)).casefold()


@cache
def _index(vendor: str) -> dict[str, Chip]:
    index: dict[str, Chip] = {}
    for each in chips(vendor):
        for name in (*each.aliases, each.model):
            index.setdefault(_plain(name), each)
    return index


def chip(vendor: str, name: str) -> Chip | None:
    """Return the row of an exact chip, or None.

    Args:
        vendor: vendor word.
        name: our name, an alias or a product string, in any case and with any dashes; ``-SHARED`` and ``-MIG-…`` at
            the end and the vendor's name in front do not matter. Never a part of a name: H20 is not H200.
    """
    index = _index(vendor)
    plain = _plain(name)
    found = index.get(plain)
    while found is None and plain.startswith(vendor):
        plain = plain.removeprefix(vendor)
        found = index.get(plain)
    return found


def usual_mode(vendor: str) -> SharingMode:
    """Return how a vendor's chips are shared when nobody says which chip it is: ``whole`` where tables are per chip."""
    mode = _defaults(vendor).get("mode", SharingMode.WHOLE.value)
    return SharingMode.CONTINUOUS if mode == SharingMode.CONTINUOUS.value else SharingMode.WHOLE


def device(
    vendor: str,
    model: str,
    *,
    node: str,
    uuid: str,
    index: int = 0,
    memory_mib: int | Unknown | None = None,
    mode: SharingMode | None = None,
    **more: Any,
) -> Device:
    """Return a device row, filled from the catalogue where the caller says nothing.

    Args:
        vendor: vendor word.
        model: name as stated by the node or ours.
        node: node name.
        uuid: identity on the node.
        index: number for display.
        memory_mib: memory as stated by the node; None takes the catalogue's figure less what the driver keeps, or is
            unknown where the chip is.
        mode: sharing mode; None takes the catalogue's, ``whole`` for chips nobody knows.
        **more: any other field of ``Device``.
    """
    row = chip(vendor, model)
    fields: dict[str, Any] = {"units": 100, "sharers": 1, "mode": SharingMode.WHOLE}
    memory: int | Unknown = Unknown(f"the catalogue has no {vendor} {model!r}" if model else "nobody tells the model")
    if row is not None:
        fields = {
            "units": row.units,
            "sharers": row.sharers,
            "memory_step_mib": row.memory_step_mib,
            "mode": row.mode,
            "family": row.family,
            "geometry": geometry(row.geometry) if row.mode is SharingMode.GEOMETRY else None,
        }
        memory = row.memory_mib - row.reserved_mib
    fields.update(_as_mode(mode, vendor, row))
    fields.update(more)
    name = row.model if row is not None else _SUFFIX.sub("", model)
    if name != model:
        fields.setdefault("product", model)
    return Device(
        node=node,
        uuid=uuid,
        vendor=vendor,
        model=name,
        index=index,
        memory_mib=memory if memory_mib is None else memory_mib,
        **fields,
    )


def partition(
    vendor: str,
    model: str,
    profile: str,
    *,
    node: str,
    uuid: str,
    memory_mib: int | Unknown | None = None,
    units: int | None = None,
    mode: SharingMode = SharingMode.GEOMETRY,
    **more: Any,
) -> Device:
    """Return a static partition of a chip (a MIG instance, a vNPU that the node cut beforehand) as a device.

    Args:
        vendor: vendor word.
        model: name of the parent as stated by the node or ours.
        profile: the slice's name, without the vendor's prefix.
        node: node name.
        uuid: identity on the node.
        memory_mib: memory as stated by the node; None takes the table's, or is unknown where there is no table.
        units: compute as stated by the node; None takes the table's.
        mode: ``whole`` where the plugin offers it as if it were a card.
        **more: any other field of ``Device``.
    """
    row = chip(vendor, model)
    table = geometry(row.geometry) if row is not None and row.geometry else None
    cut = table.profile(profile) if table is not None else None
    if memory_mib is None or (isinstance(memory_mib, Unknown) and cut is not None):
        memory_mib = cut.memory_mib if cut is not None else Unknown(f"nobody tells the memory of a {profile}")
    name = row.model if row is not None else _SUFFIX.sub("", model)
    return Device(
        node=node,
        uuid=uuid,
        vendor=vendor,
        model="-".join(part for part in (name, "MIG" if vendor == "nvidia" else "", profile) if part),
        memory_mib=memory_mib,
        units=units or (cut.units if cut is not None else 1),
        mode=mode,
        sharers=1,
        geometry=table,
        profile=cut.name if cut is not None else profile,
        **{"product": model, "family": row.family if row is not None else "", **more},
    )


def _as_mode(mode: SharingMode | None, vendor: str, row: Chip | None) -> dict[str, Any]:
    """Return what changes when a device is in another mode than its chip usually is."""
    if mode is None or (row is not None and mode is row.mode):
        return {}
    if mode is SharingMode.WHOLE:
        return {"mode": mode, "sharers": 1, "geometry": None}
    if mode is SharingMode.GEOMETRY:
        return {"mode": mode, **_cut(geometry(row.geometry) if row is not None else None)}
    usual = _defaults(vendor)
    if usual.get("mode") != SharingMode.CONTINUOUS.value:
        # Somebody shares by percent what nobody here does; how many may, only they can tell.
        usual = {"units": 100, "memory_step_mib": usual.get("memory_step_mib", 1), "sharers": 100}
    return {"mode": mode, "geometry": None, **{key: usual[key] for key in ("units", "memory_step_mib", "sharers")}}


def _cut(table: Geometry | None) -> dict[str, Any]:
    """Return the fields of a card in MIG mode; without a table no slice of it is known."""
    if table is None:
        return {"geometry": None, "sharers": 1}
    return {"geometry": table, "sharers": table.slots, "units": max(profile.units for profile in table.profiles)}
