"""Reasons on columns against the exact ones, on clusters in bad shape: sick, unknown, overfull, come and gone."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from terrazzo.model.device import Health
from terrazzo.model.errors import LedgerError
from terrazzo.model.node import Node, Taint
from terrazzo.model.reason import Reason
from terrazzo.model.request import Ask, NodeRules, Pattern, PodRequest
from terrazzo.model.unknown import Unknown
from terrazzo.placement.engine import Engine
from terrazzo.placement.fleet import Fleet
from terrazzo.placement.reasons import NodeReasons
from terrazzo.testing import strategies as make
from terrazzo.testing.builders import VENDORS, make_node, make_request

LISTS = st.sampled_from((Pattern(), Pattern(), Pattern(include=("*-0",)), Pattern(exclude=("*nvidia*",))))
VENDOR = st.sampled_from((Pattern(), Pattern(), *(Pattern(include=(vendor,)) for vendor in VENDORS)))
MODELS = st.sampled_from((Pattern(), Pattern(), Pattern(include=("A100*",)), Pattern(exclude=("K100",))))
RULES = st.sampled_from((NodeRules(), NodeRules(), NodeRules(selector={"zone": "a"})))


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Node:
    """Return a node on which much is not as it should be."""
    node = draw(make.nodes(name))
    changes: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
        (
            {}, {}, {}, {"health": Health.DEGRADED, "health_reason": "xid"}, {"foreign_mib": 4096},
            {"foreign_mib": 1 << 40}, {"memory_mib": Unknown("nobody said")}, {"sharers": 1}, {"sharers": 2},
            {"mode": "whole", "geometry": None}, {"numa": 1}, {"numa": 0},
        )
    )  # fmt: skip
    devices = tuple(msgspec.structs.replace(device, **draw(changes)) for device in node.devices)
    state: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
        (
            {}, {}, {}, {"ready": False}, {"unschedulable": True}, {"taints": (Taint("x", "", "NoSchedule"),)},
            {"labels": {"zone": "a"}}, {"max_pods": 1}, {"memory_mib": 2048}, {"other": {"example.com/nic": 1}},
        )
    )  # fmt: skip
    fields: dict[str, Any] = {"devices": devices, **draw(state)}
    if draw(st.integers(0, 9)) == 0:
        fields["devices"] = ()
    return msgspec.structs.replace(node, **fields)


@st.composite
def requests(draw: st.DrawFn, name: str) -> PodRequest:
    """Return a pod that may be particular about where it goes."""
    request = draw(make.requests(name))
    if draw(st.booleans()):
        request = make_request(name, draw(make.asks()))
    return msgspec.structs.replace(
        request,
        device=draw(LISTS),
        vendor=draw(VENDOR),
        model=draw(MODELS),
        rules=draw(RULES),
        numa_bind=draw(st.integers(0, 5)) == 0,
        other=draw(st.sampled_from(({}, {}, {}, {"example.com/nic": 1}, {"example.com/nic": 2}))),
    )


@given(st.data())
def test_reasons_on_columns_are_the_exact_ones_whatever_the_shape_of_the_cluster(data: st.DataObject) -> None:
    fleet = Fleet()
    engine = Engine(fleet)
    told = NodeReasons(engine)

    def same(request: PodRequest) -> None:
        assert told.of(request) == {no.node: no.reason for no in engine.why(request)}

    for turn in range(data.draw(st.integers(2, 8))):
        act = data.draw(st.sampled_from(("node", "node", "pod", "pod", "pod", "adopt", "end", "drop")))
        if act == "node":
            fleet.put_node(data.draw(nodes(f"node-{data.draw(st.integers(0, 4))}")))
        elif act in {"pod", "adopt"}:
            request = data.draw(requests(f"pod-{turn}"))
            same(request)
            blind = Engine(Fleet(fleet.nodes())) if act == "adopt" else engine
            found = blind.decide(request)
            if found is not None:
                with suppress(LedgerError):
                    fleet.grant(found, adopt=act == "adopt")
        elif act == "end":
            fleet.release(next((held.pod for held in fleet.allocations()), ""))
        else:
            fleet.drop_node(f"node-{data.draw(st.integers(0, 4))}")
    same(data.draw(requests("asked")))


def test_of_devices_the_one_nearest_to_fitting_tells_and_of_the_node_its_first_rule() -> None:
    node = make_node(devices=3, cpu_milli=1000)
    sick = msgspec.structs.replace(node.devices[0], health=Health.DEGRADED)
    small = msgspec.structs.replace(node.devices[1], foreign_mib=80_000)
    other = msgspec.structs.replace(node.devices[2], model="T4", family="T4")
    asked = make_request("p", Ask(memory_mib=40_000), model=Pattern(include=("A100*",)))
    for devices, reason in (
        ((sick, small, other), Reason.MEMORY),
        ((sick, other), Reason.HEALTH),
        ((other,), Reason.MODEL),
    ):
        engine = Engine(Fleet([msgspec.structs.replace(node, devices=devices)]))
        assert NodeReasons(engine).of(asked) == {"node-0": reason}
        hungry = msgspec.structs.replace(asked, cpu_milli=2000)
        assert NodeReasons(engine).of(hungry) == {"node-0": Reason.CPU}
