"""Ways of sharing that change what is asked or what the cards are: whole cards, time-slicing, MIG.

Each takes the same fleet and the same pods. Whoever shares in such a way picks cards that are large enough by hand;
here that is done for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import structs

from terrazzo.dialects import catalogue
from terrazzo.model.device import Device, Geometry, SharingMode
from terrazzo.model.node import Node
from terrazzo.model.request import Ask, PodRequest
from terrazzo.model.unknown import Unknown

REPLICAS = 4
"""Pods per time-sliced card. NVIDIA's device plugin documentation shows 10 and 4; nothing fences memory."""

Rewrite = Callable[[PodRequest], PodRequest]


def each_ask(request: PodRequest, change: Callable[[Ask], Ask]) -> PodRequest:
    """Return the pod with every ask changed."""
    containers = tuple(
        structs.replace(container, asks=tuple(change(ask) for ask in container.asks))
        for container in request.containers
    )
    return structs.replace(request, containers=containers)


def large_enough(ask: Ask, nodes: Sequence[Node]) -> tuple[str, ...]:
    """Return the models whose memory covers the ask; those of the ask itself when it says no size."""
    if not ask.memory_mib:
        return ask.models
    sizes = {d.model: d.memory_mib for node in nodes for d in node.devices}
    enough = tuple(sorted(m for m, size in sizes.items() if isinstance(size, int) and size >= ask.memory_mib))
    return enough or ("no card is large enough",)


def whole_cards(nodes: Sequence[Node]) -> Rewrite:
    """Return the rewriting of every ask into whole devices."""

    def change(ask: Ask) -> Ask:
        models = ask.models or large_enough(ask, nodes)
        return Ask(count=ask.count, whole=True, vendors=ask.vendors, models=models, words=ask.words)

    return lambda request: each_ask(request, change)


def time_sliced_ask(nodes: Sequence[Node]) -> Rewrite:
    """Return the rewriting of every ask into a turn on a card: whatever is asked, it is one of a few replicas."""
    part = 100 // REPLICAS

    def change(ask: Ask) -> Ask:
        return Ask(
            count=ask.count,
            memory_percent=part,
            cores_percent=part,
            vendors=ask.vendors,
            models=ask.models or large_enough(ask, nodes),
            words=ask.words,
        )

    return lambda request: each_ask(request, change)


def time_sliced_node(node: Node) -> Node:
    """Return the node with NVIDIA cards in replicas; other vendors' devices take one pod each."""

    def change(device: Device) -> Device:
        sharers = REPLICAS if device.vendor == "nvidia" and not device.profile else 1
        return structs.replace(device, mode=SharingMode.CONTINUOUS, geometry=None, sharers=sharers, memory_step_mib=1)

    return structs.replace(node, devices=tuple(change(device) for device in node.devices))


def mig_ask(nodes: Sequence[Node]) -> Rewrite:
    """Return the rewriting of whole devices into the largest slice; other asks are rounded up when they are placed."""
    del nodes

    def change(ask: Ask) -> Ask:
        if not ask.whole:
            return ask
        return structs.replace(ask, whole=False, memory_percent=100, cores_percent=100)

    return lambda request: each_ask(request, change)


def mig_node(node: Node) -> Node:
    """Return the node with every card that can be cut in MIG mode; other devices take one pod each."""

    def change(device: Device) -> Device:
        table = mig_table(device)
        if table is None:
            return structs.replace(device, mode=SharingMode.CONTINUOUS, geometry=None, sharers=1, memory_step_mib=1)
        largest = max(table.profiles, key=lambda profile: profile.memory_mib)
        units = max(profile.units for profile in table.profiles)
        memory = device.memory_mib if isinstance(device.memory_mib, Unknown) else largest.memory_mib
        return structs.replace(
            device, mode=SharingMode.GEOMETRY, geometry=table, sharers=table.slots, units=units, memory_mib=memory
        )

    return structs.replace(node, devices=tuple(change(device) for device in node.devices))


def mig_table(device: Device) -> Geometry | None:
    """Return how a card can be cut in MIG mode, None where it cannot."""
    if device.vendor != "nvidia" or device.profile:
        return None
    chip = catalogue.chip(device.vendor, device.model)
    return catalogue.geometry(chip.geometry) if chip is not None and chip.geometry else None
