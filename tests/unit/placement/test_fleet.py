"""Entries of the fleet: kinds told apart, shapes counted as nodes come and go, places of nodes that left used again."""

from __future__ import annotations

import pytest

from terrazzo.model.request import Ask
from terrazzo.model.unknown import Unknown
from terrazzo.placement.engine import Engine
from terrazzo.placement.fleet import Fleet
from terrazzo.placement.invariants import check_fleet
from terrazzo.placement.popularity import Popularity, class_of
from terrazzo.placement.shapes import Shapes
from terrazzo.testing.builders import CUT, SHARED, Kind, fraction, make_node, make_request, whole

KINDS = pytest.mark.parametrize("kind", SHARED, ids=str)


def _profile(name: str) -> Ask:
    return Ask(profile=name)


@KINDS
@pytest.mark.parametrize("first", ["told", "untold"])
def test_a_device_of_unknown_memory_is_no_device_of_one_mib(kind: Kind, first: str) -> None:
    plain = {"memory_step_mib": 1, "geometry": None, "mode": "slice"}
    told = make_node("told", kind, 1, device={**plain, "memory_mib": 1})
    untold = make_node("untold", kind, 1, device={**plain, "memory_mib": Unknown("?")})
    fleet = Fleet([told, untold] if first == "told" else [untold, told])
    assert fleet.kind[0, 0] != fleet.kind[1, 0]
    found = Engine(fleet).decide(make_request("a", fraction(1)))
    assert found is not None
    assert found.node == "told"


@KINDS
def test_nodes_that_come_and_go_for_ever_take_no_more_room(kind: Kind) -> None:
    fleet = Fleet([make_node("stays", kind)])
    engine = Engine(fleet)
    for turn in range(300):
        fleet.put_node(make_node(f"spot-{turn}", kind, 1))
        found = engine.decide(make_request("a", whole()), among=[f"spot-{turn}"])
        assert found is not None
        assert found.node == f"spot-{turn}"
        fleet.grant(found)
        fleet.release(found.pod)
        fleet.drop_node(f"spot-{turn}")
        assert engine.decide(make_request("a", whole()), among=[f"spot-{turn}"]) is None
    assert len(fleet) == 2
    assert [node.name for node in fleet.nodes()] == ["stays"]
    check_fleet(fleet)


def test_the_place_of_a_node_that_left_is_kept_while_its_pods_hold_it() -> None:
    fleet = Fleet([make_node("a"), make_node("b")])
    found = Engine(fleet).decide(make_request("p", fraction(1024)), among=["a"])
    assert found is not None
    fleet.grant(found)
    fleet.drop_node("a")
    fleet.put_node(make_node("c"))
    assert len(fleet) == 3
    fleet.put_node(make_node("a"))
    assert fleet.devices("a")[0].holders == (found.pod,)
    fleet.drop_node("a")
    fleet.release(found.pod)
    fleet.put_node(make_node("d", SHARED[1]))
    assert len(fleet) == 3
    assert fleet.node("a") is None
    assert not any(view.holders for view in fleet.devices("d"))
    check_fleet(fleet)


def test_a_node_that_came_back_to_its_place_keeps_it() -> None:
    fleet = Fleet([make_node("a")])
    fleet.drop_node("a")
    fleet.put_node(make_node("a"))
    fleet.put_node(make_node("b"))
    assert [node.name for node in fleet.nodes()] == ["a", "b"]
    assert len(fleet) == 2


def test_shapes_are_counted_and_only_new_ones_and_last_ones_matter() -> None:
    shapes = Shapes()
    shapes.put(0, 8000, [1, 1, 2])
    assert shapes.generation == 1
    shapes.put(1, 8000, [2, 1, 1])
    shapes.put(0, 8000, [1, 2, 1])
    assert shapes.generation == 1
    shapes.put(0, None, [])
    assert shapes.generation == 1
    assert shapes.reach() == {1: frozenset({(8000, 2)}), 2: frozenset({(8000, 1)})}
    shapes.put(1, 8000, [2])
    assert shapes.generation == 2
    assert shapes.reach() == {2: frozenset({(8000, 1)})}


@pytest.mark.parametrize("leaves", [True, False])
def test_what_is_reserved_goes_by_the_nodes_there_are_now(leaves: bool) -> None:
    """Pods of four devices are bound to the only model with four on a node, until another has them, too."""
    popularity = Popularity()
    popularity.load(((class_of(make_request("four", whole(4))), 9), (class_of(make_request("one", whole())), 3)))
    small, large = make_node("small", SHARED[1], 2), make_node("large", SHARED[0], 4)
    other = make_node("other", SHARED[1], 4)
    fleet = Fleet([small, large, other] if leaves else [small, large])
    engine = Engine(fleet, popularity=popularity)
    asked = make_request("asked", whole())
    engine.decide(asked)
    (fleet.drop_node("other") if leaves else fleet.put_node(other))
    now = engine.decide(asked)
    assert now == Engine(fleet, popularity=popularity).decide(asked)
    assert (engine._rows.row(asked, "fragmentation").shield is not None) == leaves


def test_popular_profiles_are_those_counted() -> None:
    popularity = Popularity()
    for name in ("1g.10gb", "1g.10gb", "3g.40gb"):
        ask = make_request("p", _profile(name))
        popularity.add(class_of(ask))
    assert popularity.profiles() == {"1g.10gb": 2, "3g.40gb": 1}
    other = Popularity()
    other.load(popularity.export())
    assert other.profiles() == popularity.profiles()
    assert Engine(Fleet([make_node(kind=CUT[0])]), popularity=other).fits(make_request("p", _profile("1g.10gb")))
