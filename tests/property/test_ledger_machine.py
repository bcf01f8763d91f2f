"""The ledger beside a model of the API server: any events, twice, late or lost, and the books stay right."""

from __future__ import annotations

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from terrazzo.model.allocation import Allocation
from terrazzo.model.device import Health
from terrazzo.model.node import Node
from terrazzo.model.request import PodRequest
from terrazzo.placement import events as ev
from terrazzo.placement import instructions as ins
from terrazzo.placement.engine import Engine
from terrazzo.placement.invariants import check
from terrazzo.placement.ledger import Ledger, Stage
from terrazzo.testing import strategies as make
from terrazzo.testing.builders import fraction, make_request, whole

FATES = ("written", "written", "flying", "written", "flying", "failed", "lost answer", "never arrived")
EASY = (fraction(2048), fraction(8192, 25), whole(), fraction(4096, 10, count=2))


def wishes() -> st.SearchStrategy[PodRequest]:
    """Return what fits where there is room, three times of four, and anything else."""
    easy = st.builds(lambda ask: make_request("pod", ask), st.sampled_from(EASY))
    return st.one_of(easy, easy, easy, make.requests("pod", containers=2))


class Books(RuleBasedStateMachine):
    """What the API server has, and what the ledger makes of what it is told of that.

    ``requests`` are the pods that exist, ``written`` what they hold, ``at`` the resourceVersion of each object,
    ``flying`` the decisions that nobody answered yet, ``asleep`` the pods that wait and were not woken.
    """

    @initialize(data=st.data())
    def cluster(self, data: st.DataObject) -> None:
        self.made = [data.draw(make.nodes(f"node-{i}")) for i in range(data.draw(st.integers(1, 3)))]
        self.agents = {node.name: data.draw(st.booleans()) for node in self.made}
        self.nodes: dict[str, Node] = {}
        self.version = 1
        self.at: dict[str, int] = {}
        self.submitted = 0
        self.written: dict[str, Allocation] = {}
        self.requests: dict[str, PodRequest] = {}
        self.flying: dict[str, Allocation] = {}
        self.asleep: set[str] = set()
        self.ended: set[str] = set()
        self.sent: list[ev.Event] = []
        self.kept: ev.Resync | None = None
        self.ledger = Ledger()
        for node in self.made:
            self.put(node)
            self.tell(self.node_seen(node.name))

    # -- the API server ------------------------------------------------------------------------------------------

    def next(self, name: str) -> int:
        self.version += 1
        self.at[name] = self.version
        return self.version

    def put(self, node: Node) -> None:
        self.nodes[node.name] = node
        self.next(node.name)

    def node_seen(self, name: str) -> ev.NodeSeen:
        return ev.NodeSeen(self.nodes[name], self.at[name], self.agents[name])

    def pod_seen(self, pod: str, phase: str = "Running") -> ev.PodSeen:
        held = self.written.get(pod)
        request = msgspec.structs.replace(self.requests[pod], phase=phase)
        return ev.PodSeen(request, self.at[pod], held.node if held else "", held)

    def write(self, held: Allocation) -> None:
        self.written[held.pod] = held
        self.next(held.pod)

    def lists(self) -> ev.Resync:
        nodes, pods = tuple(map(self.node_seen, self.nodes)), tuple(map(self.pod_seen, self.requests))
        return ev.Resync(nodes, pods, self.version)

    def tell(self, event: ev.Event) -> tuple[ins.Instruction, ...]:
        self.sent.append(event)
        told = self.ledger.apply(event)
        self.asleep -= {pod for each in told if isinstance(each, ins.Wake) for pod in each.pods}
        for each in () if isinstance(event, ev.Resync) else told:
            match each:
                case ins.Wake():
                    assert set(each.pods) <= set(self.requests) | self.ended
                case ins.Retract():
                    assert self.ledger.over[each.node, each.uuid] == (each.loser, each.keeper)
                case ins.TellHolders():
                    assert each.pods == tuple(self.ledger.fleet.uses(each.node, each.uuid))
                case _:
                    assert isinstance(each, ins.Write | ins.Refuse | ins.Rebuild | ins.TellForeign)
        return told

    # -- pods ----------------------------------------------------------------------------------------------------

    @rule(request=wishes(), fate=st.sampled_from(FATES), times=st.integers(1, 3))
    def submit(self, request: PodRequest, fate: str, times: int) -> None:
        for _ in range(times):
            self.submitted += 1
            pod = f"uid-{self.submitted}"
            # Names come back, as those of a StatefulSet do; UIDs never.
            self.requests[pod] = msgspec.structs.replace(request, uid=pod, name=f"pod-{self.submitted % 4}")
            self.next(pod)
            self.tell(self.pod_seen(pod, "Pending"))
            self.decide(pod, fate, stale=False)

    @precondition(lambda self: self.idle())
    @rule(data=st.data(), fate=st.sampled_from(FATES), stale=st.booleans())
    def schedule(self, data: st.DataObject, fate: str, stale: bool) -> None:
        self.decide(data.draw(st.sampled_from(self.idle())), fate, stale=stale)

    def idle(self) -> list[str]:
        held = self.ledger.fleet.allocation
        return [pod for pod in self.requests if pod not in self.written and held(pod) is None]

    def decide(self, pod: str, fate: str, *, stale: bool) -> None:
        """Decide, on a picture that may be of an empty cluster, and commit: what does not hold any more is refused."""
        fleet, since = self.ledger.fleet, self.ledger.fleet.tick
        found = Engine(Ledger(self.made).fleet if stale else fleet).decide(self.requests[pod])
        if found is None:
            if not stale:
                self.tell(ev.Waiting(self.requests[pod], since))
                self.asleep.add(pod)
            return
        before = list(fleet.allocations())
        sound = [use.uuid for use in found.uses if not fleet.exceeded(found.node, use.uuid)]
        [told] = self.tell(ev.Committed(found))
        if isinstance(told, ins.Refuse):
            assert stale
            assert list(fleet.allocations()) == before
            return
        assert told == ins.Write(found)
        assert not any(fleet.exceeded(found.node, uuid) for uuid in sound)
        self.asleep.discard(pod)
        self.flying[pod] = found
        if fate != "flying":
            self.answer(pod, fate)

    @precondition(lambda self: self.flying)
    @rule(data=st.data(), fate=st.sampled_from([fate for fate in FATES if fate != "flying"]))
    def lands(self, data: st.DataObject, fate: str) -> None:
        self.answer(data.draw(st.sampled_from(sorted(self.flying))), fate)

    def answer(self, pod: str, fate: str) -> None:
        found = self.flying.pop(pod)
        if pod not in self.requests or pod in self.written:
            # It ended meanwhile, or somebody else was quicker: the API server refuses.
            before = list(self.ledger.fleet.allocations())
            self.tell(ev.WriteFailed(found))
            assert pod not in self.written or list(self.ledger.fleet.allocations()) == before
        elif fate == "written":
            self.write(found)
            self.tell(ev.Written(found))
            assert self.ledger.stage[pod] is Stage.BOUND
        elif fate == "failed":
            self.tell(ev.WriteFailed(found))
            assert self.ledger.fleet.allocation(pod) is None
        else:
            self.tell(ev.WriteUnknown(found))
            assert self.ledger.stage[pod] is Stage.UNKNOWN
            self.tell(self.pod_seen(pod, "Pending"))
            if fate == "lost answer":
                self.write(found)
            read = self.pod_seen(pod, "Pending")
            self.tell(ev.ReadBack(read.request, read.version, read.node, read.held))
            assert (self.ledger.fleet.allocation(pod) is not None) == (fate == "lost answer")

    @precondition(lambda self: self.requests.keys() - self.written.keys())
    @rule(data=st.data(), blind=st.booleans())
    def bound_by_somebody_else(self, data: st.DataObject, blind: bool) -> None:
        pod = data.draw(st.sampled_from(sorted(self.requests.keys() - self.written.keys())))
        found = Engine(Ledger(self.made).fleet if blind else self.ledger.fleet).decide(self.requests[pod])
        if found is None or found.node not in self.nodes:
            return
        self.write(found)
        self.tell(self.pod_seen(pod))
        self.asleep.discard(pod)
        assert self.ledger.stage[pod] is Stage.BOUND
        assert self.ledger.fleet.allocation(pod) == found

    @precondition(lambda self: self.requests)
    @rule(data=st.data(), how=st.sampled_from(["deleted", "unnoticed", "Succeeded", "deleted", "Failed"]))
    def end(self, data: st.DataObject, how: str) -> None:
        pod = data.draw(st.sampled_from(sorted(self.requests)))
        self.next(pod)
        seen = self.pod_seen(pod, how)
        self.written.pop(pod, None)
        self.requests.pop(pod)
        self.asleep.discard(pod)
        self.ended.add(pod)
        if how != "unnoticed":
            self.tell(ev.PodGone(pod) if how == "deleted" else seen)
            assert self.ledger.stage.get(pod) in {None, Stage.LEAVING}

    @precondition(lambda self: Stage.LEAVING in self.ledger.stage.values())
    @rule()
    def agents_say_that_nothing_is_left(self) -> None:
        for pod in sorted(self.ended):
            if self.ledger.stage.get(pod) is Stage.LEAVING:
                self.tell(ev.Unprepared(pod))
                assert self.ledger.fleet.allocation(pod) is None

    @precondition(lambda self: self.written)
    @rule(data=st.data())
    def claim_deleted_by_hand(self, data: st.DataObject) -> None:
        pod = data.draw(st.sampled_from(sorted(self.written)))
        held = self.written[pod]
        if self.ledger.fleet.allocation(pod) != held:
            return
        self.next(pod)
        was = self.ledger.stage[pod]
        told = self.tell(ev.PodSeen(self.requests[pod], self.at[pod], held.node))
        assert told == ((ins.Rebuild(held),) if was is not Stage.DECIDED and held.uses else ())
        assert self.ledger.fleet.allocation(pod) == held
        self.next(pod)

    # -- nodes and devices ---------------------------------------------------------------------------------------

    @rule(data=st.data(), health=st.sampled_from(Health), foreign=st.sampled_from([0, 0, 4096, 1 << 40]))
    def device(self, data: st.DataObject, health: Health, foreign: int) -> None:
        node = data.draw(st.sampled_from(self.made))
        uuid = data.draw(st.sampled_from([*(device.uuid for device in node.devices), "no-such-device"]))
        holders = tuple(self.ledger.fleet.uses(node.name, uuid))
        was = {view.device.uuid: view.device for view in self.ledger.fleet.devices(node.name)}.get(uuid)
        told = self.tell(ev.DeviceChanged(node.name, uuid, self.next(uuid), health, "xid 79", foreign))
        fell = was is not None and was.health is Health.HEALTHY and health is not Health.HEALTHY
        assert any(isinstance(each, ins.TellHolders) for each in told) == bool(fell and holders)
        more = was is not None and foreign > was.foreign_mib
        assert any(isinstance(each, ins.TellForeign) for each in told) == more

    @rule(data=st.data(), noticed=st.booleans())
    def node_goes_or_comes(self, data: st.DataObject, noticed: bool) -> None:
        node = data.draw(st.sampled_from(self.made))
        if node.name not in self.nodes:
            self.put(node)
            event: ev.Event = self.node_seen(node.name)
        else:
            del self.nodes[node.name]
            event = ev.NodeGone(node.name, self.next(node.name))
        if noticed:
            self.tell(event)

    @rule(data=st.data())
    def devices_vanish_or_return(self, data: st.DataObject) -> None:
        node = data.draw(st.sampled_from(self.made))
        if node.name in self.nodes:
            there = node.devices[: data.draw(st.integers(0, len(node.devices)))]
            self.put(msgspec.structs.replace(node, devices=there, ready=data.draw(st.booleans())))
            self.tell(self.node_seen(node.name))

    # -- late, twice, all at once --------------------------------------------------------------------------------

    @rule(data=st.data())
    def again_or_late(self, data: st.DataObject) -> None:
        """What a watch told before changes nothing when it is told again."""
        event = data.draw(st.sampled_from(self.sent))
        if isinstance(event, ev.NodeSeen | ev.NodeGone | ev.PodSeen | ev.DeviceChanged):
            before = self.picture()
            assert self.ledger.apply(event) == ()
            assert self.picture() == before

    def picture(self) -> tuple[object, ...]:
        return list(self.ledger.fleet.nodes()), list(self.ledger.fleet.allocations()), dict(self.ledger.stage)

    @precondition(lambda self: self.requests or self.ended)
    @rule()
    def resync(self) -> None:
        self.tell(self.lists())
        self.agrees()

    @precondition(lambda self: not self.kept)
    @rule()
    def ask_for_lists(self) -> None:
        self.kept = self.lists()

    @precondition(lambda self: self.kept)
    @rule()
    def lists_come_late(self) -> None:
        """What was seen after the lists were made is not undone, and nobody comes back of whom it is known."""
        assert self.kept is not None
        known = {
            pod: held
            for pod, held in self.written.items()
            if self.ledger.fleet.allocation(pod) == held and self.ledger._versions.get(("pod", pod), -1) == self.at[pod]
        }
        nodes = [
            node
            for name, node in self.nodes.items()
            if self.ledger.fleet.node(name) is not None and self.ledger._versions[("node", name)] == self.at[name]
        ]
        gone = {pod for pod in self.ended if pod in self.ledger._gone}
        self.tell(self.kept)
        self.kept = None
        for pod, held in known.items():
            assert self.ledger.fleet.allocation(pod) == held
        assert all(self.ledger.fleet.node(node.name) is not None for node in nodes)
        assert all(self.ledger.stage.get(pod) in {None, Stage.LEAVING} for pod in gone)
        # As a watch from that list on would do.
        self.resync()

    @precondition(lambda self: self.written)
    @rule()
    def crash(self) -> None:
        """Whoever starts from the lists alone holds what is written and nothing else."""
        self.ledger = Ledger()
        self.flying.clear()
        self.asleep.clear()
        self.kept = None
        self.sent = []
        self.tell(self.lists())
        self.agrees()
        assert {a.pod: a for a in self.ledger.fleet.allocations()} == self.written

    def agrees(self) -> None:
        leaving = {pod for pod, stage in self.ledger.stage.items() if stage is Stage.LEAVING}
        held = {a.pod: a for a in self.ledger.fleet.allocations() if a.pod not in leaving}
        flying = {p: a for p, a in self.flying.items() if self.ledger.stage.get(p) is Stage.DECIDED}
        assert held == self.written | flying
        assert {pod for pod in self.flying if pod in self.requests} <= self.written.keys() | flying.keys()

    @invariant()
    def the_books_hold(self) -> None:
        if hasattr(self, "ledger"):
            check(self.ledger)

    @invariant()
    def nobody_sleeps_who_would_fit(self) -> None:
        if hasattr(self, "ledger"):
            engine = Engine(self.ledger.fleet)
            assert not [pod for pod in self.asleep if engine.fits(self.requests[pod])]


def test_any_events_in_any_order() -> None:
    run_state_machine_as_test(Books, settings=settings(stateful_step_count=40))
