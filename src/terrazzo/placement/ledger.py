"""The books: events in, instructions out.

The ledger holds no socket, task or clock. The fleet is its only store of amounts; what is added here is where each
grant stands (decided, written, on its way out) and which object versions were seen. Nothing but the API server holds
truth: a ledger made from ``Resync`` alone is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum

from msgspec import Struct, structs

from terrazzo.model.allocation import Allocation
from terrazzo.model.device import Device, Health
from terrazzo.model.errors import LedgerError
from terrazzo.model.node import Node
from terrazzo.placement import events as e
from terrazzo.placement import fit
from terrazzo.placement import instructions as i
from terrazzo.placement.fleet import Fleet
from terrazzo.placement.waiting import WaitingRoom


class Stage(StrEnum):
    """Where a grant stands."""

    DECIDED = "decided"
    UNKNOWN = "unknown"
    BOUND = "bound"
    LEAVING = "leaving"


_OPEN = frozenset({Stage.DECIDED, Stage.UNKNOWN})
"""Stages of a grant that the API server may not have yet."""


class Seen(Struct, frozen=True):
    """The last that was seen of a device by its agent."""

    version: int
    health: Health
    reason: str
    foreign_mib: int


class Ledger:
    """The books of one cluster.

    Attributes:
        fleet: nodes, devices, grants.
        stage: per pod that holds something, where its grant stands.
        over: devices (node, uuid) that adopted grants exceed, with the pods that were told.
    """

    def __init__(self, nodes: Iterable[Node] = ()) -> None:
        self.fleet = Fleet(nodes)
        self.stage: dict[str, Stage] = {}
        self.over: dict[tuple[str, str], tuple[str, str]] = {}
        self._versions: dict[tuple[str, str], int] = {}
        self._gone: set[str] = set()
        self._agents: set[str] = set()
        self._observed: dict[tuple[str, str], Seen] = {}
        self._waiting = WaitingRoom()
        self._handlers: dict[type, Callable[..., tuple[i.Instruction, ...]]] = {
            e.NodeSeen: self._node_seen,
            e.NodeGone: self._node_gone,
            e.DeviceChanged: self._device_changed,
            e.PodSeen: self._pod_seen,
            e.PodGone: self._pod_gone,
            e.Committed: self._committed,
            e.Written: self._written,
            e.WriteFailed: self._write_failed,
            e.WriteUnknown: self._write_unknown,
            e.Unprepared: self._unprepared,
            e.Waiting: self._waits,
            e.Resync: self._resync,
        }

    def apply(self, event: e.Event) -> tuple[i.Instruction, ...]:
        """Apply one event and return what must be done about it."""
        handler: Callable[[e.Event], tuple[i.Instruction, ...]] = self._handlers[type(event)]
        return handler(event)

    # -- nodes and devices ---------------------------------------------------------------------------------------

    def _newer(self, kind: str, name: str, version: int) -> bool:
        if version <= self._versions.get((kind, name), -1):
            return False
        self._versions[kind, name] = version
        return True

    def _node_seen(self, event: e.NodeSeen) -> tuple[i.Instruction, ...]:
        name = event.node.name
        if not self._newer("node", name, event.version):
            return ()
        (self._agents.add if event.agent else self._agents.discard)(name)
        before = {view.device.uuid: view.device.health for view in self.fleet.devices(name)}
        self.fleet.put_node(self._as_observed(event.node))
        told = self._tell_missing(name, before)
        return (*told, *self._wake(name))

    def _as_observed(self, node: Node) -> Node:
        """Return the node with what agents last saw of its devices, where that is known."""
        return structs.replace(node, devices=tuple(self._observed_device(device) for device in node.devices))

    def _observed_device(self, device: Device) -> Device:
        seen = self._observed.get((device.node, device.uuid))
        if seen is None:
            return device
        return structs.replace(device, health=seen.health, health_reason=seen.reason, foreign_mib=seen.foreign_mib)

    def _tell_missing(self, node: str, before: dict[str, Health]) -> list[i.Instruction]:
        now = {view.device.uuid: view.device for view in self.fleet.devices(node)}
        told: list[i.Instruction] = []
        for uuid, health in before.items():
            holders = tuple(self.fleet.uses(node, uuid))
            device = now.get(uuid)
            if not holders or health is not Health.HEALTHY:
                continue
            if device is None:
                told.append(i.TellHolders(node, uuid, "the device vanished", holders))
            elif device.health is not Health.HEALTHY:
                told.append(i.TellHolders(node, uuid, device.health_reason or device.health.value, holders))
        return told

    def _node_gone(self, event: e.NodeGone) -> tuple[i.Instruction, ...]:
        if not self._newer("node", event.name, event.version):
            return ()
        before = {view.device.uuid: view.device.health for view in self.fleet.devices(event.name)}
        self.fleet.drop_node(event.name)
        self._agents.discard(event.name)
        leaving = [a.pod for a in self.fleet.allocations_on(event.name) if self.stage.get(a.pod) is Stage.LEAVING]
        for pod in leaving:
            # Without a node there is nobody left to say that nothing is left.
            self._forget(pod)
        return tuple(self._tell_missing(event.name, before))

    def _device_changed(self, event: e.DeviceChanged) -> tuple[i.Instruction, ...]:
        if not self._newer(f"device {event.node}", event.uuid, event.version):
            return ()
        key = (event.node, event.uuid)
        self._observed[key] = Seen(event.version, event.health, event.reason, event.foreign_mib)
        node = self.fleet.node(event.node)
        if node is None or all(device.uuid != event.uuid for device in node.devices):
            return ()
        before = {view.device.uuid: view.device.health for view in self.fleet.devices(event.node)}
        foreign = next(device.foreign_mib for device in node.devices if device.uuid == event.uuid)
        self.fleet.put_node(self._as_observed(node))
        told = self._tell_missing(event.node, before)
        if event.foreign_mib > foreign:
            told.append(i.TellForeign(event.node, event.uuid, event.foreign_mib))
        return (*told, *self._wake(event.node))

    # -- pods ----------------------------------------------------------------------------------------------------

    def _pod_gone(self, event: e.PodGone) -> tuple[i.Instruction, ...]:
        self._gone.add(event.pod)
        self._waiting.leave(event.pod)
        return self._leave(event.pod)

    def _committed(self, event: e.Committed) -> tuple[i.Instruction, ...]:
        allocation = event.allocation
        if allocation.pod in self._gone:
            return (i.Refuse(allocation.pod, "the pod is gone"),)
        try:
            self.fleet.grant(allocation)
        except LedgerError as error:
            return (i.Refuse(allocation.pod, str(error)),)
        self.stage[allocation.pod] = Stage.DECIDED
        self._waiting.leave(allocation.pod)
        return (i.Write(allocation),)

    def _written(self, event: e.Written) -> tuple[i.Instruction, ...]:
        if self.stage.get(event.pod) in _OPEN:
            self.stage[event.pod] = Stage.BOUND
        return ()

    def _write_unknown(self, event: e.WriteUnknown) -> tuple[i.Instruction, ...]:
        if self.stage.get(event.pod) is Stage.DECIDED:
            self.stage[event.pod] = Stage.UNKNOWN
        return ()

    def _write_failed(self, event: e.WriteFailed) -> tuple[i.Instruction, ...]:
        return self._free(event.pod) if self.stage.get(event.pod) in _OPEN else ()

    def _unprepared(self, event: e.Unprepared) -> tuple[i.Instruction, ...]:
        return self._free(event.pod) if self.stage.get(event.pod) is Stage.LEAVING else ()

    def _waits(self, event: e.Waiting) -> tuple[i.Instruction, ...]:
        pod = event.request.key
        if pod not in self._gone and pod not in self.stage:
            self._waiting.enter(event.request)
        return ()

    def _pod_seen(self, event: e.PodSeen) -> tuple[i.Instruction, ...]:
        pod = event.request.key
        if pod in self._gone or not self._newer("pod", pod, event.version):
            return ()
        if event.request.phase in e.ENDED:
            self._waiting.leave(pod)
            return self._leave(pod)
        if event.node or event.held is not None:
            return self._bound(event)
        # Seen unbound: a write that nobody answered did not happen; one on its way may still.
        return self._free(pod) if self.stage.get(pod) is Stage.UNKNOWN else ()

    def _bound(self, event: e.PodSeen) -> tuple[i.Instruction, ...]:
        pod = event.request.key
        self._waiting.leave(pod)
        ours = self.fleet.allocation(pod)
        if event.held is None:
            if ours is None or ours.node != event.node:
                return self._free(pod) if ours is not None else ()
            lost = self.stage[pod] is Stage.BOUND and bool(ours.uses)
            self.stage[pod] = Stage.BOUND
            return (i.Rebuild(ours),) if lost else ()
        if ours is not None and _same(ours, event.held):
            if self.stage[pod] is not Stage.LEAVING:
                self.stage[pod] = Stage.BOUND
            return ()
        freed = self._free(pod) if ours is not None else ()
        return (*freed, *self._adopt(event.held))

    def _adopt(self, held: Allocation) -> tuple[i.Instruction, ...]:
        self.fleet.grant(held, adopt=True)
        self.stage[held.pod] = Stage.BOUND
        return tuple(self._conflicts(held))

    def _conflicts(self, held: Allocation) -> list[i.Instruction]:
        """Return who must be taken back because of an adopted grant: whoever is not written yet, else the newcomer."""
        found: list[i.Instruction] = []
        for use in held.uses:
            key = (held.node, use.uuid)
            if not self.fleet.exceeded(*key):
                continue
            others = [pod for pod in self.fleet.uses(*key) if pod != held.pod]
            if not others:
                self.over[key] = (held.pod, held.pod)
                continue
            unwritten = [pod for pod in others if self.stage[pod] in _OPEN]
            loser, keeper = (unwritten[0], held.pod) if unwritten else (held.pod, others[0])
            self.over[key] = (loser, keeper)
            found.append(i.Retract(loser, keeper, *key))
        return found

    def _leave(self, pod: str) -> tuple[i.Instruction, ...]:
        held = self.fleet.allocation(pod)
        if held is None:
            return ()
        written = self.stage[pod] in {Stage.BOUND, Stage.LEAVING}
        if written and held.uses and held.node in self._agents:
            self.stage[pod] = Stage.LEAVING
            return ()
        return self._free(pod)

    def _free(self, pod: str) -> tuple[i.Instruction, ...]:
        held = self._forget(pod)
        return self._wake(held.node) if held is not None else ()

    def _forget(self, pod: str) -> Allocation | None:
        held = self.fleet.release(pod)
        self.stage.pop(pod, None)
        if held is not None:
            for use in held.uses:
                key = (held.node, use.uuid)
                if key in self.over and not self.fleet.exceeded(*key):
                    del self.over[key]
        return held

    def _wake(self, node: str) -> tuple[i.Instruction, ...]:
        known = self.fleet.node(node)
        if known is None:
            return ()
        views = self.fleet.devices(node)
        pods = self._waiting.might_use(known, lambda request: fit.place(request, node, views, _any_order) is not None)
        return (i.Wake(pods),) if pods else ()

    # -- everything at once --------------------------------------------------------------------------------------

    def _resync(self, event: e.Resync) -> tuple[i.Instruction, ...]:
        """Take the API server's lists as they are; what is still being written is kept."""
        done: list[i.Instruction] = []
        listed = {seen.node.name for seen in event.nodes}
        for each in event.nodes:
            done += self._node_seen(each)
        for node in [node.name for node in self.fleet.nodes() if node.name not in listed]:
            done += self._node_gone(e.NodeGone(node, self._versions.get(("node", node), 0) + 1))
            del self._versions["node", node]
        alive = {seen.request.key for seen in event.pods}
        for pod in [pod for pod, stage in self.stage.items() if pod not in alive]:
            if self.stage[pod] is not Stage.DECIDED:
                done += self._leave(pod)
        for seen in event.pods:
            done += self._pod_seen(seen)
        for pod in self._waiting.pods() - alive:
            self._waiting.leave(pod)
        self._gone &= alive
        self._versions = {key: v for key, v in self._versions.items() if key[0] != "pod" or key[1] in alive}
        return tuple(done)


def _same(left: Allocation, right: Allocation) -> bool:
    return (left.node, left.containers, left.uses) == (right.node, right.containers, right.uses)


def _any_order(_: object) -> tuple[int, ...]:
    return ()
