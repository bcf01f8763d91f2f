"""What every scenario needs: example files turned into a fleet and pods, and tables of where pods went."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from terrazzo.admission import vendors
from terrazzo.dialects import inventory, policyfile, workloads
from terrazzo.dialects.normalise import normalise
from terrazzo.model.allocation import Allocation, DeviceGrant
from terrazzo.model.device import Device
from terrazzo.model.node import Node
from terrazzo.model.policy import Policy
from terrazzo.model.quantity import format_mib
from terrazzo.model.request import PodRequest
from terrazzo.placement import noderules
from terrazzo.placement.engine import Engine
from terrazzo.placement.fleet import Fleet
from terrazzo.simulator.demo.story import Table
from terrazzo.wire import kubernetes as k8s

Reader = Callable[[str], list[dict[str, Any]]]


class Placed(NamedTuple):
    """Pods of a scenario and where they went.

    Attributes:
        fleet: with everything placed.
        placed: request and allocation, in order.
        refused: requests that fitted nowhere.
    """

    fleet: Fleet
    placed: list[tuple[PodRequest, Allocation]]
    refused: list[PodRequest]

    @property
    def pods(self) -> int:
        """Pods placed."""
        return len(self.placed)

    @property
    def devices_held(self) -> set[tuple[str, str]]:
        """Devices that somebody holds: node and uuid."""
        return {(allocation.node, use.uuid) for _, allocation in self.placed for use in allocation.uses}

    def devices(self) -> list[Device]:
        """Return all devices of the fleet."""
        return [device for node in self.fleet.nodes() for device in node.devices]


class Scene:
    """The examples folder, ready to be used.

    Args:
        read: returns the objects of an example file, by its path within the examples folder.
        traces: folder of public traces, None when they are not at hand.
        progress: told what is going on in long scenarios.
    """

    def __init__(self, read: Reader, traces: Path | None = None, progress: Callable[[str], None] | None = None) -> None:
        self.read = read
        self.traces = traces
        self.progress = progress or (lambda _: None)

    def nodes(self, file: str) -> list[Node]:
        """Return the nodes of a file."""
        return inventory.read_nodes(msgspec.convert(self._kind(file, "Node"), list[k8s.Node]))

    def policy(self, file: str) -> Policy:
        """Return the policy that the config map of a file carries (JSON or YAML already parsed by the reader)."""
        for body in self.read(file):
            if body.get("kind") == "ConfigMap":
                return policyfile.read(body["data"]["policy.yaml"], where=file)
        return Policy()

    def requests(self, file: str, nodes: Sequence[Node], policy: Policy | None = None) -> list[PodRequest]:
        """Return what the pods of a file ask for; a DaemonSet makes one for each node."""
        present = {device.vendor for node in nodes for device in node.devices}
        requests = []
        for body in self.read(file):
            for made in workloads.pods_of(body, file):
                request = vendors.resolve(normalise(made.pod, where=file).request, policy or Policy(), present)
                requests += _per_node(request, nodes) if made.per_node else [request]
        return requests

    def place(self, nodes_file: str, pods_file: str, policy_file: str = "") -> Placed:
        """Return where the engine puts the pods of one file on the nodes of another."""
        nodes = self.nodes(nodes_file)
        policy = self.policy(policy_file) if policy_file else Policy()
        return place(Fleet(nodes), self.requests(pods_file, nodes, policy), policy)

    def _kind(self, file: str, kind: str) -> list[dict[str, Any]]:
        return [body for body in self.read(file) if body.get("kind") == kind]

    @staticmethod
    def table(title: str, placed: Placed, *, limit: int = 0, containers: bool = False) -> Table:
        """Return a table of pods, devices and amounts; ``limit`` rows, then a line that says how many more."""
        rows = []
        names = {(device.node, device.uuid): device for device in placed.devices()}
        for request, allocation in placed.placed:
            for container in allocation.containers:
                for grant in container.devices:
                    device = names[allocation.node, grant.uuid]
                    name = f"{request.name}/{container.container}" if containers else request.name
                    rows.append((name, f"{allocation.node} {device.index}", device.model, *amounts(grant, device)))
        more = len(rows) - limit if limit and len(rows) > limit else 0
        if more:
            rows = [*rows[:limit], (f"… and {more} more", "", "", "", "")]
        rows += [(request.name, "waits", "", "", "") for request in placed.refused[:3]]
        return Table(title, ("pod", "device", "model", ">memory", ">compute"), tuple(rows))


def place(fleet: Fleet, requests: Sequence[PodRequest], policy: Policy | None = None) -> Placed:
    """Return where the engine puts these pods, one after the other."""
    engine = Engine(fleet, policy)
    result = Placed(fleet, [], [])
    for request in requests:
        engine.learn(request)
        allocation = engine.decide(request)
        if allocation is None:
            result.refused.append(request)
        else:
            fleet.grant(allocation)
            result.placed.append((request, allocation))
    return result


def amounts(grant: DeviceGrant, device: Device) -> tuple[str, str]:
    """Return memory and compute of a grant, in words."""
    if grant.whole:
        return "all", "all"
    units = f"{grant.units * 100 / device.units:.0f} %" if grant.units else "what is idle"
    exact = f" ({grant.units}/{device.units})" if grant.units and device.units != 100 else ""
    cut = f" as {grant.profile}" if grant.profile else ""
    return format_mib(grant.memory_mib) + cut, units + exact


def _per_node(request: PodRequest, nodes: Sequence[Node]) -> list[PodRequest]:
    return [
        msgspec.structs.replace(
            request,
            name=f"{request.name}-{node.name}",
            rules=msgspec.structs.replace(request.rules, node_name=node.name),
        )
        for node in nodes
        if noderules.allows(request.rules, node) is None
    ]
