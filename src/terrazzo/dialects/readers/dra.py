"""ResourceSlices of any DRA driver.

Source: Kubernetes API reference, ``resource.k8s.io`` v1 (v1beta1 wraps a device's fields in ``basic``). A pool is
complete when as many slices of its newest generation are there as it says; an incomplete pool is unknown, not small.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from terrazzo.dialects import catalogue
from terrazzo.dialects.readers import Found, Source
from terrazzo.model.device import Device, Health, SharingMode
from terrazzo.model.errors import InputError
from terrazzo.model.quantity import memory_mib
from terrazzo.model.unknown import Unknown
from terrazzo.wire.kubernetes import ResourceSlice, SliceDevice

_DRIVERS = (
    ("nvidia", "nvidia"), ("huawei", "ascend"), ("ascend", "ascend"), ("npu", "ascend"), ("cambricon", "cambricon"),
    ("mlu", "cambricon"), ("hygon", "hygon"), ("mthreads", "mthreads"), ("metax", "metax"), ("amd", "amd"),
    ("intel", "intel"),
)  # fmt: skip
_NOT_DEVICES = ("compute-domain", "vfio")


class _Pool(NamedTuple):
    driver: str
    name: str


def read(source: Source) -> Found | None:
    """Return the devices of the node's ResourceSlices.

    Raises:
        InputError: a capacity is no quantity.
    """
    if not source.slices:
        return None
    devices: list[Device] = []
    unknowns: list[Unknown] = []
    pools: dict[_Pool, list[ResourceSlice]] = {}
    for each in source.slices:
        if not any(word in each.spec.driver for word in _NOT_DEVICES):
            pools.setdefault(_Pool(each.spec.driver, each.spec.pool.name), []).append(each)
    for pool, slices in sorted(pools.items()):
        newest = max(each.spec.pool.generation for each in slices)
        current = [each for each in slices if each.spec.pool.generation == newest]
        wanted = current[0].spec.pool.resource_slice_count
        if len(current) < wanted:
            unknowns.append(
                Unknown(source.where(f"pool {pool.name} of {pool.driver} has {len(current)} of {wanted} slices here"))
            )
        for each in sorted(current, key=lambda s: s.metadata.name):
            for device in each.spec.devices or ():
                devices.append(_device(source, pool.driver, device, len(devices)))
    vendors = tuple(sorted({device.vendor for device in devices} | {_vendor(pool.driver) for pool in pools}))
    return Found(tuple(devices), tuple(unknowns), vendors) if pools else None


def _vendor(driver: str) -> str:
    return next((vendor for word, vendor in _DRIVERS if word in driver), driver)


def _device(source: Source, driver: str, device: SliceDevice, index: int) -> Device:
    basic = device.basic or {}
    attributes = {**_flat(basic.get("attributes")), **_flat(device.attributes)}
    capacity = {**_named(basic.get("capacity")), **_named(device.capacity)}
    vendor = str(attributes.get("vendor") or _vendor(driver))
    product = str(attributes.get("productName") or attributes.get("model") or attributes.get("product") or "")
    where = f"resource slice of {driver} on {source.name}: devices[{device.name}]"
    memory = _memory(capacity.get("memory"), where)
    profile = str(attributes.get("profile") or "")
    more: dict[str, Any] = {}
    taints = [taint.key for taint in device.taints or () if taint.effect in {"NoSchedule", "NoExecute"}]
    if taints:
        more = {"health": Health.DEGRADED, "health_reason": f"tainted {', '.join(taints)}"}
    if isinstance(attributes.get("numaNode"), int):
        more["numa"] = attributes["numaNode"]
    number = attributes.get("index")
    if attributes.get("type") == "mig" or profile:
        more |= {"profile": profile, "sharers": 1, "mode": SharingMode.GEOMETRY}
        chip = catalogue.chip(vendor, product)
        more["geometry"] = catalogue.geometry(chip.geometry) if chip and chip.geometry else None
    return _made(
        vendor, product, source.name, device, memory, attributes, number if isinstance(number, int) else index, more
    )


def _made(
    vendor: str,
    product: str,
    node: str,
    device: SliceDevice,
    memory: int | Unknown,
    attributes: dict[str, Any],
    index: int,
    more: dict[str, Any],
) -> Device:
    uuid = str(attributes.get("uuid") or f"{node}/{device.name}")
    geometry = more.pop("geometry", None)
    made = catalogue.device(
        vendor, product, node=node, uuid=uuid, index=index, memory_mib=memory, mode=more.pop("mode", None), **more
    )
    if not made.profile:
        return made
    profile = geometry.profile(made.profile) if geometry is not None else None
    return Device(
        node=node, uuid=uuid, vendor=vendor, model=f"{made.model}-MIG-{made.profile}", product=product,
        family=made.family, index=index, memory_mib=memory, units=profile.units if profile else 1,
        mode=SharingMode.GEOMETRY, sharers=1, geometry=geometry, profile=made.profile, numa=made.numa,
        health=made.health, health_reason=made.health_reason,
    )  # fmt: skip


def _flat(attributes: Any) -> dict[str, Any]:
    """Return attributes without the domain before their name and the type around their value."""
    if not isinstance(attributes, dict):
        return {}
    return {
        str(name).rpartition("/")[2]: next(iter(value.values()), None) if isinstance(value, dict) else value
        for name, value in attributes.items()
    }


def _named(capacity: Any) -> dict[str, Any]:
    if not isinstance(capacity, dict):
        return {}
    return {
        str(name).rpartition("/")[2]: value.get("value") if isinstance(value, dict) else value
        for name, value in capacity.items()
    }


def _memory(value: Any, where: str) -> int | Unknown:
    if value is None:
        return Unknown(f"{where} states no memory")
    try:
        return memory_mib(value) or Unknown(f"{where} states no memory")
    except InputError as error:
        raise InputError(error.what, where=where, remedy=error.remedy) from None
