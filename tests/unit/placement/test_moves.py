"""Plans of moves: fewest, true when carried out, nothing changed by looking for them."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from terrazzo.model.allocation import Allocation
from terrazzo.model.node import Node
from terrazzo.model.request import Ask, NodeRules, PodRequest
from terrazzo.placement.engine import Engine
from terrazzo.placement.fleet import Fleet
from terrazzo.placement.invariants import check_fleet
from terrazzo.placement.moves import MOST_MOVES, Moves, carry_out, fewest_moves
from terrazzo.testing.builders import CUT, SHARED, Kind, fraction, make_node, make_request, whole
from terrazzo.testing.strategies import fractions

KINDS = pytest.mark.parametrize("kind", SHARED, ids=str)


class Running:
    """An engine and what its running pods ask for."""

    def __init__(self, *nodes: Node) -> None:
        self.engine = Engine(Fleet(nodes))
        self.fleet = self.engine.fleet
        self.requests: dict[str, PodRequest] = {}

    def run(self, request: PodRequest, *, on: str = "") -> Allocation | None:
        found = self.engine.decide(request, among=[on] if on else None)
        if found is not None:
            self.fleet.grant(found)
            self.requests[request.key] = request
        return found

    def moves(self, asked: PodRequest) -> Moves | None:
        before = self.picture()
        found = fewest_moves(self.engine, asked, self.requests)
        assert self.picture() == before
        return found

    def picture(self) -> tuple[object, ...]:
        nodes = [(self.fleet.devices(node.name), self.fleet.allocations_on(node.name)) for node in self.fleet.nodes()]
        return nodes, self.fleet.grid.tolist(), self.fleet.hosts[:4].tolist(), self.fleet.idle.tolist()

    def really_move(self, plan: Moves) -> None:
        """Do what the plan says, in the order in which people would: out with all, in with all."""
        for move in plan.moves:
            assert self.fleet.release(move.before.pod) == move.before
        for allocation in (plan.allocation, *(move.after for move in plan.moves)):
            self.fleet.grant(allocation)
        check_fleet(self.fleet)


@KINDS
def test_one_of_two_halves_makes_room_for_a_whole(kind: Kind) -> None:
    case = Running(make_node("a", kind, 1), make_node("b", kind, 1))
    for name, node in (("x", "a"), ("y", "b")):
        assert case.run(make_request(name, fraction(4096, 10)), on=node)
    asked = make_request("asked", whole())
    plan = case.moves(asked)
    assert plan is not None
    [move] = plan.moves
    assert move.before.node != move.after.node
    assert plan.allocation.node == move.before.node
    assert carry_out(case.engine, plan)
    case.really_move(plan)
    assert case.fleet.allocation(asked.key) == plan.allocation


@KINDS
def test_within_one_node_too(kind: Kind) -> None:
    case = Running(make_node(kind=kind, devices=2))
    everywhere = case.engine.decide(make_request("wide", fraction(4096, 10, count=2)))
    assert everywhere is not None
    for name, use in zip(("x", "y"), everywhere.uses, strict=True):
        request = make_request(name, fraction(4096, 10))
        found = case.engine.decide(request)
        assert found is not None
        [grants] = found.containers
        [grant] = (each for container in everywhere.containers for each in container.devices if each.uuid == use.uuid)
        there = msgspec.structs.replace(grants, devices=(grant,))
        case.fleet.grant(msgspec.structs.replace(found, uses=(use,), containers=(there,)))
        case.requests[request.key] = request
    plan = case.moves(make_request("asked", whole()))
    assert plan is not None
    [move] = plan.moves
    assert move.before.node == move.after.node
    assert move.before.uses != move.after.uses
    case.really_move(plan)


def test_two_move_where_one_is_not_enough_and_no_more() -> None:
    case = Running(*(make_node(name, devices=1) for name in "abc"))
    for node in "ab":
        for index in range(2):
            assert case.run(make_request(f"{node}{index}", fraction(20_000, 20)), on=node)
    assert case.run(make_request("c", fraction(38_000, 20)), on="c")
    plan = case.moves(make_request("asked", whole()))
    assert plan is not None
    assert len(plan.moves) == 1
    assert plan.moves[0].pod == "default/c"
    case.requests.pop("uid-c")
    plan = case.moves(make_request("asked", whole()))
    assert plan is not None
    assert len(plan.moves) == 2
    case.really_move(plan)


def test_who_is_not_among_the_requests_stays() -> None:
    case = Running(make_node("a", devices=1), make_node("b", devices=1))
    for name, node in (("x", "a"), ("y", "b")):
        case.run(make_request(name, fraction(4096)), on=node)
    case.requests.clear()
    assert case.moves(make_request("asked", whole())) is None


def test_a_moved_pod_keeps_its_own_rules_but_not_the_node_it_is_bound_to() -> None:
    near, far = make_node("near", devices=1, labels={"zone": "n"}), make_node("far", devices=1, labels={"zone": "f"})
    asked = make_request("asked", whole())
    for rules, moves in ((NodeRules(node_name="near"), True), (NodeRules(selector={"zone": "n"}), False)):
        case = Running(near, far)
        assert case.run(make_request("x", fraction(4096), rules=rules), on="near")
        assert case.run(make_request("y", fraction(8192), rules=NodeRules(selector={"zone": "f"})), on="far")
        assert (case.moves(asked) is not None) == moves


def test_who_fits_needs_no_move_and_who_never_fits_gets_none() -> None:
    case = Running(make_node(devices=2))
    case.run(make_request("x", fraction(4096)))
    assert case.moves(make_request("asked", whole())) is None
    assert case.moves(make_request("asked", whole(3))) is None
    assert case.moves(make_request("asked", whole(), rules=NodeRules(selector={"no": "where"}))) is None


def test_a_plan_of_yesterday_is_not_carried_out() -> None:
    case = Running(make_node("a", devices=1), make_node("b", devices=1))
    for name, node in (("x", "a"), ("y", "b")):
        case.run(make_request(name, fraction(4096)), on=node)
    plan = case.moves(make_request("asked", whole()))
    assert plan is not None
    target = plan.moves[0].after.node
    case.run(make_request("late", fraction(74_000)), on=target)
    before = case.picture()
    assert not carry_out(case.engine, plan)
    assert case.picture() == before


def test_the_fleet_is_the_same_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Running(make_node("a", devices=1), make_node("b", devices=1))
    for name, node in (("x", "a"), ("y", "b")):
        case.run(make_request(name, fraction(4096)), on=node)
    before, decide = case.picture(), case.engine.decide

    def fails(request: PodRequest) -> Allocation | None:
        if request.name != "asked":
            raise RuntimeError("in the midst of it")
        return decide(request)

    monkeypatch.setattr(case.engine, "decide", fails)
    with pytest.raises(RuntimeError):
        fewest_moves(case.engine, make_request("asked", whole()), case.requests)
    assert case.picture() == before


@given(
    st.sampled_from([*SHARED, CUT[0]]),
    st.integers(2, 4),
    st.lists(st.tuples(st.integers(0, 3), fractions(1)), min_size=4, max_size=8),
    st.sampled_from([whole(), fraction(60_000, 50), fraction(30_000, 60), fraction(20_000, 10, count=2)]),
)
@settings(max_examples=100)
def test_any_plan_carried_out_leaves_the_books_right(
    kind: Kind, nodes: int, pods: list[tuple[int, Ask]], wanted: Ask
) -> None:
    case = Running(*(make_node(f"node-{i}", kind, 1) for i in range(nodes)))
    for index, (drawn, ask) in enumerate(pods):
        # Every node has one, the rest lies where it falls and not where it would be put; all small enough to move.
        node = index if index < nodes else drawn % nodes
        small = msgspec.structs.replace(ask, memory_mib=ask.memory_mib // 8 + 1, memory_percent=0, cores_percent=10)
        case.run(make_request(f"pod-{index}", small), on=f"node-{node}")
    asked = make_request("asked", wanted)
    plan = case.moves(asked)
    if plan is None:
        return
    assert 1 <= len(plan.moves) <= MOST_MOVES
    assert not case.engine.fits(asked)
    assert carry_out(case.engine, plan)
    case.really_move(plan)
    assert case.fleet.allocation(asked.key) == plan.allocation
