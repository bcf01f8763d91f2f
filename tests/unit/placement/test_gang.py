"""All of a gang or none of it, in the order given, and nothing taken by asking."""

from __future__ import annotations

import pytest

from terrazzo.model.allocation import Allocation
from terrazzo.model.errors import LedgerError
from terrazzo.model.request import PodRequest
from terrazzo.placement.engine import Engine
from terrazzo.placement.fleet import Fleet
from terrazzo.placement.gang import place_gang
from terrazzo.placement.invariants import check_fleet
from terrazzo.testing.builders import SHARED, Kind, fraction, make_node, make_request, whole

KINDS = pytest.mark.parametrize("kind", SHARED, ids=str)


def picture(fleet: Fleet) -> tuple[object, ...]:
    nodes = [(fleet.devices(node.name), fleet.allocations_on(node.name)) for node in fleet.nodes()]
    return nodes, fleet.grid.tolist(), fleet.hosts[:4].tolist(), fleet.idle.tolist()


@KINDS
@pytest.mark.parametrize("members", [1, 3, 4, 5])
def test_all_or_none(kind: Kind, members: int) -> None:
    engine = Engine(Fleet([make_node("a", kind, 2), make_node("b", kind, 2)]))
    gang = [make_request(f"m{i}", whole()) for i in range(members)]
    before = picture(engine.fleet)
    found = place_gang(engine, gang)
    assert picture(engine.fleet) == before
    assert (found is None) == (members > 4)
    if found is not None:
        assert [each.pod for each in found] == [each.key for each in gang]
        for each in found:
            engine.fleet.grant(each)
        check_fleet(engine.fleet)


@KINDS
def test_the_small_ones_leave_the_large_one_its_place(kind: Kind) -> None:
    engine = Engine(Fleet([make_node("a", kind, 1), make_node("b", kind, 1)]))
    gang = [
        make_request("small-1", fraction(2048)),
        make_request("small-2", fraction(2048)),
        make_request("l", whole()),
    ]
    found = place_gang(engine, gang)
    assert found is not None
    assert found[0].node == found[1].node != found[2].node


def test_a_gang_of_nobody_is_placed() -> None:
    assert place_gang(Engine(Fleet([make_node()])), []) == ()


def test_who_holds_something_already_is_no_new_member() -> None:
    engine = Engine(Fleet([make_node(devices=4)]))
    old = make_request("old", whole())
    held = engine.decide(old)
    assert held is not None
    engine.fleet.grant(held)
    before = picture(engine.fleet)
    for gang in ([make_request("new", whole()), old], [make_request("twice", whole())] * 2):
        with pytest.raises(LedgerError, match="already holds"):
            place_gang(engine, gang)
        assert picture(engine.fleet) == before


def test_the_fleet_is_the_same_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(Fleet([make_node(devices=4)]))
    before, decide = picture(engine.fleet), engine.decide

    def fails(request: PodRequest) -> Allocation | None:
        if request.name == "m2":
            raise RuntimeError("in the midst of it")
        return decide(request)

    monkeypatch.setattr(engine, "decide", fails)
    with pytest.raises(RuntimeError):
        place_gang(engine, [make_request(f"m{i}", whole()) for i in range(3)])
    assert picture(engine.fleet) == before
