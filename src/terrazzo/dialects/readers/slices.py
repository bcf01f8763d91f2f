"""Our own ResourceSlices: driver ``gpu.terrazzo.io``, one pool per node, the pool's name is the node's.

What placement needs of a device is in its attributes, so that what is read is what was published. Memory and cores are
also capacities that many may take of (KEP-5075, consumable capacity), because the API server checks claims against
them. Limits: 128 devices in a slice, 32 attributes and capacities together, 64 characters in a text.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from terrazzo.model.device import Device, Health
from terrazzo.model.errors import InputError
from terrazzo.model.node import Node
from terrazzo.model.quantity import memory_mib
from terrazzo.wire import state
from terrazzo.wire.kubernetes import SliceDevice

DRIVER = "gpu.terrazzo.io"
CLASS = "gpu.terrazzo.io"
MOST_DEVICES = 128
_LONGEST = 64
_JOIN = " "
_NUMBERS = ("index", "units", "sharers", "step", "numa", "foreign_mib")
_TEXTS = ("uuid", "vendor", "model", "product", "family", "mode", "geometry", "profile", "unknown", "health_reason")


def device_name(device: Device) -> str:
    """Return a DNS label for a device that nobody gave one: vendor and the end of its UUID."""
    label = re.sub(r"[^a-z0-9]+", "-", f"{device.vendor}-{device.index}-{device.uuid}".casefold())
    return label[:60].strip("-")


def publish(node: Node, rows: list[state.InventoryDevice], *, generation: int = 1) -> list[dict[str, Any]]:
    """Return the ResourceSlice objects that say what ``rows`` say.

    Args:
        node: whose devices they are.
        rows: one per device of ``node``, in the same order.
        generation: of the pool; grows with every change.
    """
    devices = [_device(device, row) for device, row in zip(node.devices, rows, strict=True)]
    parts = [devices[i : i + MOST_DEVICES] for i in range(0, len(devices), MOST_DEVICES)] or [[]]
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{node.name}-{DRIVER}-{number}"},
            "spec": {
                "driver": DRIVER,
                "nodeName": node.name,
                "pool": {"name": node.name, "generation": generation, "resourceSliceCount": len(parts)},
                "devices": part,
            },
        }
        for number, part in enumerate(parts)
    ]


def _device(device: Device, row: state.InventoryDevice) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    for name in _TEXTS:
        value = str(getattr(row, name))[:_LONGEST]
        if value:
            attributes[_camel(name)] = {"string": value}
    for name in _NUMBERS:
        number = getattr(row, name)
        if number is not None:
            attributes[_camel(name)] = {"int": number}
    if row.links:
        attributes["links"] = {"string": _JOIN.join(row.links)[:_LONGEST]}
    memory = device.memory_mib if isinstance(device.memory_mib, int) else 1
    capacity = {"memory": _capacity(f"{memory}Mi", "0"), "cores": _capacity(str(device.units), "0")}
    taints = [] if device.health is Health.HEALTHY else [
        # NoExecute would have the API server delete who holds it.
        {"key": f"{DRIVER}/{device.health.value}", "effect": "NoSchedule"}
    ]  # fmt: skip
    made = {"name": device_name(device), "attributes": attributes, "capacity": capacity}
    return {**made, "allowMultipleAllocations": True, **({"taints": taints} if taints else {})}


def _capacity(most: str, least: str) -> dict[str, Any]:
    return {"value": most, "requestPolicy": {"default": least, "validRange": {"min": least, "max": most}}}


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def row_of(device: SliceDevice, where: str) -> state.InventoryDevice:
    """Return what one published device says.

    Raises:
        InputError: its memory is no quantity.
    """
    said = {name.rpartition("/")[2]: value for name, value in (device.attributes or {}).items()}
    texts = {name: str(said.get(_camel(name), {}).get("string", "")) for name in _TEXTS}
    numbers = {name: n for name in _NUMBERS if type(n := said.get(_camel(name), {}).get("int")) is int}
    taint = next((t.key for t in device.taints or () if t.key.startswith(DRIVER)), "")
    memory = (device.capacity or {}).get("memory", {}).get("value", "")
    fields: dict[str, Any] = {**texts, **numbers, "links": str(said.get("links", {}).get("string", "")).split()}
    try:
        fields["mib"] = None if texts["unknown"] else memory_mib(memory)
    except InputError as error:
        raise InputError(error.what, where=f"{where}.capacity[memory]", remedy=error.remedy) from None
    fields["health"] = taint.rpartition("/")[2] or "healthy"
    return msgspec.convert(fields, state.InventoryDevice)
