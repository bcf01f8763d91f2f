"""A cluster as a dump tells it: nodes with devices, and what running pods hold of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from terrazzo.admission import FleetSummary, summarise, vendors
from terrazzo.cli.reading import Item, documents, parse
from terrazzo.dialects import holdings, inventory, policyfile
from terrazzo.dialects.normalise import normalise
from terrazzo.model.allocation import Allocation
from terrazzo.model.device import Health
from terrazzo.model.errors import InputError, RequestError
from terrazzo.model.node import Node
from terrazzo.model.policy import Policy
from terrazzo.model.reason import NodeRejection
from terrazzo.model.request import PodRequest
from terrazzo.placement import fit
from terrazzo.placement.demand import usable_mib
from terrazzo.placement.engine import Engine
from terrazzo.placement.fleet import Fleet
from terrazzo.placement.seat import DeviceView
from terrazzo.wire import convert as decode
from terrazzo.wire import kubernetes as k8s

_T = TypeVar("_T")
POLICY_MAP = "terrazzo-policy"
POLICY_KEY = "policy.yaml"
ENDED = ("Succeeded", "Failed")
"""Phases of pods that have given everything back."""
_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


@dataclass(slots=True)
class Cluster:
    """What a dump tells.

    Attributes:
        fleet: nodes, devices and what is held.
        engine: decides over the fleet.
        policy: as given, or empty.
        summary: every kind of device that it has.
        requests: requests of the pods that hold something, by key.
        waiting: pods of the dump that are bound to no node yet and ask for devices.
        unplaced: pods that run, by their key, without our being able to say on which devices.
        notes: what a reader should know: sentences.
        priorities: values of priority classes by name; the empty name is the default.
    """

    fleet: Fleet
    engine: Engine
    policy: Policy
    summary: FleetSummary
    requests: dict[str, PodRequest] = field(default_factory=dict)
    waiting: list[PodRequest] = field(default_factory=list)
    unplaced: dict[str, NodeRejection] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    priorities: dict[str, int] = field(default_factory=lambda: dict(_PRIORITIES))

    @property
    def vendors(self) -> tuple[str, ...]:
        """Vendors that have devices, in alphabetical order."""
        return self.summary.vendors

    def learn_priority(self, item: Item) -> bool:
        """Take note of a PriorityClass; False when ``item`` is something else."""
        if item.kind != "PriorityClass":
            return False
        value = item.body.get("value")
        if not isinstance(value, int):
            raise InputError("has no whole number as value", where=f"{item.where}: PriorityClass")
        name = (item.body.get("metadata") or {}).get("name")
        for each in [str(name), *([""] if item.body.get("globalDefault") is True else [])]:
            self.priorities[each] = value
        return True

    def prioritise(self, pod: k8s.Pod) -> tuple[str, ...]:
        """Give a pod the priority of its class, as the API server would; return what to tell its author."""
        spec = pod.spec
        if spec.priority is not None:
            return ()
        spec.priority = self.priorities.get(spec.priority_class_name, 0)
        if spec.priority_class_name in self.priorities or not spec.priority_class_name:
            return ()
        title = f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}"
        return (f"pod {title}: priority class {spec.priority_class_name} is not among the objects, counted as 0",)

    def resolve(self, request: PodRequest) -> PodRequest:
        """Return the request with its vendors decided as far as policy and cluster say."""
        return vendors.resolve(request, self.policy, self.vendors)

    def undecided(self, request: PodRequest) -> bool:
        """Return whether nobody says which vendors the pod runs on, so that it waits."""
        return bool(vendors.undecided(request, self.vendors))


def load(items: Sequence[Item], policy: Policy | None = None) -> Cluster:
    """Return the cluster that these objects tell.

    Args:
        items: nodes, pods, config maps and resource slices, in any order.
        policy: the cluster's policy; None takes the one in a ``terrazzo-policy`` config map among ``items``, if any.

    Raises:
        InputError: there is no node, or an object cannot be read.
    """
    typed = _sort(items)
    nodes = inventory.read_nodes(typed.nodes, config_maps=typed.maps, slices=typed.slices)
    if not nodes:
        raise InputError("holds no Node", where="--cluster", remedy="give the output of kubectl get nodes -o yaml")
    fleet = Fleet(nodes)
    policy = policy or _policy_among(typed.maps) or Policy()
    cluster = Cluster(fleet, Engine(fleet, policy), policy, summarise(nodes))
    for item in items:
        cluster.learn_priority(item)
    _run(cluster, typed.pods)
    return cluster


@dataclass(slots=True)
class _Typed:
    nodes: list[k8s.Node] = field(default_factory=list)
    pods: list[tuple[str, k8s.Pod]] = field(default_factory=list)
    maps: list[k8s.ConfigMap] = field(default_factory=list)
    slices: list[k8s.ResourceSlice] = field(default_factory=list)


def _sort(items: Iterable[Item]) -> _Typed:
    typed = _Typed()
    for item in items:
        match item.kind:
            case "Node":
                typed.nodes.append(convert(item, k8s.Node))
            case "Pod":
                typed.pods.append((item.where, convert(item, k8s.Pod)))
            case "ConfigMap":
                typed.maps.append(convert(item, k8s.ConfigMap))
            case "ResourceSlice":
                typed.slices.append(convert(item, k8s.ResourceSlice))
    return typed


def convert(item: Item, kind: type[_T]) -> _T:
    """Return an object as a narrow struct.

    Raises:
        InputError: a field has the wrong type; the message has the object and the field's path.
    """
    name = (item.body.get("metadata") or {}).get("name", "unnamed")
    return decode.convert(item.body, kind, f"{item.where}: {item.kind} {name}")


def _policy_among(maps: Iterable[k8s.ConfigMap]) -> Policy | None:
    for each in maps:
        if each.metadata.name == POLICY_MAP:
            return _policy_text((each.data or {}).get(POLICY_KEY, ""), f"config map {POLICY_MAP}")
    return None


def _policy_text(text: str, where: str) -> Policy:
    if not text.strip():
        raise InputError(f"has no {POLICY_KEY}", where=where)
    return policyfile.read(parse(where, text.encode())[0].value, where=where)


def read_policy(path: str) -> Policy:
    """Return the policy of a file: the policy itself, or the config map that carries it.

    Raises:
        InputError: it cannot be read, or has a field, vendor or strategy that does not exist.
    """
    found = documents(path)
    if len(found) != 1:
        what = f"holds {len(found)} documents" if found else "holds no policy"
        raise InputError(what, where=path, remedy="give one policy")
    where, body, _ = found[0]
    if isinstance(body, dict) and body.get("kind") == "ConfigMap":
        data = body.get("data")
        text = data.get(POLICY_KEY) if isinstance(data, dict) else None
        return _policy_text(text if isinstance(text, str) else "", where)
    return policyfile.read(body, where=where)


def _run(cluster: Cluster, pods: Sequence[tuple[str, k8s.Pod]]) -> None:
    """Put running pods on their devices: those whose annotations name them first, the rest where they fit."""
    nodes = {node.name: node for node in cluster.fleet.nodes()}
    silent: list[PodRequest] = []
    elsewhere: dict[str, int] = {}
    for where, pod in pods:
        if pod.status.phase in ENDED:
            continue
        request = _request(cluster, pod, where)
        if request is None:
            continue
        cluster.engine.learn(request)
        if not pod.spec.node_name:
            if request.asks_devices:
                cluster.waiting.append(request)
            continue
        if pod.spec.node_name not in nodes:
            elsewhere[pod.spec.node_name] = elsewhere.get(pod.spec.node_name, 0) + request.asks_devices
            continue
        held = _written(cluster, pod, nodes) if request.asks_devices else None
        if held is None:
            silent.append(request)
        else:
            _adopt(cluster, request, held)
    cluster.notes += _elsewhere(elsewhere)
    for request in sorted(silent, key=lambda r: (not any(a.whole for c in r.containers for a in c.asks), r.created_s)):
        _guess(cluster, request)


def _elsewhere(pods: dict[str, int]) -> list[str]:
    total = sum(pods.values())
    if not total:
        return []
    names = sorted(name for name, number in pods.items() if number)
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return [f"pods that ask for devices run on nodes that are not among those given: {total} on {shown}"]


def _request(cluster: Cluster, pod: k8s.Pod, where: str) -> PodRequest | None:
    try:
        cluster.prioritise(pod)
        return cluster.resolve(normalise(pod, where=where).request)
    except RequestError as error:
        cluster.notes.append(f"a pod of the cluster cannot be counted: {error}")
        return None


def _written(cluster: Cluster, pod: k8s.Pod, nodes: dict[str, Node]) -> Allocation | None:
    try:
        return holdings.read(pod, nodes)
    except InputError as error:
        cluster.notes.append(f"counted by its request instead: {error}")
        return None


def _adopt(cluster: Cluster, request: PodRequest, held: Allocation) -> None:
    if cluster.fleet.allocation(held.pod) is not None:
        cluster.notes.append(f"pod {request.title} is given twice; the first is counted")
        return
    cluster.fleet.grant(held, adopt=True)
    cluster.requests[held.pod] = request


def _guess(cluster: Cluster, request: PodRequest) -> None:
    """Count a pod that runs without saying on which devices. The kind of device is sure, which one is a guess.

    A cordoned or broken node keeps its pods, so only the devices are looked at. Where the pod does not fit beside the
    others it is counted all the same: what is running is running.
    """
    node = request.rules.node_name
    if not request.asks_devices:
        _adopt(cluster, request, fit.allocation_of(request, node, (), ()))
        return
    views = cluster.fleet.devices(node)
    held = fit.place(request, node, views, lambda view: (not view.holders, view.free_mib, view.free_units))
    if held is not None:
        _adopt(cluster, request, held)
        return
    crowd = {view.device.uuid: len(view.holders) for view in views}
    held = fit.place(request, node, [_emptied(view) for view in views], lambda view: (crowd[view.device.uuid],))
    if held is not None:
        _adopt(cluster, request, held)
        indices = {view.device.uuid: str(view.device.index) for view in views}
        devices = ", ".join(indices[use.uuid] for use in held.uses)
        told = f"is counted on device {devices}, where it does not fit beside what is held already"
    else:
        _adopt(cluster, request, fit.allocation_of(request, node, (), ()))
        why = fit.why_not(request, node, views, cluster.engine.title)
        cluster.unplaced[request.key] = why
        told = f"asks for what {node} does not have ({why.reason}), so its devices are not counted"
    cluster.notes.append(f"pod {request.title} runs on {node} without saying on which devices; it {told}")


def _emptied(view: DeviceView) -> DeviceView:
    """Return the device as it would be, healthy and held by nobody."""
    device = msgspec.structs.replace(view.device, health=Health.HEALTHY)
    return DeviceView(device, usable_mib(device), device.units, (), alone=False, slices=())
