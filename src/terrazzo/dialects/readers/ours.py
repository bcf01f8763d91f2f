"""Our own inventory: annotation ``terrazzo.io/inventory``, or ResourceSlices of our driver."""

from __future__ import annotations

from typing import Any

from msgspec import convert, to_builtins

from terrazzo.dialects import catalogue
from terrazzo.dialects.readers import MOST_MIB, Found, Source, no_twins, slices
from terrazzo.model.device import Device, Health, SharingMode
from terrazzo.model.errors import InputError
from terrazzo.model.node import Node
from terrazzo.model.unknown import Unknown
from terrazzo.wire import state


def read(source: Source) -> Found | None:
    """Return the devices of our annotation, else those of our driver's slices.

    Raises:
        InputError: it is damaged, newer than this program, or names a geometry that nobody knows.
    """
    text = source.annotations.get(state.INVENTORY)
    if text is None:
        return _from_slices(source)
    where = source.where(f"annotation {state.INVENTORY}")
    inventory = state.decode(text, state.InventoryState, where)
    devices = tuple(_device(source.name, each, f"{where}: devices[{i}]") for i, each in enumerate(inventory.devices))
    no_twins(devices, where)
    return Found(devices, (), tuple(sorted({device.vendor for device in devices})))


def _from_slices(source: Source) -> Found | None:
    ours = [each.spec for each in source.slices if each.spec.driver == slices.DRIVER]
    if not ours:
        return None
    newest = max(spec.pool.generation for spec in ours)
    current = [spec for spec in ours if spec.pool.generation == newest]
    wanted = current[0].pool.resource_slice_count
    unknowns: tuple[Unknown, ...] = ()
    if len(current) < wanted:
        what = f"has {len(current)} of {wanted} slices of generation {newest}, so it may have more devices"
        unknowns = (Unknown(source.where(what)),)
    told = [
        (each, source.where(f"resource slice: devices[{each.name}]")) for spec in current for each in spec.devices or ()
    ]
    devices = tuple(_device(source.name, slices.row_of(each, where), where) for each, where in told)
    no_twins(devices, source.where("resource slices"))
    return Found(devices, unknowns, tuple(sorted({device.vendor for device in devices})))


def _device(node: str, row: state.InventoryDevice, where: str) -> Device:
    geometry = catalogue.geometry(row.geometry) if row.geometry else None
    if row.geometry and geometry is None:
        raise InputError(
            f"geometry {row.geometry!r} is not in the catalogue", where=where, remedy="upgrade terrazzo here"
        )
    if row.mode not in [mode.value for mode in SharingMode] or row.health not in [health.value for health in Health]:
        raise InputError(f"mode {row.mode!r} or health {row.health!r} is not a known word", where=where)
    numbers = (row.units, row.sharers, row.step)
    mib = 1 if row.mib is None else row.mib
    if min(*numbers, mib) < 1 or max(*numbers, mib, row.foreign_mib) > MOST_MIB or row.foreign_mib < 0 or not row.uuid:
        raise InputError(
            "a device needs a uuid and amounts of at least 1", where=where, remedy="republish the inventory"
        )
    return Device(
        node=node,
        uuid=row.uuid,
        vendor=row.vendor,
        model=row.model,
        product=row.product,
        family=row.family,
        index=row.index,
        memory_mib=Unknown(row.unknown or "the agent could not read it") if row.mib is None else row.mib,
        units=row.units,
        mode=SharingMode(row.mode),
        sharers=row.sharers,
        memory_step_mib=row.step,
        geometry=geometry,
        profile=row.profile,
        numa=row.numa,
        links=tuple(row.links),
        health=Health(row.health),
        health_reason=row.health_reason,
        foreign_mib=row.foreign_mib,
    )


def publish(node: Node, *, ledger: str = "", generation: int = 1, time: int = 0) -> str:
    """Return the annotation text that ``read`` reads back into the devices of ``node``.

    Args:
        node: whose devices to write.
        ledger: ``dra`` or ``classic``.
        generation: counts publications.
        time: seconds since the epoch.
    """
    rows = _rows(node)
    return state.encode(state.InventoryState(ledger=ledger, generation=generation, time=time, devices=rows))


def publish_slices(node: Node, *, generation: int = 1) -> list[dict[str, Any]]:
    """Return the ResourceSlices of our driver that ``read`` reads back into the devices of ``node``."""
    return slices.publish(node, _rows(node), generation=generation)


def _rows(node: Node) -> list[state.InventoryDevice]:
    rows = []
    for device in node.devices:
        fields = to_builtins(device)
        del fields["node"], fields["memory_mib"], fields["memory_step_mib"], fields["geometry"]
        known = isinstance(device.memory_mib, int)
        fields.update(
            mib=device.memory_mib if known else None,
            unknown="" if isinstance(device.memory_mib, int) else device.memory_mib.reason,
            step=device.memory_step_mib,
            geometry=device.geometry.name if device.geometry else "",
        )
        rows.append(convert(fields, state.InventoryDevice))
    return rows
