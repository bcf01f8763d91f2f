"""The books: events in, instructions out.

The ledger holds no socket, task or clock. The fleet is its only store of amounts; what is added here is where each
grant stands (decided, written, on its way out) and which object versions were seen. Nothing but the API server holds
truth: a ledger made from ``Resync`` alone is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum

import numpy as np
from msgspec import Struct, structs

from terrazzo.model.allocation import Allocation
from terrazzo.model.device import Device, Health
from terrazzo.model.errors import LedgerError
from terrazzo.model.node import Node
from terrazzo.model.request import PodRequest
from terrazzo.placement import events as e
from terrazzo.placement import fit, noderules
from terrazzo.placement import instructions as i
from terrazzo.placement.fleet import Fleet
from terrazzo.placement.waiting import WaitingRoom
from terrazzo.placement.written import known_as, same, sound


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
        self._unprepared_early: set[str] = set()
        self._floor = 0
        self._agents: set[str] = set()
        self._observed: dict[tuple[str, str], Seen] = {}
        self._waiting = WaitingRoom()
        self._handlers: dict[type, Callable[..., tuple[i.Instruction, ...]]] = {
            e.NodeSeen: self._node_seen,
            e.NodeGone: self._node_gone,
            e.DeviceChanged: self._device_changed,
            e.PodSeen: self._pod_seen,
            e.ReadBack: self._read_back,
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
        floor = self._floor if kind == "pod" else -1
        if version <= max(floor, self._versions.get((kind, name), -1)):
            return False
        self._versions[kind, name] = version
        return True

    def _node_seen(self, event: e.NodeSeen) -> tuple[i.Instruction, ...]:
        name = event.node.name
        if not self._newer("node", name, event.version):
            return ()
        (self._agents.add if event.agent else self._agents.discard)(name)
        node = self._as_observed(event.node)
        if node == self.fleet.node(name):
            return ()
        before = {view.device.uuid: view.device.health for view in self.fleet.devices(name)}
        self.fleet.put_node(node)
        return (*self._tell_missing(name, before), *self._settle(name), *self._wake(name))

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
        return (*self._tell_missing(event.name, before), *self._settle(event.name))

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
        return (*told, *self._settle(event.node), *self._wake(event.node))

    # -- pods ----------------------------------------------------------------------------------------------------

    def _pod_gone(self, event: e.PodGone) -> tuple[i.Instruction, ...]:
        self._gone.add(event.pod)
        self._waiting.leave(event.pod)
        return self._leave(event.pod)

    def _committed(self, event: e.Committed) -> tuple[i.Instruction, ...]:
        allocation = event.allocation
        if allocation.pod in self._gone:
            return (i.Refuse(allocation.pod, "the pod is gone"),)
        if self.fleet.node(allocation.node) is None:
            return (i.Refuse(allocation.pod, f"node {allocation.node} is gone"),)
        if self.fleet.allocation(allocation.pod) == allocation and self.stage[allocation.pod] is Stage.DECIDED:
            return (i.Write(allocation),)
        try:
            self.fleet.grant(allocation)
        except LedgerError as error:
            return (i.Refuse(allocation.pod, str(error)),)
        self.stage[allocation.pod] = Stage.DECIDED
        self._waiting.leave(allocation.pod)
        return (i.Write(allocation),)

    def _open(self, allocation: Allocation) -> bool:
        """Return whether this very attempt is still open; answers to earlier ones come too late."""
        return self.stage.get(allocation.pod) in _OPEN and self.fleet.allocation(allocation.pod) == allocation

    def _written(self, event: e.Written) -> tuple[i.Instruction, ...]:
        if self._open(event.allocation):
            self.stage[event.allocation.pod] = Stage.BOUND
        return ()

    def _write_unknown(self, event: e.WriteUnknown) -> tuple[i.Instruction, ...]:
        if self._open(event.allocation):
            self.stage[event.allocation.pod] = Stage.UNKNOWN
        return ()

    def _write_failed(self, event: e.WriteFailed) -> tuple[i.Instruction, ...]:
        return self._free(event.allocation.pod) if self._open(event.allocation) else ()

    def _unprepared(self, event: e.Unprepared) -> tuple[i.Instruction, ...]:
        stage = self.stage.get(event.pod)
        if stage is Stage.LEAVING:
            return self._free(event.pod)
        if stage is not None:
            # Kubelet may be done with a pod before its deletion is seen.
            self._unprepared_early.add(event.pod)
        return ()

    def _waits(self, event: e.Waiting) -> tuple[i.Instruction, ...]:
        pod = event.request.key
        if pod in self._gone or pod in self.stage:
            return ()
        self._waiting.enter(event.request)
        if event.since is None:
            return ()
        gained = np.flatnonzero(self.fleet.gained_at[: len(self.fleet)] > event.since)
        missed = any(self._might_use(self.fleet.name(int(column)), event.request) for column in gained)
        return (i.Wake((pod,)),) if missed else ()

    def _pod_seen(self, event: e.PodSeen) -> tuple[i.Instruction, ...]:
        pod = event.request.key
        return self._take(event) if pod not in self._gone and self._newer("pod", pod, event.version) else ()

    def _take(self, event: e.PodSeen | e.ReadBack) -> tuple[i.Instruction, ...]:
        if event.request.phase in e.ENDED:
            # It never runs again: what comes late, a decision or a wish to wait, is refused as if it were deleted.
            return self._pod_gone(e.PodGone(event.request.key))
        if event.node or event.held is not None:
            return self._bound(event)
        # Seen unbound, maybe as of before a write that nobody answered: only reading it back tells.
        return ()

    def _read_back(self, event: e.ReadBack) -> tuple[i.Instruction, ...]:
        pod = event.request.key
        # What was read as of before the last list, of a pod that the list did not have, was read of one that is gone.
        if not self._read(event, self._floor if event.version <= self._floor else -1):
            return ()
        told = self._take(event)
        unbound = not event.node and event.held is None
        freed = self._free(pod) if unbound and self.stage.get(pod) is Stage.UNKNOWN else ()
        return (*told, *freed)

    def _read(self, event: e.PodSeen | e.ReadBack, floor: int = -1) -> bool:
        """Return whether a pod that was read is news; unlike what a watch tells, its version may be the last seen."""
        pod = event.request.key
        if pod in self._gone or event.version < self._versions.get(("pod", pod), floor + 1):
            return False
        self._versions["pod", pod] = event.version
        return True

    def _bound(self, event: e.PodSeen | e.ReadBack) -> tuple[i.Instruction, ...]:
        pod = event.request.key
        self._waiting.leave(pod)
        ours = self.fleet.allocation(pod)
        held = None if event.held is None else sound(event.held, pod)
        if held is None:
            if ours is None or ours.node != event.node:
                return self._free(pod) if ours is not None else ()
            lost = self.stage[pod] is not Stage.DECIDED and bool(ours.uses)
            self.stage[pod] = Stage.BOUND
            self.fleet.relabel(pod, *known_as(event.request))
            return (i.Rebuild(self.fleet.allocation(pod) or ours),) if lost else ()
        if ours is not None and same(ours, held):
            self.stage[pod] = Stage.BOUND
            self.fleet.relabel(pod, *known_as(event.request))
            return ()
        freed = self._free(pod) if ours is not None else ()
        adopted = self._adopt(held)
        self.fleet.relabel(pod, *known_as(event.request))
        return (*freed, *adopted)

    def _adopt(self, held: Allocation) -> tuple[i.Instruction, ...]:
        self.fleet.grant(held, adopt=True)
        self.stage[held.pod] = Stage.BOUND
        return self._settle(held.node, [use.uuid for use in held.uses])

    def _settle(self, node: str, uuids: Iterable[str] | None = None) -> tuple[i.Instruction, ...]:
        """Find devices of a node that are exceeded and say whom to take back: who is not written yet, else the last.

        Args:
            node: its name.
            uuids: devices to look at; None = all it has, and all that were exceeded before.
        """
        if uuids is None:
            known = self.fleet.node(node)
            uuids = {device.uuid for device in known.devices} if known is not None else set()
            uuids |= {uuid for name, uuid in self.over if name == node}
        found: list[i.Instruction] = []
        for key in sorted((node, uuid) for uuid in uuids):
            if not self.fleet.exceeded(*key):
                self.over.pop(key, None)
                continue
            holders = list(self.fleet.uses(*key))
            unwritten = [pod for pod in holders if self.stage.get(pod) in _OPEN]
            loser = unwritten[0] if unwritten else holders[-1]
            keeper = next((pod for pod in holders if pod != loser), loser)
            if self.over.get(key) != (loser, keeper):
                self.over[key] = (loser, keeper)
                if keeper != loser:
                    found.append(i.Retract(loser, keeper, *key))
        return tuple(found)

    def _leave(self, pod: str) -> tuple[i.Instruction, ...]:
        held = self.fleet.allocation(pod)
        if held is None:
            return ()
        reached = self.stage[pod] is not Stage.DECIDED and pod not in self._unprepared_early
        if reached and held.uses and held.node in self._agents:
            self.stage[pod] = Stage.LEAVING
            return ()
        return self._free(pod)

    def _free(self, pod: str) -> tuple[i.Instruction, ...]:
        held = self._forget(pod)
        if held is None:
            return ()
        return (*self._settle(held.node, [use.uuid for use in held.uses]), *self._wake(held.node))

    def _forget(self, pod: str) -> Allocation | None:
        self._unprepared_early.discard(pod)
        self.stage.pop(pod, None)
        return self.fleet.release(pod)

    def _wake(self, node: str) -> tuple[i.Instruction, ...]:
        known = self.fleet.node(node)
        if known is None:
            return ()
        pods = self._waiting.might_use(lambda request: self._might_use(node, request))
        return (i.Wake(pods),) if pods else ()

    def _might_use(self, node: str, request: PodRequest) -> bool:
        """Return whether a waiting pod could go to this node now."""
        known, column = self.fleet.node(node), self.fleet.column(node)
        if known is None or column is None or noderules.allows(request.rules, known) is not None:
            return False
        host = (int(line[column]) for line in (self.fleet.cpu_milli, self.fleet.memory_mib, self.fleet.pods))
        if noderules.host_shortage(request, known, *host) is not None:
            return False
        return fit.place(request, node, self.fleet.devices(node), _any_order) is not None

    # -- everything at once --------------------------------------------------------------------------------------

    def _resync(self, event: e.Resync) -> tuple[i.Instruction, ...]:
        """Take the API server's lists as they are; what is still being written is kept, and what was seen later."""

        def later(kind: str, name: str) -> bool:
            return 0 < event.version < self._versions.get((kind, name), -1)

        done: list[i.Instruction] = []
        for each in event.nodes:
            done += self._node_seen(each)
        listed = {seen.node.name for seen in event.nodes}
        for name in [
            node.name for node in self.fleet.nodes() if node.name not in listed and not later("node", node.name)
        ]:
            done += self._node_gone(e.NodeGone(name, max(self._versions.get(("node", name), 0) + 1, event.version)))
            if not event.version:
                del self._versions["node", name]
        alive = {seen.request.key for seen in event.pods}
        for pod in [pod for pod in self.stage if pod not in alive and not later("pod", pod)]:
            if self.stage[pod] is not Stage.DECIDED:
                done += self._leave(pod)
        stale = self._floor if event.version < self._floor else -1
        for seen in event.pods:
            done += self._take(seen) if self._read(seen, stale) else ()
        for pod in [pod for pod in self._waiting.pods() - alive if not later("pod", pod)]:
            self._waiting.leave(pod)
        if event.version:
            # What is told from now on of a pod as of before this list is stale, so tombstones may go.
            self._floor = max(self._floor, event.version)
            self._gone = {pod for pod in self._gone if pod in alive or later("pod", pod)}
            kept = alive | set(self.stage)
            self._versions = {
                key: v for key, v in self._versions.items() if key[0] != "pod" or key[1] in kept or v > event.version
            }
        return tuple(done)


def _any_order(_: object) -> tuple[int, ...]:
    return ()
