"""MIG as most clusters run it: every card cut once, beforehand, and never again while pods run."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from msgspec import structs

from terrazzo.model.allocation import Slice
from terrazzo.model.device import Device, SharingMode
from terrazzo.model.node import Node
from terrazzo.model.policy import Policy
from terrazzo.model.request import PodRequest
from terrazzo.placement.engine import Engine
from terrazzo.placement.fleet import Fleet
from terrazzo.placement.geometry import cuts_of
from terrazzo.placement.seat import DeviceView
from terrazzo.simulator.rewrites import mig_node

GIVEN_UP = 200
"""Pods in a row that find no room: the fleet is full enough to see how it should be cut."""


def best_static(nodes: Sequence[Node], requests: Sequence[PodRequest]) -> tuple[Node, ...]:
    """Return the fleet cut as if the slices had been known beforehand.

    The empty fleet is filled with the pods to come, cutting on demand, until it is full; as it is cut then, it stays.
    What is left of a card is cut into its largest slices. Cards that cannot be cut take one pod each.
    """
    open_nodes = [mig_node(node) for node in nodes]
    fleet = Fleet(open_nodes)
    engine = Engine(fleet, Policy(strategy="pack"))
    refused = 0
    for number, request in enumerate(request for request in requests if request.asks_devices):
        found = engine.decide(structs.replace(request, uid=f"trial-{number}"))
        refused = 0 if found is not None else refused + 1
        if found is not None:
            fleet.grant(found)
        if refused == GIVEN_UP:
            break
    return tuple(
        structs.replace(node, devices=tuple(part for view in fleet.devices(node.name) for part in cut(view)))
        for node in open_nodes
    )


def cut(view: DeviceView) -> tuple[Device, ...]:
    """Return the slices of a card as it is cut now, what is left of it cut into the largest that fit."""
    device = view.device
    if device.mode is not SharingMode.GEOMETRY or device.geometry is None or device.profile:
        return (device,)
    cuts, state = cuts_of(device.geometry), view.state
    names = [each.profile for each in view.slices]
    for profile in sorted(device.geometry.profiles, key=lambda each: (-each.size, -each.units)):
        while starts := cuts.starts(profile, state):
            state = cuts.take(state, Slice(profile.name, starts[-1]))
            names.append(profile.name)
    numbers = count()
    return tuple(
        structs.replace(
            device,
            uuid=f"{device.uuid}/{next(numbers)}",
            profile=found.name,
            memory_mib=found.memory_mib,
            units=found.units,
            sharers=1,
        )
        for name in names
        if (found := cuts.profile(name)) is not None
    )
