"""ResourceSlices of any DRA driver.

Source: Kubernetes API reference, ``resource.k8s.io`` v1 (v1beta1 wraps a device's fields in ``basic``). A pool is
complete when as many slices of its newest generation are there as it says; an incomplete pool is unknown, not small.
Memory, product and UUID have no standard names: every driver here calls its memory capacity ``memory``.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from terrazzo.dialects import catalogue
from terrazzo.dialects.readers import MOST_MIB, Found, Source, health
from terrazzo.dialects.readers.looks import looks_like_accelerator
from terrazzo.dialects.readers.slices import DRIVER
from terrazzo.model.device import Device
from terrazzo.model.errors import InputError
from terrazzo.model.quantity import memory_mib
from terrazzo.model.unknown import Unknown
from terrazzo.wire.kubernetes import ResourceSlice, SliceDevice

_VENDORS = {
    "huawei": "ascend", "npu": "ascend", "mlu": "cambricon", "dcu": "hygon", "hcu": "hygon", "musa": "mthreads",
    "xpu": "kunlunxin", "gcu": "enflame",
}  # fmt: skip
"""Words of driver names that are not themselves a vendor's word."""
_NOT_DEVICES = ("compute-domain", "vfio")
_PRODUCT = ("productName", "model", "product", "deviceType")


class _Pool(NamedTuple):
    driver: str
    name: str


class _Told(NamedTuple):
    """A device's fields, whichever version of the API they were written in."""

    name: str
    attributes: dict[str, Any]
    capacity: dict[str, Any]
    taints: tuple[str, ...]
    carved: bool


def read(source: Source) -> Found | None:
    """Return the devices of the node's ResourceSlices.

    Raises:
        InputError: a capacity is no quantity.
    """
    devices: list[Device] = []
    unknowns: list[Unknown] = []
    vendors: set[str] = set()
    for pool, slices in sorted(_pools(source).items()):
        newest = max(each.spec.pool.generation for each in slices)
        current = [each for each in slices if each.spec.pool.generation == newest]
        wanted = current[0].spec.pool.resource_slice_count
        if len(current) < wanted:
            unknowns.append(
                Unknown(
                    source.where(
                        f"pool {pool.name} of {pool.driver} has {len(current)} of {wanted} slices of generation "
                        f"{newest} here, so it may have more devices"
                    )
                )
            )
        told = [
            _told(device)
            for each in sorted(current, key=lambda each: each.metadata.name)
            for device in each.spec.devices or ()
        ]
        made = [_device(source, pool, each, position) for position, each in enumerate(_real(told), len(devices))]
        devices += made
        vendors |= {device.vendor for device in made} or {_vendor(pool.driver)}
    return Found(tuple(devices), tuple(unknowns), tuple(sorted(vendors))) if vendors else None


def _pools(source: Source) -> dict[_Pool, list[ResourceSlice]]:
    pools: dict[_Pool, list[ResourceSlice]] = {}
    for each in source.slices:
        driver = each.spec.driver
        known = _vendor(driver) in catalogue.VENDORS or driver.endswith(".terrazzo.io")
        if (
            driver == DRIVER
            or any(word in driver for word in _NOT_DEVICES)
            or not (known or looks_like_accelerator(driver))
        ):
            continue
        pools.setdefault(_Pool(driver, each.spec.pool.name), []).append(each)
    return pools


def _vendor(driver: str) -> str:
    """Return the vendor that a driver's name speaks of, else the name itself."""
    words = re.split(r"[./-]", driver.casefold())
    for word in words:
        if word in catalogue.VENDORS:
            return word
    return next((_VENDORS[word] for word in words if word in _VENDORS), driver)


def _told(device: SliceDevice) -> _Told:
    basic = device.basic or {}
    taints = [(taint.key, taint.effect) for taint in device.taints or ()]
    older = basic.get("taints")
    if isinstance(older, list):
        taints += [(str(each.get("key")), str(each.get("effect"))) for each in older if isinstance(each, dict)]
    return _Told(
        device.name,
        {**_flat(basic.get("attributes")), **_flat(device.attributes)},
        {**_flat(basic.get("capacity")), **_flat(device.capacity)},
        tuple(key for key, effect in taints if effect in {"NoSchedule", "NoExecute"}),
        bool(device.consumes_counters or basic.get("consumesCounters")),
    )


def _flat(fields: Any) -> dict[str, Any]:
    """Return fields without the domain before their name and the type around their value."""
    if not isinstance(fields, dict):
        return {}
    return {
        str(name).rpartition("/")[2]: (value.get("value") or next(iter(value.values()), None))
        if isinstance(value, dict)
        else value
        for name, value in fields.items()
    }


def _real(told: list[_Told]) -> list[_Told]:
    """Drop slices that are only offered: a driver that cuts on demand lists every one that could be, and the card."""
    cards = {str(each.attributes.get("uuid")) for each in told if not _profile(each)}
    return [
        each
        for each in told
        if not (_profile(each) and each.carved and (str(each.attributes.get("parentUUID")) in cards or _offered(each)))
    ]


def _offered(each: _Told) -> bool:
    """A slice that exists has a UUID of its own."""
    return not each.attributes.get("uuid")


def _profile(each: _Told) -> str:
    profile = each.attributes.get("profile")
    return str(profile) if profile else "mig" if str(each.attributes.get("type")).casefold() == "mig" else ""


def _device(source: Source, pool: _Pool, each: _Told, position: int) -> Device:
    attributes = each.attributes
    stated = str(attributes.get("vendor") or "").casefold()
    vendor = stated if stated in catalogue.VENDORS else _vendor(pool.driver)
    product = str(next((attributes[name] for name in _PRODUCT if attributes.get(name)), ""))
    where = f"resource slice of {pool.driver} on {source.name}: devices[{each.name}]"
    memory = _memory(each.capacity.get("memory"), where)
    number, numa = attributes.get("index"), attributes.get("numaNode", attributes.get("numa"))
    fields: dict[str, Any] = {
        "node": source.name,
        "uuid": str(attributes.get("uuid") or f"{source.name}/{each.name}"),
        "index": number if _natural(number) else position,
        "numa": numa if _natural(numa) else None,
        **health(not each.taints, f"tainted {', '.join(each.taints)}"),
    }
    profile = _profile(each)
    if profile:
        return catalogue.partition(vendor, product, profile, memory_mib=memory, **fields)
    if catalogue.chip(vendor, product) is None:
        return catalogue.device(vendor, product, memory_mib=memory, mode=catalogue.usual_mode(vendor), **fields)
    return catalogue.device(vendor, product, memory_mib=None if isinstance(memory, Unknown) else memory, **fields)


def _natural(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST_MIB


def _memory(value: Any, where: str) -> int | Unknown:
    if value is None:
        return Unknown(f"{where} states no memory")
    try:
        mib = memory_mib(value)
    except InputError as error:
        raise InputError(error.what, where=f"{where}.capacity[memory]", remedy=error.remedy) from None
    return mib if 0 < mib <= MOST_MIB else Unknown(f"{where} states a memory of {mib} MiB")
