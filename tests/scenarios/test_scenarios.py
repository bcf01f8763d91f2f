"""Runs the scenario files beside it against the ledger and the engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from terrazzo.model.allocation import Allocation
from terrazzo.model.device import Health, SharingMode
from terrazzo.model.node import Node
from terrazzo.model.quantity import memory_mib
from terrazzo.model.request import Ask, ContainerKind, LabelTest, NodeRules, PodRequest, Preference
from terrazzo.placement import events as ev
from terrazzo.placement import instructions as ins
from terrazzo.placement.demand import usable_mib
from terrazzo.placement.engine import Engine
from terrazzo.placement.explain import explain
from terrazzo.placement.gang import place_gang
from terrazzo.placement.invariants import check
from terrazzo.placement.ledger import Ledger
from terrazzo.placement.preempt import cheapest_victims
from terrazzo.testing.builders import SHARED, Kind, make_device, make_request

FILES = sorted(Path(__file__).parent.glob("*.yaml"))


def cases() -> list[Any]:
    found = []
    for file in FILES:
        scenario = msgspec.yaml.decode(file.read_bytes())
        vendors = scenario["vendors"]
        for kind in SHARED:
            if vendors == "all" or kind.vendor in vendors:
                mode = SharingMode(scenario["mode"]) if "mode" in scenario else None
                chosen = Kind(kind.vendor, scenario.get("model", kind.model), mode)
                found.append(pytest.param(scenario, chosen, id=f"{file.stem}-{kind.vendor}"))
    return found


@pytest.mark.parametrize(("scenario", "kind"), cases())
def test_scenario(scenario: dict[str, Any], kind: Kind) -> None:
    stage = Stage(scenario, kind)
    for step in scenario["steps"]:
        stage.act(step)
        check(stage.ledger)


class Stage:
    def __init__(self, scenario: dict[str, Any], kind: Kind) -> None:
        self.kind = kind
        self.version = 1
        self.nodes = {each["name"]: self.node(each) for each in scenario["nodes"]}
        self.ledger = Ledger()
        for node in self.nodes.values():
            self.ledger.apply(ev.NodeSeen(node, self.next()))
        self.engine = Engine(self.ledger.fleet)
        self.held: dict[str, Allocation] = {}
        self.requests: dict[str, PodRequest] = {}
        for pod in scenario.get("running", ()):
            self.run(pod)

    def next(self) -> int:
        self.version += 1
        return self.version

    def node(self, each: dict[str, Any]) -> Node:
        devices = tuple(
            make_device(
                self.kind,
                node=each["name"],
                index=i,
                **({"sharers": each["sharers"]} if "sharers" in each else {}),
                **({"numa": each["numa"][i]} if "numa" in each else {}),
                **({"links": (each["links"],)} if "links" in each else {}),
            )
            for i in range(each["devices"])
        )
        return Node(name=each["name"], labels=each.get("labels", {}), devices=devices)

    def request(self, pod: dict[str, Any]) -> PodRequest:
        containers = pod.get("containers", [pod])
        kinds = {i: ContainerKind(c["kind"]) for i, c in enumerate(containers) if "kind" in c}
        asks = [() if not c else (self.ask(c),) for c in containers]
        liked = tuple(Preference(100, (LabelTest(k, "In", (v,)),)) for k, v in pod.get("prefers", {}).items())
        return make_request(
            pod["name"],
            *asks,
            kinds=kinds,
            priority=pod.get("priority", 0),
            exclusive=pod.get("exclusive", False),
            strategy=pod.get("strategy", ""),
            rules=NodeRules(node_name=pod.get("node", ""), preferences=liked),
        )

    @staticmethod
    def ask(container: dict[str, Any]) -> Ask:
        if "profile" in container:
            return Ask(profile=container["profile"])
        if "memory" not in container:
            return Ask(count=container["count"], whole=True)
        cores = container.get("cores", 0)
        return Ask(container.get("count", 1), memory_mib=memory_mib(container["memory"]), cores_percent=cores)

    def run(self, pod: dict[str, Any]) -> Allocation:
        request = self.request(pod)
        self.engine.learn(request)
        found = self.engine.decide(request)
        assert found is not None, self.engine.why(request)
        assert self.ledger.apply(ev.Committed(found)) == (ins.Write(found),)
        self.ledger.apply(ev.Written(found))
        self.held[pod["name"]], self.requests[pod["name"]] = found, request
        return found

    def act(self, step: dict[str, Any]) -> None:
        name = next(iter(step))
        getattr(self, name.replace("-", "_"))(step[name], step)

    def place(self, pod: dict[str, Any], step: dict[str, Any]) -> None:
        found = self.run(pod)
        mine = {use.uuid for use in found.uses}
        if "on" in step:
            assert found.node == step["on"]
        if "same-devices-as" in step:
            assert mine == {use.uuid for use in self.held[step["same-devices-as"]].uses}
        if "other-devices-than" in step:
            assert not mine & {use.uuid for use in self.held[step["other-devices-than"]].uses}
        if "device" in step:
            assert mine == {self.nodes[found.node].devices[step["device"]].uuid}
        if "grants" in step:
            granted = {c.container: sum(d.memory_mib for d in c.devices) for c in found.containers}
            assert granted == {c: memory_mib(mib) for c, mib in step["grants"].items()}
        if "takes" in step:
            assert sum(use.memory_mib for use in found.uses) == memory_mib(step["takes"])

    def wait(self, pod: dict[str, Any], step: dict[str, Any]) -> None:
        request = self.request(pod)
        assert self.engine.decide(request) is None
        assert {str(no.reason) for no in self.engine.why(request)} == {step["reason"]}

    def end(self, pod: str, _: dict[str, Any]) -> None:
        self.ledger.apply(ev.PodGone(self.held[pod].pod))

    def unseen_end(self, pod: str, _: dict[str, Any]) -> None:
        del self.requests[pod]

    def resync(self, _: bool, __: dict[str, Any]) -> None:
        nodes = tuple(ev.NodeSeen(node, self.next()) for node in self.nodes.values())
        pods = tuple(ev.PodSeen(r, self.next(), self.held[n].node, self.held[n]) for n, r in self.requests.items())
        self.ledger.apply(ev.Resync(nodes, pods))

    def refused_write(self, pod: dict[str, Any], _: dict[str, Any]) -> None:
        found = self.engine.decide(self.request(pod))
        assert found is not None
        self.ledger.apply(ev.Committed(found))
        self.ledger.apply(ev.WriteFailed(found))
        assert self.ledger.fleet.allocation(found.pod) is None

    def at_once(self, pods: list[dict[str, Any]], step: dict[str, Any]) -> None:
        decisions = [self.engine.decide(self.request(pod)) for pod in pods]
        told = [self.ledger.apply(ev.Committed(each))[0] for each in decisions if each is not None]
        assert sum(isinstance(each, ins.Write) for each in told) == step["taken"]

    def foreign(self, what: dict[str, Any], _: dict[str, Any]) -> None:
        device = self.nodes[what["node"]].devices[what["device"]]
        used = usable_mib(device) - memory_mib(what["left"])
        self.ledger.apply(ev.DeviceChanged(what["node"], device.uuid, self.next(), Health.HEALTHY, foreign_mib=used))

    def preempts(self, pod: dict[str, Any], step: dict[str, Any]) -> None:
        victims = cheapest_victims(self.engine, self.request(pod))
        assert victims is not None
        assert [each.name for each in victims.pods] == step["victims"]

    def explained(self, pod: dict[str, Any], step: dict[str, Any]) -> None:
        found = explain(self.engine, self.request(pod), most=20)
        assert any(change.describe().startswith(step["says"]) for change in found.changes)

    def gang(self, pods: list[dict[str, Any]], step: dict[str, Any]) -> None:
        found = place_gang(self.engine, [self.request(pod) for pod in pods])
        assert (found is not None) == step["placed"]
