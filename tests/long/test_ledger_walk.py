"""A million events on small fleets of every vendor: placed, lost, doubled, late, sick, resynced; the books hold."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable

import msgspec
import pytest

from terrazzo.model.allocation import Allocation
from terrazzo.model.device import Health
from terrazzo.model.node import Node
from terrazzo.model.request import Ask, PodRequest
from terrazzo.placement import events as ev
from terrazzo.placement import instructions as ins
from terrazzo.placement.engine import Engine
from terrazzo.placement.invariants import check
from terrazzo.placement.ledger import Ledger, Stage
from terrazzo.testing.builders import CUT, SHARED, Kind, make_node, make_request

EVENTS = 1_000_000
EVERY = 1000
FLEETS = {str(kind): (kind,) * 6 for kind in (*SHARED, CUT[0])} | {"mixed": (*SHARED, CUT[0])}
ASKS = (Ask(count=1, whole=True), Ask(count=2, whole=True), Ask(count=2, memory_percent=40, cores_percent=10))


@pytest.mark.long
@pytest.mark.parametrize("fleet", FLEETS)
def test_the_books_hold_over_a_long_walk(fleet: str, capsys: pytest.CaptureFixture[str]) -> None:
    walk = _Walk(FLEETS[fleet], random.Random(7))  # noqa: S311 - a walk that can be walked again
    began, checked = time.perf_counter(), 0
    while walk.events < EVENTS // len(FLEETS):
        walk.step()
        if walk.events >= checked + EVERY:
            checked = walk.events
            check(walk.ledger)
    walk.resync(walk.lists())
    check(walk.ledger)
    assert walk.held() == walk.written
    seconds = time.perf_counter() - began
    with capsys.disabled():
        sys.stdout.write(f" {fleet}: {walk.events} events, {walk.events / seconds:,.0f}/s")


class _Walk:
    """Chance, and what the API server has meanwhile."""

    def __init__(self, kinds: tuple[Kind, ...], rng: random.Random) -> None:
        self.rng = rng
        self.made = [make_node(f"node-{i}", kind, 4) for i, kind in enumerate(kinds)]
        self.agents = {node.name: index % 2 == 0 for index, node in enumerate(self.made)}
        self.nodes: dict[str, tuple[Node, int]] = {}
        self.version = self.count = self.events = 0
        self.written: dict[str, Allocation] = {}
        self.requests: dict[str, PodRequest] = {}
        self.at: dict[str, int] = {}
        self.late: list[ev.Event] = []
        self.asleep: dict[str, PodRequest] = {}
        self.ledger = Ledger()
        self.engine = Engine(self.ledger.fleet)
        for node in self.made:
            self.put(node)
            self.tell(self.node_seen(node.name))

    def next(self) -> int:
        self.version += 1
        return self.version

    def tell(self, event: ev.Event) -> tuple[ins.Instruction, ...]:
        self.events += 1
        told = self.ledger.apply(event)
        for each in told:
            if isinstance(each, ins.Wake):
                for pod in each.pods:
                    self.asleep.pop(pod, None)
        if isinstance(event, ev.NodeSeen | ev.NodeGone | ev.PodSeen | ev.DeviceChanged):
            self.late.append(event)
            del self.late[:-200]
        fleet = self.ledger.fleet
        assert len(self.ledger.stage) == len(tuple(fleet.allocations()))
        assert all(fleet.exceeded(*key) for key in self.ledger.over)
        return told

    def put(self, node: Node) -> None:
        self.nodes[node.name] = (node, self.next())

    def node_seen(self, name: str) -> ev.NodeSeen:
        return ev.NodeSeen(*self.nodes[name], self.agents[name])

    def pod_seen(self, pod: str) -> ev.PodSeen:
        held = self.written[pod]
        return ev.PodSeen(self.requests[pod], self.at[pod], held.node, held)

    def write(self, request: PodRequest, held: Allocation) -> None:
        self.written[request.key], self.requests[request.key] = held, request
        self.at[request.key] = self.next()
        self.asleep.pop(request.key, None)

    def lists(self) -> ev.Resync:
        waiting = (ev.PodSeen(request, self.at[pod]) for pod, request in self.asleep.items())
        nodes = tuple(self.node_seen(name) for name in self.nodes)
        return ev.Resync(nodes, (*(self.pod_seen(pod) for pod in self.written), *waiting), self.version)

    def held(self) -> dict[str, Allocation]:
        stage = self.ledger.stage
        return {a.pod: a for a in self.ledger.fleet.allocations() if stage[a.pod] is not Stage.LEAVING}

    def step(self) -> None:
        turns: dict[Callable[[], object], int] = {
            self.submit: 450,
            self.end: 410,
            self.unprepare: 30,
            self.again: 40,
            self.sicken: 30,
            self.node: 10,
            self.wake_some: 10,
            self.somebody_else: 15,
            self.list_all: 3,
            self.lists_come_late: 2,
        }
        self.rng.choices(tuple(turns), tuple(turns.values()))[0]()

    def list_all(self) -> None:
        self.resync(self.lists())

    def lists_come_late(self) -> None:
        stale = self.lists()
        self.submit()
        self.tell(stale)
        self.resync(self.lists())

    def request(self) -> PodRequest:
        self.count += 1
        part = Ask(memory_mib=self.rng.randrange(512, 20_000), cores_percent=self.rng.choice((0, 5, 20, 50)))
        return make_request(f"pod-{self.count}", self.rng.choice((part, *ASKS)), cpu_milli=self.rng.choice((0, 1000)))

    def submit(self) -> None:
        self.decide(self.request())

    def decide(self, request: PodRequest) -> None:
        since = self.ledger.fleet.tick
        found = self.engine.decide(request)
        if found is None:
            if len(self.asleep) < 20:
                self.at[request.key] = self.next()
                self.tell(ev.PodSeen(request, self.at[request.key]))
                self.tell(ev.Waiting(request, since))
                self.asleep[request.key] = request
            return
        assert self.tell(ev.Committed(found)) == (ins.Write(found),)
        fate = self.rng.random()
        if fate < 0.9:
            self.write(request, found)
            self.tell(ev.Written(found))
            if fate < 0.6:
                self.tell(self.pod_seen(request.key))
        elif fate < 0.95:
            self.tell(ev.WriteFailed(found))
        else:
            self.tell(ev.WriteUnknown(found))
            if fate < 0.98:
                self.write(request, found)
                self.tell(ev.ReadBack(request, self.at[request.key], found.node, found))
            else:
                self.tell(ev.ReadBack(request, self.next()))
                assert self.ledger.fleet.allocation(request.key) is None

    def somebody_else(self) -> None:
        request = self.request()
        found = Engine(Ledger(node for node, _ in self.nodes.values()).fleet).decide(request)
        if found is not None:
            self.write(request, found)
            self.tell(self.pod_seen(request.key))
            assert self.ledger.fleet.allocation(request.key) == found

    def end(self) -> None:
        if not self.written:
            return
        pod = self.rng.choice(list(self.written))
        seen = self.pod_seen(pod)
        del self.written[pod], self.at[pod]
        request = self.requests.pop(pod)
        version = self.next()
        turn = self.rng.random()
        if turn < 0.5:
            self.tell(ev.PodGone(pod))
        elif turn < 0.95:
            ended = msgspec.structs.replace(request, phase="Succeeded")
            self.tell(msgspec.structs.replace(seen, request=ended, version=version))
        # Else nobody noticed.

    def unprepare(self) -> None:
        for pod in [pod for pod, stage in self.ledger.stage.items() if stage is Stage.LEAVING]:
            self.tell(ev.Unprepared(pod))
            assert self.ledger.fleet.allocation(pod) is None

    def again(self) -> None:
        event = self.rng.choice(self.late)
        assert self.tell(event) == ()

    def sicken(self) -> None:
        node = self.rng.choice(self.made)
        device = self.rng.choice(node.devices)
        health = self.rng.choice((Health.HEALTHY, Health.HEALTHY, Health.DEGRADED))
        foreign = self.rng.choice((0, 0, 2048))
        self.tell(ev.DeviceChanged(node.name, device.uuid, self.next(), health, "walk", foreign))

    def node(self) -> None:
        node = self.rng.choice(self.made)
        if node.name not in self.nodes or self.rng.random() < 0.6:
            there = node.devices[: self.rng.choice((2, 4, 4, 4))]
            self.put(msgspec.structs.replace(node, devices=there))
            self.tell(self.node_seen(node.name))
            return
        del self.nodes[node.name]
        version = self.next()
        if self.rng.random() < 0.5:
            self.tell(ev.NodeGone(node.name, version))

    def wake_some(self) -> None:
        """Who still sleeps fits nowhere; one of them gives up, another is tried again."""
        assert not any(self.engine.fits(request) for request in self.asleep.values())
        for gives_up in (True, False):
            if self.asleep:
                pod = self.rng.choice(list(self.asleep))
                del self.asleep[pod], self.at[pod]
                if gives_up:
                    self.tell(ev.PodGone(pod))

    def resync(self, lists: ev.Resync) -> None:
        self.tell(lists)
        assert self.held() == self.written
