"""A cluster as a dump tells it: nodes with devices, and what running pods hold of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from terrazzo.admission import vendors
from terrazzo.cli.reading import Item, documents, parse
from terrazzo.dialects import holdings, inventory, policyfile, workloads
from terrazzo.dialects.normalise import normalise
from terrazzo.model.allocation import Allocation
from terrazzo.model.errors import InputError, TerrazzoError
from terrazzo.model.node import Node
from terrazzo.model.policy import Policy
from terrazzo.model.reason import NodeRejection
from terrazzo.model.request import NodeRules, PodRequest, Toleration
from terrazzo.placement import noderules
from terrazzo.placement.engine import Engine
from terrazzo.placement.fleet import Fleet
from terrazzo.wire import convert as decode
from terrazzo.wire import kubernetes as k8s

_T = TypeVar("_T")
POLICY_MAP = "terrazzo-policy"
POLICY_KEY = "policy.yaml"
_ENDED = ("Succeeded", "Failed")
_ANYWHERE = NodeRules(tolerations=(Toleration(operator="Exists"),))


@dataclass(slots=True)
class Cluster:
    """What a dump tells.

    Attributes:
        fleet: nodes, devices and what is held.
        engine: decides over the fleet.
        policy: as given, or empty.
        vendors: vendors that have devices.
        requests: requests of the pods that hold something, by key.
        waiting: pods of the dump that are bound to no node yet and ask for devices.
        unplaced: pods that run, by their key, without our being able to say on which devices.
        notes: what a reader should know: sentences.
    """

    fleet: Fleet
    engine: Engine
    policy: Policy
    vendors: tuple[str, ...]
    requests: dict[str, PodRequest] = field(default_factory=dict)
    waiting: list[PodRequest] = field(default_factory=list)
    unplaced: dict[str, NodeRejection] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

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
    present = tuple(sorted({device.vendor for node in nodes for device in node.devices}))
    cluster = Cluster(fleet, Engine(fleet, policy), policy, present)
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
    for where, pod in pods:
        if pod.status.phase in _ENDED:
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
            cluster.notes.append(f"pod {request.title} runs on {pod.spec.node_name}, which is not among the nodes")
            continue
        held = _written(cluster, pod, nodes) if request.asks_devices else None
        if held is None:
            silent.append(request)
        else:
            _adopt(cluster, request, held)
    for request in sorted(silent, key=lambda r: (not any(a.whole for c in r.containers for a in c.asks), r.created_s)):
        _guess(cluster, request)


def _request(cluster: Cluster, pod: k8s.Pod, where: str) -> PodRequest | None:
    try:
        return cluster.resolve(normalise(pod, where=where).request)
    except TerrazzoError as error:
        if not pod.spec.node_name:
            raise
        cluster.notes.append(f"a running pod cannot be counted: {error}")
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
    """Place a pod that runs without saying on which devices. The kind of device is sure, which one is a guess."""
    node = request.rules.node_name
    anywhere = msgspec.structs.replace(request, rules=_ANYWHERE, cpu_milli=0, memory_mib=0, other={})
    found = cluster.engine.place_on(anywhere, node)
    if isinstance(found, Allocation):
        whole = msgspec.structs.replace(found, cpu_milli=request.cpu_milli, memory_mib=request.memory_mib)
        _adopt(cluster, request, whole)
        return
    bare = Allocation(
        pod=request.key, namespace=request.namespace, name=request.name, node=node,
        priority=request.priority, created_s=request.created_s, labels=tuple(sorted(request.labels.items())),
        cpu_milli=request.cpu_milli, memory_mib=request.memory_mib,
    )  # fmt: skip
    _adopt(cluster, request, bare)
    cluster.unplaced[request.key] = found
    cluster.notes.append(
        f"pod {request.title} runs on {node}, but what it asks for does not fit there any more ({found.reason}); "
        "its devices are not counted"
    )


def manifests(cluster: Cluster, items: Sequence[Item]) -> list[PodRequest]:
    """Return the requests of all pods that the manifests make, vendors decided.

    A DaemonSet makes one pod for each node that its own rules allow.

    Raises:
        TerrazzoError: a manifest cannot be read, or asks for what can never be valid.
    """
    requests: list[PodRequest] = []
    for item in items:
        for made in workloads.pods_of(item.body, item.where):
            request = cluster.resolve(normalise(made.pod, where=item.where).request)
            requests += _per_node(cluster, request) if made.per_node else [request]
    if not requests:
        raise InputError("makes no pod", where=items[0].where if items else "-f", remedy="give a Pod or a workload")
    return requests


def _per_node(cluster: Cluster, request: PodRequest) -> list[PodRequest]:
    return [
        msgspec.structs.replace(
            request,
            name=f"{request.name}-{node.name}",
            rules=msgspec.structs.replace(request.rules, node_name=node.name),
        )
        for node in cluster.fleet.nodes()
        if noderules.allows(request.rules, node) is None
    ]
