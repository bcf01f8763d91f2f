"""Whether a cluster's books were right: now, and at every moment that the API server remembers.

Amounts are added up here in the plainest way from what stands in the API, not by asking the engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from terrazzo.dialects import holdings, inventory
from terrazzo.dialects.normalise import normalise
from terrazzo.kube.kinds import CLAIM, POD
from terrazzo.model.allocation import DeviceUse
from terrazzo.model.device import Device
from terrazzo.model.errors import TerrazzoError
from terrazzo.model.node import Node
from terrazzo.testing.cluster.control_plane import ControlPlane
from terrazzo.wire import kubernetes as k8s

ENDED = ("Succeeded", "Failed")


class Seen(NamedTuple):
    """What a walk through history met: versions of pods, and the most grants at one moment."""

    versions: int
    most_held: int


def over_granted(plane: ControlPlane, *, since: int = 0, nodes_from: Iterable[dict[str, Any]] = ()) -> Seen:
    """Walk through all versions of pods and nodes and check each device after each of them.

    Args:
        plane: the cluster.
        since: revision to start after.
        nodes_from: Node objects as of that revision.

    Raises:
        TerrazzoError: at some moment a device had more granted than it has; who held it is in the sentence.
    """
    nodes = {n.name: n for n in inventory.read_nodes(msgspec.convert(list(nodes_from), list[k8s.Node]))}
    held: dict[str, tuple[str, dict[str, DeviceUse]]] = {}
    versions = most = 0
    for version in plane.store.history("minions", "pods", since=since):
        if version.kind == "minions":
            if version.body is not None:
                raw = msgspec.convert(version.body, k8s.Node)
                nodes[version.name] = inventory.read_nodes([raw])[0]
            continue
        versions += 1
        held.pop(version.name, None)
        if version.body is None:
            continue
        pod = msgspec.convert(version.body, k8s.Pod)
        if pod.spec.node_name and pod.status.phase not in ENDED:
            allocation = holdings.read(pod, nodes)
            if allocation is not None:
                held[version.name] = (allocation.node, {use.uuid: use for use in allocation.uses})
                _check(version.revision, version.name, nodes, held)
        most = max(most, len(held))
    return Seen(versions, most)


def _check(
    revision: int, pod: str, nodes: Mapping[str, Node], held: Mapping[str, tuple[str, dict[str, DeviceUse]]]
) -> None:
    name, uses = held[pod]
    devices = {device.uuid: device for device in nodes[name].devices}
    for uuid in uses:
        beside = {other: there[uuid] for other, (node, there) in held.items() if node == name and uuid in there}
        wrong = exceeded(devices.get(uuid), list(beside.values()))
        if wrong:
            who = ", ".join(sorted(beside))
            raise TerrazzoError(f"device {uuid} of {name} {wrong}; held by {who}", where=f"revision {revision}")


def exceeded(device: Device | None, uses: list[DeviceUse]) -> str:
    """Return in words by what a device is exceeded, empty when it is not."""
    if device is None:
        return "is not there"
    if len(uses) > 1 and any(use.alone for use in uses):
        return "is shared although a pod holds it alone"
    if len(uses) > device.sharers:
        return f"has {len(uses)} sharers of {device.sharers}"
    memory, units = sum(use.memory_mib for use in uses), sum(use.units for use in uses)
    if isinstance(device.memory_mib, int) and memory > device.memory_mib:
        return f"has {memory} MiB granted of {device.memory_mib}"
    if units > device.units:
        return f"has {units} units granted of {device.units}"
    return ""


def leaks(plane: ControlPlane) -> list[str]:
    """Return a sentence for everything that is left over or missing now."""
    return list(_leaks(plane))


def _leaks(plane: ControlPlane) -> Iterator[str]:
    referred: set[tuple[str, str]] = set()
    for pod in plane.admin.list(POD):
        meta, status = pod["metadata"], pod.get("status", {})
        title = f"pod {meta['namespace']}/{meta['name']}"
        claim = status.get("extendedResourceClaimStatus", {}).get("resourceClaimName")
        if status.get("phase") in ENDED:
            continue
        if not pod["spec"].get("nodeName"):
            if status.get("nominatedNodeName"):
                yield f"{title} is still nominated to {status['nominatedNodeName']}"
            continue
        if claim:
            referred.add((meta["namespace"], claim))
        if _asks(pod) and "terrazzo.io/allocation" not in meta.get("annotations", {}):
            yield f"{title} is bound without an allocation"
    if plane.version != "1.35":
        yield from _claims(plane, referred)


def _claims(plane: ControlPlane, referred: set[tuple[str, str]]) -> Iterator[str]:
    there = set()
    for claim in plane.admin.list(CLAIM, labels="app.kubernetes.io/managed-by=terrazzo"):
        key = (claim["metadata"]["namespace"], claim["metadata"]["name"])
        there.add(key)
        if key not in referred:
            yield f"claim {'/'.join(key)} belongs to no bound pod"
        elif not claim.get("status", {}).get("allocation"):
            yield f"claim {'/'.join(key)} has no devices"
    for key in referred - there:
        yield f"claim {'/'.join(key)} is missing"


def _asks(pod: dict[str, Any]) -> bool:
    return normalise(msgspec.convert(pod, k8s.Pod)).request.asks_devices
