"""The books of a running cluster: what watches tell, as events of the ledger.

Objects come as the watches give them, in any order between kinds; each is applied at once. Nothing here waits or
writes, so everything between two awaits sees one state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from terrazzo.admission import FleetSummary, summarise
from terrazzo.admission import vendors as vendor_rules
from terrazzo.control.plain import PlainNodes, counts_of
from terrazzo.control.pods import PodRow, Standing, row_of, version_of
from terrazzo.control.requests import Requests
from terrazzo.dialects import holdings, inventory
from terrazzo.dialects.names import is_device_name
from terrazzo.dialects.readers import Source, slices
from terrazzo.model.allocation import Allocation
from terrazzo.model.errors import InputError, RequestError
from terrazzo.model.node import Node
from terrazzo.model.policy import Policy
from terrazzo.model.request import PodRequest
from terrazzo.model.unknown import Unknown
from terrazzo.placement import events as ev
from terrazzo.placement import instructions as ins
from terrazzo.placement.engine import Engine
from terrazzo.placement.fit import allocation_of
from terrazzo.placement.ledger import Ledger
from terrazzo.placement.reasons import NodeReasons
from terrazzo.wire import kubernetes as k8s
from terrazzo.wire.state import INVENTORY

MANAGED = "terrazzo.io/managed"
"""Label of a node that is ours."""
ENDED = ("Succeeded", "Failed")

Told = tuple[ins.Instruction, ...]


class Books:
    """All that is known of the cluster.

    Args:
        note: is told of what is wrong with an object, in a sentence; may be called again with the same.

    Attributes:
        ledger, engine: the books and who decides over them.
        reasons: why pods do not fit.
        policy: the cluster's.
        plain: nodes of vendors' plugins.
        pods: pods that ask for devices and have not ended, by UID.
        unbound: those of them that have no node yet; few, where ``pods`` may be many.
        nominated: per node, the pods that are to come there.
        mapped: names that a DeviceClass takes from us, with the class.
        device_names: per node and UUID, pool and name of the device in its ResourceSlice.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        self.ledger = Ledger()
        self.engine = Engine(self.ledger.fleet)
        self.reasons = NodeReasons(self.engine)
        self.policy = Policy()
        self.plain = PlainNodes()
        self.pods: dict[str, PodRow] = {}
        self.unbound: dict[str, PodRow] = {}
        self.nominated: dict[str, dict[str, PodRow]] = {}
        self.mapped: dict[str, str] = {}
        self.device_names: dict[str, dict[str, tuple[str, str]]] = {}
        self._note = note
        self._requests = Requests()
        self._nodes: dict[str, k8s.Node] = {}
        self._slices: dict[str, dict[str, k8s.ResourceSlice]] = {}
        self._slice_node: dict[str, str] = {}
        self._classes: dict[str, str] = {}
        self._summary: tuple[int, FleetSummary] = (-1, FleetSummary())
        self._slice_version: dict[str, int] = {}
        self.stale = False
        """Pods must be listed anew."""
        self.watchers: list[Callable[[str], None]] = []
        """Called with the UID of each pod that changed."""

    @property
    def summary(self) -> FleetSummary:
        """Every kind of device of the managed nodes; made anew when nodes have changed."""
        layout = self.ledger.fleet.layout
        if self._summary[0] != layout:
            self._summary = (layout, summarise(self.ledger.fleet.nodes()))
        return self._summary[1]

    def set_policy(self, policy: Policy) -> None:
        """Take a new policy; it holds from the next decision on."""
        self.policy = self.engine.policy = policy

    # -- nodes ---------------------------------------------------------------------------------------------------

    def node_seen(self, node: k8s.Node) -> Told:
        """Take a node as it is now."""
        self._nodes[node.metadata.name] = node
        return self._refresh(node.metadata.name)

    def node_gone(self, name: str, version: int) -> Told:
        """Take a node out."""
        self._nodes.pop(name, None)
        self.plain.drop(name)
        return self.ledger.apply(ev.NodeGone(name, version))

    def nodes_listed(self, nodes: Iterable[k8s.Node], version: int) -> Told:
        """Take all nodes there are; the others are gone."""
        listed = {node.metadata.name: node for node in nodes}
        told: list[ins.Instruction] = []
        for name in [name for name in self._nodes if name not in listed]:
            told += self.node_gone(name, version)
        for node in listed.values():
            told += self.node_seen(node)
        return tuple(told)

    def slice_seen(self, each: k8s.ResourceSlice) -> Told:
        """Take a ResourceSlice of our driver as it is now."""
        name, node = each.metadata.name, each.spec.node_name
        if each.spec.driver != slices.DRIVER or not node:
            return ()
        self._slices.setdefault(node, {})[name] = each
        self._slice_node[name] = node
        self._slice_version[node] = max(self._slice_version.get(node, 0), version_of(each.metadata))
        return self._refresh(node)

    def slice_gone(self, name: str, version: int) -> Told:
        """Take a ResourceSlice out. What its node has is unknown then, not nothing."""
        node = self._slice_node.pop(name, None)
        if node is None:
            return ()
        self._slices[node].pop(name, None)
        self._slice_version[node] = max(self._slice_version.get(node, 0), version)
        return self._refresh(node)

    def slices_listed(self, listed: Iterable[k8s.ResourceSlice], version: int) -> Told:
        """Take all ResourceSlices there are; the others are gone."""
        there = {each.metadata.name: each for each in listed}
        told: list[ins.Instruction] = []
        for each in there.values():
            told += self.slice_seen(each)
        for name in [name for name in self._slice_node if name not in there]:
            told += self.slice_gone(name, version)
        return tuple(told)

    def _refresh(self, name: str) -> Told:
        """Tell the ledger of a node what Node object and slices say together."""
        raw = self._nodes.get(name)
        if raw is None:
            return ()
        version = max(version_of(raw.metadata), self._slice_version.get(name, 0))
        if not self._is_ours(raw):
            self.plain.put(name, self._counted(raw))
            return self.ledger.apply(ev.NodeGone(name, version)) if self.ledger.fleet.node(name) else ()
        # Pods that it had as a vendor's node were not counted.
        self.stale = self.stale or name in self.plain
        self.plain.drop(name)
        node = self._read(raw)
        return self.ledger.apply(ev.NodeSeen(node, version))

    def _is_ours(self, raw: k8s.Node) -> bool:
        return (raw.metadata.labels or {}).get(MANAGED) == "true"

    def _counted(self, raw: k8s.Node) -> list[tuple[str, int]]:
        source = Source(raw, {})
        found = []
        for name in raw.status.allocatable or {}:
            try:
                found.append((name, source.allocatable(name) or 0 if is_device_name(name) else 0))
            except InputError as error:
                self._note(str(error))
        return found

    def _read(self, raw: k8s.Node) -> Node:
        """Return the node with its devices; with the last that are known where the inventory cannot be read."""
        name = raw.metadata.name
        mine = tuple(self._slices.get(name, {}).values())
        try:
            node = inventory.read_node(Source(raw, {}, mine))
            self.device_names[name] = {
                slices.row_of(device, name).uuid: (each.spec.pool.name, device.name)
                for each in mine
                for device in each.spec.devices or ()
            }
        except InputError as error:
            return self._unread(raw, str(error))
        if not mine and INVENTORY not in (raw.metadata.annotations or {}):
            return self._unread(raw, f"node {name}: no inventory is published; see the log of its agent.")
        return node

    def _unread(self, raw: k8s.Node, why: str) -> Node:
        """Return a node whose inventory is unknown: the last devices that are known stay, and take no new grants."""
        self._note(why)
        name = raw.metadata.name
        bare = msgspec.structs.replace(raw, metadata=k8s.ObjectMeta(name=name, labels=raw.metadata.labels))
        try:
            node = inventory.read_node(Source(bare, {}))
        except InputError:
            node = Node(name=name)
        known = self.ledger.fleet.node(name)
        devices = known.devices if known is not None else ()
        ready = node.ready and not devices
        return msgspec.structs.replace(node, devices=devices, ready=ready, unknowns=(Unknown(why),))

    # -- pods ----------------------------------------------------------------------------------------------------

    def pod_seen(self, pod: k8s.Pod) -> Told:
        """Take a pod as it is now."""
        event = self._event(pod)
        told = self.ledger.apply(event)
        self._changed(event.request.key)
        return told

    def pod_gone(self, pod: k8s.Pod) -> Told:
        """Take a pod out."""
        uid = pod.metadata.uid
        self._forget(uid)
        told = self.ledger.apply(ev.PodGone(uid))
        self._changed(uid)
        return told

    def pods_listed(self, pods: Iterable[k8s.Pod], version: int) -> Told:
        """Take all pods there are; the others are gone."""
        seen = tuple(self._event(pod) for pod in pods)
        alive = {event.request.key for event in seen}
        for uid in [uid for uid, row in self.pods.items() if uid not in alive and row.version <= version]:
            self._forget(uid)
        nodes = tuple(self._node_event(node) for node in self.ledger.fleet.nodes())
        self.stale = False
        told = self.ledger.apply(ev.Resync(nodes, seen, version))
        self._changed("")
        return told

    def _node_event(self, node: Node) -> ev.NodeSeen:
        raw = self._nodes.get(node.name)
        version = version_of(raw.metadata) if raw is not None else 0
        return ev.NodeSeen(node, max(version, self._slice_version.get(node.name, 0)))

    def _changed(self, uid: str) -> None:
        for watcher in self.watchers:
            watcher(uid)

    def _event(self, pod: k8s.Pod) -> ev.PodSeen:
        """Return the ledger's event for a pod, and keep its row."""
        request = self.request_of(pod)
        uid = request.key
        if pod.status.phase in ENDED:
            self._forget(uid)
            return ev.PodSeen(request, version_of(pod.metadata), pod.spec.node_name)
        node = pod.spec.node_name
        self._keep(uid, row_of(pod, request) if request.asks_devices else None)
        held = None
        if node:
            held = self._held(pod, request, node)
            if node in self.plain and request.asks_devices:
                self.plain.take(uid, node, counts_of(request) or {})
        return ev.PodSeen(request, version_of(pod.metadata), node, held)

    def _held(self, pod: k8s.Pod, request: PodRequest, node: str) -> Allocation | None:
        nodes = {node: known} if (known := self.ledger.fleet.node(node)) is not None else {}
        try:
            written = holdings.read(pod, nodes, request) if request.asks_devices else None
        except InputError as error:
            self._note(str(error))
            written = None
        if written is not None:
            return written
        if not nodes:
            return None
        ours = self.ledger.fleet.allocation(request.key)
        # What we know of and is written no more is to be written again; else only CPU and memory are counted.
        return None if ours is not None and ours.uses else allocation_of(request, node, (), ())

    def request_of(self, pod: k8s.Pod) -> PodRequest:
        """Return what a pod asks for; a pod that runs although it asks for nonsense holds CPU and memory at least."""
        try:
            return self._requests.of(pod)
        except RequestError as error:
            if not pod.spec.node_name:
                self._note(str(error))
            return holdings.host_request(pod)

    def _keep(self, uid: str, row: PodRow | None) -> None:
        before = self.pods.get(uid)
        if before is not None and before.nominated:
            self.nominated.get(before.nominated, {}).pop(uid, None)
        self.unbound.pop(uid, None)
        if row is None:
            self.pods.pop(uid, None)
            return
        self.pods[uid] = row
        if row.standing is not Standing.BOUND:
            self.unbound[uid] = row
        if row.nominated and row.standing is not Standing.BOUND and not row.leaving:
            self.nominated.setdefault(row.nominated, {})[uid] = row

    def _forget(self, uid: str) -> None:
        self._keep(uid, None)
        self.plain.give_back(uid)

    # -- what else decides ---------------------------------------------------------------------------------------

    def class_seen(self, each: k8s.DeviceClass) -> None:
        """Take a DeviceClass; one that maps a name of ours has Kubernetes itself allocate what asks for it."""
        name, mapped = each.metadata.name, each.spec.extended_resource_name
        self._classes.pop(name, None)
        if mapped and is_device_name(mapped):
            self._classes[name] = mapped
            self._note(
                f"device class {name}: maps {mapped}, so pods that ask for it are refused here; "
                "take extendedResourceName out of the class to have them placed"
            )
        self.mapped = {resource: name for name, resource in self._classes.items()}

    def class_gone(self, name: str) -> None:
        """Take a DeviceClass out."""
        self._classes.pop(name, None)
        self.mapped = {resource: name for name, resource in self._classes.items()}

    def resolve(self, request: PodRequest) -> PodRequest:
        """Return the request with its vendors decided as far as anybody says.

        Raises:
            RequestError: the pod excludes every vendor that the rule about its image allows.
        """
        return vendor_rules.resolve(request, self.policy, self.summary.vendors)

    def barred(self, request: PodRequest) -> str:
        """Return why the pod can go nowhere until somebody decides something, or an empty string."""
        for container in request.containers:
            for ask in container.asks:
                taken = next((word for word in ask.words if word in self.mapped), "")
                if taken:
                    return f"{taken} is mapped by device class {self.mapped[taken]}, not placed by Terrazzo"
        if vendor_rules.undecided(request, self.summary.vendors):
            vendors = " and ".join(self.summary.vendors)
            return f"nobody says whether its image runs on {vendors}; {vendor_rules.REMEDY}"
        return ""

    def waiting(self) -> list[PodRow]:
        """Return the pods that wait, the most urgent first, then the oldest."""
        found = [row for row in self.unbound.values() if row.waits]
        return sorted(found, key=lambda row: (-row.request.priority, row.request.created_s, row.uid))
