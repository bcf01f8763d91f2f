"""The ledger beside a model of the API server: any events, twice, late or lost, and the books stay right."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from terrazzo.model.allocation import Allocation
from terrazzo.model.device import Health
from terrazzo.model.request import PodRequest
from terrazzo.placement import events as ev
from terrazzo.placement import instructions as ins
from terrazzo.placement.engine import Engine
from terrazzo.placement.invariants import check
from terrazzo.placement.ledger import Ledger, Stage
from terrazzo.testing import strategies as make


class Books(RuleBasedStateMachine):
    """``written`` is what the API server has of living pods; the ledger must agree with it after a resync."""

    pods = Bundle("pods")

    @initialize(data=st.data())
    def cluster(self, data: st.DataObject) -> None:
        self.nodes = {f"node-{i}": data.draw(make.nodes(f"node-{i}")) for i in range(data.draw(st.integers(1, 3)))}
        self.agents = {name: data.draw(st.booleans()) for name in self.nodes}
        self.version = 1
        self.submitted = 0
        self.written: dict[str, Allocation] = {}
        self.requests: dict[str, PodRequest] = {}
        self.lingering: set[str] = set()
        self.down: set[str] = set()
        self.sent: list[ev.Event] = []
        self.ledger = Ledger()
        for node in self.nodes.values():
            self.tell(ev.NodeSeen(node, self.next(), self.agents[node.name]))

    def next(self) -> int:
        self.version += 1
        return self.version

    def tell(self, event: ev.Event) -> tuple[ins.Instruction, ...]:
        self.sent.append(event)
        return self.ledger.apply(event)

    def seen(self, pod: str, phase: str = "Running") -> ev.PodSeen:
        held = self.written.get(pod)
        request = msgspec.structs.replace(self.requests[pod], phase=phase)
        return ev.PodSeen(request, self.next(), held.node if held else "", held)

    @rule(target=pods, request=make.requests("pod", containers=2))
    def submit(self, request: PodRequest) -> str:
        self.submitted += 1
        pod = f"uid-{self.submitted}"
        # Names come back, as those of a StatefulSet do; UIDs never.
        self.requests[pod] = msgspec.structs.replace(request, uid=pod, name=f"pod-{self.submitted % 4}")
        return pod

    @rule(pod=pods, fate=st.sampled_from(["written", "written", "failed", "lost answer", "never arrived"]))
    def bind(self, pod: str, fate: str) -> None:
        if pod in self.written or self.ledger.fleet.allocation(pod) is not None or pod in self.lingering:
            return
        found = Engine(self.ledger.fleet).decide(self.requests[pod])
        if found is None:
            self.tell(ev.Waiting(self.requests[pod]))
            return
        assert self.tell(ev.Committed(found)) == (ins.Write(found),)
        if fate == "written":
            self.written[pod] = found
            self.tell(ev.Written(found))
        elif fate == "failed":
            self.tell(ev.WriteFailed(found))
            assert self.ledger.fleet.allocation(pod) is None
        else:
            self.tell(ev.WriteUnknown(found))
            if fate == "lost answer":
                self.written[pod] = found
            read = self.seen(pod, "Pending")
            self.tell(ev.ReadBack(read.request, read.version, read.node, read.held))
            assert (self.ledger.fleet.allocation(pod) is not None) == (fate == "lost answer")

    @rule(pod=pods, other=st.booleans())
    def bound_by_somebody_else(self, pod: str, other: bool) -> None:
        if pod in self.written or self.ledger.fleet.allocation(pod) is not None:
            return
        engine = Engine(self.ledger.fleet if other else Ledger(self.nodes.values()).fleet)
        found = engine.decide(self.requests[pod])
        if found is None or found.node in self.down:
            return
        self.written[pod] = found
        told = self.tell(self.seen(pod))
        assert self.ledger.stage[pod] is Stage.BOUND
        for each in told:
            if isinstance(each, ins.Retract):
                assert pod in {each.loser, each.keeper}
                assert (each.node, each.uuid) in self.ledger.over

    @rule(pod=consumes(pods), notice=st.booleans(), how=st.sampled_from(["deleted", "Succeeded", "Failed"]))
    def end(self, pod: str, notice: bool, how: str) -> None:
        held = self.written.pop(pod, None)
        if held is not None and self.agents.get(held.node) and held.uses and held.node not in self.down:
            self.lingering.add(pod)
        if not notice:
            self.requests.pop(pod)
            return
        self.tell(ev.PodGone(pod) if how == "deleted" else self.seen(pod, how))
        self.requests.pop(pod)

    @rule()
    def agents_say_that_nothing_is_left(self) -> None:
        for pod in sorted(self.lingering):
            if self.ledger.stage.get(pod) is Stage.LEAVING:
                self.tell(ev.Unprepared(pod))
                assert self.ledger.fleet.allocation(pod) is None
                self.lingering.discard(pod)

    @rule(data=st.data())
    def again_or_late(self, data: st.DataObject) -> None:
        """An event of an object that was sent before changes nothing."""
        event = data.draw(st.sampled_from(self.sent))
        if isinstance(event, ev.NodeSeen | ev.NodeGone | ev.PodSeen | ev.DeviceChanged):
            before = list(self.ledger.fleet.allocations())
            assert self.ledger.apply(event) == ()
            assert list(self.ledger.fleet.allocations()) == before

    @rule(data=st.data(), health=st.sampled_from(Health), foreign=st.sampled_from([0, 0, 4096]))
    def device(self, data: st.DataObject, health: Health, foreign: int) -> None:
        node = data.draw(st.sampled_from(sorted(self.nodes)))
        device = data.draw(st.sampled_from(self.nodes[node].devices))
        holders = tuple(self.ledger.fleet.uses(node, device.uuid))
        was = {v.device.uuid: v.device.health for v in self.ledger.fleet.devices(node)}.get(device.uuid)
        told = self.tell(ev.DeviceChanged(node, device.uuid, self.next(), health, "xid 79", foreign))
        sick = [each for each in told if isinstance(each, ins.TellHolders)]
        assert bool(sick) == bool(holders and was is Health.HEALTHY and health is not Health.HEALTHY)

    @rule(data=st.data())
    def node_goes_or_comes(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.nodes)))
        if name in self.down:
            self.down.discard(name)
            self.tell(ev.NodeSeen(self.nodes[name], self.next(), self.agents[name]))
        else:
            self.down.add(name)
            self.tell(ev.NodeGone(name, self.next()))
            self.lingering -= {pod for pod in self.lingering if pod not in self.ledger.stage}

    def lists(self) -> ev.Resync:
        nodes = tuple(
            ev.NodeSeen(node, self.next(), self.agents[name])
            for name, node in self.nodes.items()
            if name not in self.down
        )
        return ev.Resync(nodes, tuple(self.seen(pod) for pod in self.requests))

    @rule()
    def resync(self) -> None:
        self.ledger.apply(self.lists())
        self.agree(self.ledger, tolerate=self.lingering | self.leaving())

    @rule()
    def crash(self) -> None:
        fresh = Ledger()
        fresh.apply(self.lists())
        self.agree(fresh, tolerate=())
        self.ledger = fresh
        self.lingering.clear()
        self.sent.clear()
        self.sent.append(ev.PodGone("nobody"))

    def leaving(self) -> set[str]:
        return {pod for pod, stage in self.ledger.stage.items() if stage is Stage.LEAVING}

    def agree(self, ledger: Ledger, tolerate: Iterable[str]) -> None:
        held = {a.pod: a for a in ledger.fleet.allocations() if a.pod not in set(tolerate)}
        assert held == self.written
        check(ledger)

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "ledger"):
            check(self.ledger)


TestBooks = Books.TestCase
TestBooks.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
