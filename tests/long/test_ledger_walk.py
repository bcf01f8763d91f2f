"""A million events on small fleets of every vendor: placed, lost, finished, sick, resynced; the books hold."""

from __future__ import annotations

import random

import msgspec
import pytest

from terrazzo.model.allocation import Allocation
from terrazzo.model.device import Health
from terrazzo.model.request import Ask, PodRequest
from terrazzo.placement import events as ev
from terrazzo.placement import instructions as ins
from terrazzo.placement.engine import Engine
from terrazzo.placement.invariants import check
from terrazzo.placement.ledger import Ledger
from terrazzo.testing.builders import CUT, SHARED, Kind, make_node, make_request

STEPS = 1_000_000
EVERY = 2000


@pytest.mark.long
@pytest.mark.parametrize("kind", [*SHARED, CUT[0]], ids=str)
def test_the_books_hold_over_a_long_walk(kind: Kind) -> None:
    walk = _Walk(kind, random.Random(7))  # noqa: S311 - a walk that can be walked again
    for step in range(STEPS // 6):
        walk.step()
        if step % EVERY == 0:
            check(walk.ledger)
    walk.resync()
    assert {a.pod for a in walk.ledger.fleet.allocations()} == set(walk.written)


class _Walk:
    def __init__(self, kind: Kind, rng: random.Random) -> None:
        self.rng = rng
        self.nodes = {f"node-{i}": make_node(f"node-{i}", kind, 4) for i in range(6)}
        self.version = self.count = 0
        self.written: dict[str, Allocation] = {}
        self.requests: dict[str, PodRequest] = {}
        self.ledger = Ledger()
        self.engine = Engine(self.ledger.fleet)
        for node in self.nodes.values():
            self.ledger.apply(ev.NodeSeen(node, self.next()))

    def next(self) -> int:
        self.version += 1
        return self.version

    def step(self) -> None:
        turn = self.rng.random()
        if turn < 0.5:
            self.submit()
        elif turn < 0.96 and self.written:
            self.end(self.rng.choice(list(self.written)))
        elif turn < 0.995:
            self.sicken()
        else:
            self.resync()

    def submit(self) -> None:
        self.count += 1
        ask = self.rng.choice(
            (
                Ask(memory_mib=self.rng.randrange(512, 20_000), cores_percent=self.rng.choice((0, 5, 20, 50))),
                Ask(count=self.rng.choice((1, 2)), whole=True),
                Ask(count=2, memory_percent=self.rng.choice((10, 40)), cores_percent=10),
            )
        )
        request = make_request(f"pod-{self.count}", ask, cpu_milli=self.rng.choice((0, 1000)))
        found = self.engine.decide(request)
        if found is None:
            return
        assert self.ledger.apply(ev.Committed(found)) == (ins.Write(found),)
        fate = self.rng.random()
        if fate < 0.9:
            self.written[request.key], self.requests[request.key] = found, request
            self.ledger.apply(ev.Written(found))
        elif fate < 0.95:
            self.ledger.apply(ev.WriteFailed(found))
        else:
            self.ledger.apply(ev.WriteUnknown(found))
            self.ledger.apply(ev.ReadBack(request, self.next()))

    def end(self, pod: str) -> None:
        del self.written[pod]
        request = self.requests.pop(pod)
        if self.rng.random() < 0.05:
            return  # nobody noticed
        if self.rng.random() < 0.5:
            self.ledger.apply(ev.PodGone(pod))
        else:
            ended = msgspec.structs.replace(request, phase="Succeeded")
            self.ledger.apply(ev.PodSeen(ended, self.next()))

    def sicken(self) -> None:
        node = self.rng.choice(list(self.nodes.values()))
        device = self.rng.choice(node.devices)
        health = self.rng.choice((Health.HEALTHY, Health.HEALTHY, Health.DEGRADED))
        self.ledger.apply(ev.DeviceChanged(node.name, device.uuid, self.next(), health, "walk"))

    def resync(self) -> None:
        nodes = tuple(ev.NodeSeen(node, self.next()) for node in self.nodes.values())
        pods = tuple(ev.PodSeen(self.requests[pod], self.next(), held.node, held) for pod, held in self.written.items())
        self.ledger.apply(ev.Resync(nodes, pods))
