from __future__ import annotations

from typing import Any

import msgspec
from world import books, pod

from terrazzo.control.nominating import Nominator
from terrazzo.control.placing import Placer
from terrazzo.testing.builders import SHARED, make_node

PART = {"terrazzo.io/gpu": 1, "terrazzo.io/gpu-memory": "30Gi"}
WHOLE = {"nvidia.com/gpu": 1}


def _world(nodes: int, devices: int) -> tuple[Any, Placer, Nominator]:
    made, _ = books([make_node(f"n{i}", SHARED[0], devices) for i in range(nodes)])
    placer = Placer(made, 100)
    client: Any = None
    return made, placer, Nominator(made, placer, client, scheduler="terrazzo", backlog=1, log=None)


def _rows(made: Any, *names: str, limits: dict[str, Any]) -> list[Any]:
    for name in names:
        made.pod_seen(pod(name, limits))
    return [made.pods[f"uid-{name}"] for name in names]


def test_a_plan_has_room_for_all_its_pods_together_and_takes_nothing() -> None:
    made, _, nominator = _world(nodes=1, devices=1)
    rows = _rows(made, "a", "b", "c", limits=PART)
    before = made.ledger.fleet.grid.copy()
    assert [(row.request.name, node) for row, node in nominator.plan(rows)] == [("a", "n0"), ("b", "n0")]
    assert (made.ledger.fleet.grid == before).all()
    assert not list(made.ledger.fleet.allocations())


def test_a_plan_leaves_nominated_pods_their_place_even_where_devices_changed_meanwhile() -> None:
    made, placer, nominator = _world(nodes=2, devices=1)
    [first, second] = _rows(made, "a", "b", limits=WHOLE)
    assert [node for _, node in nominator.plan([first])] == ["n0"]
    made.pod_seen(pod("a", WHOLE, status={"nominatedNodeName": "n0"}))
    assert [node for _, node in nominator.plan([second])] == ["n1"]
    # What was expected for the pod is gone, so it is looked at anew, in vain.
    found = placer.choose(made.request_of(pod("a", WHOLE)), "n0")
    made.ledger.fleet.grant(msgspec.structs.replace(found, pod="x"))
    assert [node for _, node in nominator.plan([second])] == ["n1"]


def test_of_two_equal_pods_promised_a_place_the_one_that_is_asked_about_comes_first() -> None:
    made, placer, _ = _world(nodes=1, devices=1)
    for name in ("a", "b"):
        made.pod_seen(pod(name, WHOLE, status={"nominatedNodeName": "n0"}))
    assert placer.filter(pod("a", WHOLE), ["n0"]).ranks
    assert placer.filter(pod("b", WHOLE), ["n0"]).ranks
    assert not placer.filter(pod("c", WHOLE), ["n0"]).ranks
    assert not list(made.ledger.fleet.allocations())
