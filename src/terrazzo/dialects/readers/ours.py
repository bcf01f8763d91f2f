"""Our own inventory: annotation ``terrazzo.io/inventory``."""

from __future__ import annotations

from msgspec import convert, to_builtins

from terrazzo.dialects import catalogue
from terrazzo.dialects.readers import MOST_MIB, Found, Source, no_twins
from terrazzo.model.device import Device, Health, SharingMode
from terrazzo.model.errors import InputError
from terrazzo.model.node import Node
from terrazzo.model.unknown import Unknown
from terrazzo.wire import state


def read(source: Source) -> Found | None:
    """Return the devices of our annotation.

    Raises:
        InputError: the annotation is damaged, newer than this program, or names a geometry that nobody knows.
    """
    text = source.annotations.get(state.INVENTORY)
    if text is None:
        return None
    where = source.where(f"annotation {state.INVENTORY}")
    inventory = state.decode(text, state.InventoryState, where)
    devices = tuple(_device(source.name, each, f"{where}: devices[{i}]") for i, each in enumerate(inventory.devices))
    no_twins(devices, where)
    return Found(devices, (), tuple(sorted({device.vendor for device in devices})))


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
    return state.encode(state.InventoryState(ledger=ledger, generation=generation, time=time, devices=rows))
