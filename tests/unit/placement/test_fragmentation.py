"""The measure of fragmentation, popularity and protection."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from terrazzo.model.allocation import Allocation
from terrazzo.model.node import Node
from terrazzo.model.request import Ask, Pattern
from terrazzo.placement import landscape
from terrazzo.placement.engine import Engine
from terrazzo.placement.fleet import STATE, Fleet
from terrazzo.placement.geometry import cuts_of
from terrazzo.placement.landscape import MARGIN, Landscape
from terrazzo.placement.popularity import COVER, GROWTH, WHOLE_DEVICE, WINDOW, Popularity, class_of
from terrazzo.placement.protection import Reserve, shield, spared, unreserved
from terrazzo.placement.rows import After
from terrazzo.placement.tables import SCALE, compile_ask, compile_mix
from terrazzo.testing.builders import CUT, SHARED, Kind, fraction, make_node, make_request, whole


def percent(share: int) -> Ask:
    return Ask(memory_percent=share, cores_percent=share)


@pytest.mark.parametrize("kind", SHARED, ids=str)
def test_small_pods_leave_a_device_whole_before_anything_was_learnt(kind: Kind) -> None:
    fleet = Fleet([make_node(kind=kind, devices=2)])
    engine = Engine(fleet)
    for name, mib in (("a", 3000), ("b", 5000)):
        found = engine.decide(make_request(name, fraction(mib)))
        assert found is not None
        fleet.grant(found)
    assert sum(not view.holders for view in fleet.devices("node-0")) == 1


def test_worth_of_a_node_by_hand() -> None:
    """Two cards, one with 60 % left: halves can use 1600 thousandths, wholes 1000."""
    fleet = Fleet([make_node(devices=2, cpu_milli=None)])
    fleet.grant(_grant(fleet, 40))
    popularity = Popularity()
    for index in range(10):
        popularity.add(class_of(make_request(f"half-{index}", percent(50))))
        popularity.add(class_of(make_request(f"whole-{index}", whole())))
    mix = compile_mix(popularity.mix(), fleet.kinds)
    land = Landscape(fleet, mix)
    land.refresh()
    usable = {int(mix.amount[1, shape]): float(land.usable[0, shape]) for shape in range(2)}
    assert usable == {500: 1600.0, 1000: 1000.0}
    weight = dict(zip(mix.amount[1, mix.shape].tolist(), mix.weight.tolist(), strict=True))
    assert land.worth[0] == weight[500] * 1600 + weight[1000] * 1000


def test_cpu_caps_what_a_class_can_use() -> None:
    fleet = Fleet([make_node(devices=8, cpu_milli=8000)])
    popularity = Popularity()
    popularity.add(class_of(make_request("hungry", percent(50), cpu_milli=4000)))
    mix = compile_mix(popularity.mix(), fleet.kinds)
    land = Landscape(fleet, mix)
    land.refresh()
    hungry = int(np.flatnonzero(mix.cpu_milli == 4000)[0])
    assert land.caps(fleet.cpu_milli[:1], fleet.grid[:1, 0, 0])[0, hungry] == 2 * 500 * MARGIN


def test_without_cpu_left_a_class_that_needs_none_is_not_capped() -> None:
    fleet = Fleet([make_node(devices=8, cpu_milli=0)])
    popularity = Popularity()
    popularity.add(class_of(make_request("idle", percent(50), cpu_milli=0)))
    popularity.add(class_of(make_request("hungry", percent(40), cpu_milli=1000)))
    mix = compile_mix(popularity.mix(), fleet.kinds)
    land = Landscape(fleet, mix)
    caps = land.caps(fleet.cpu_milli[:1], fleet.grid[:1, 0, 0])[0]
    assert caps[int(np.flatnonzero(mix.cpu_milli == 1000)[0])] == 0
    assert (caps[np.flatnonzero(mix.cpu_milli == 0)] > 8000).all()


def test_who_asks_for_two_cannot_use_one() -> None:
    fleet = Fleet([make_node("one", devices=1, cpu_milli=None), make_node("two", devices=2, cpu_milli=None)])
    popularity = Popularity()
    popularity.add(class_of(make_request("pair", whole(2))))
    mix = compile_mix(popularity.mix(), fleet.kinds)
    land = Landscape(fleet, mix)
    land.refresh()
    assert land.worth[:2].tolist() == [0, 2000 * mix.weight.sum()]


@pytest.mark.parametrize("kind", CUT, ids=str)
def test_a_slice_changes_the_look_of_its_device_as_the_geometry_says(kind: Kind) -> None:
    fleet = Fleet([make_node(kind=kind, devices=1)])
    land = Landscape(fleet, compile_mix(Popularity().mix(), fleet.kinds))
    land.refresh()
    device = fleet.device(0, 0)
    assert device.geometry is not None
    cuts = cuts_of(device.geometry)
    for profile in device.geometry.profiles:
        ask = Ask(profile=profile.name)
        after = After(compile_ask(make_request("pod", ask), ask, fleet.kinds, {}), land)
        then = int(after.of(land.look[0])[0])
        assert land.looks[STATE, then] == cuts.following(profile, {})[0] != 0


def test_devices_that_look_alike_share_their_figures() -> None:
    fleet = Fleet([make_node(f"node-{i}", devices=4) for i in range(20)])
    land = Landscape(fleet, compile_mix(Popularity().mix(), fleet.kinds))
    land.refresh()
    assert len(np.unique(land.look[:20, :4])) == 1
    assert land.first[:20, :4].sum(axis=1).tolist() == [1] * 20
    fleet.grant(_grant(fleet, 40))
    land.refresh()
    assert len(np.unique(land.look[:20, :4])) == 2
    assert sorted(land.first[:20, :4].sum(axis=1).tolist()) == [1] * 19 + [2]


@pytest.mark.parametrize("strategy", ["fragmentation", "pack", "spread"])
def test_numbering_looks_anew_changes_no_decision(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def walk() -> list[Allocation | None]:
        fleet = Fleet([make_node(f"node-{i}", SHARED[i % 2], 4) for i in range(6)])
        engine = Engine(fleet)
        found: list[Allocation | None] = []
        for index in range(120):
            request = make_request(f"p-{index}", percent((10, 25, 81, 40)[index % 4]), strategy=strategy)
            engine.learn(request)
            found.append(engine.decide(request))
            if found[-1] is not None:
                fleet.grant(found[-1])
            if index % 3 == 0:
                fleet.release(f"uid-p-{index // 2}")
        return found

    usual = walk()
    monkeypatch.setattr(landscape, "SPARE", -(1 << 20))  # always more than there is room for
    assert walk() == usual
    assert any(usual)


def _grant(fleet: Fleet, share: int) -> Allocation:
    found = Engine(fleet).decide(make_request("first", percent(share)))
    assert found is not None
    return found


def test_a_hole_is_filled_rather_than_a_card_opened() -> None:
    fleet = Fleet([make_node(f"node-{i}", devices=1) for i in range(2)])
    engine = Engine(fleet)
    for index in range(30):
        engine.learn(make_request(f"large-{index}", percent(81)))
        engine.learn(make_request(f"small-{index}", percent(16)))
    first = engine.decide(make_request("large", percent(81)))
    assert first is not None
    fleet.grant(first)
    second = engine.decide(make_request("small", percent(16)))
    assert second is not None
    assert second.node == first.node


def test_weights_are_whole_numbers_that_add_up() -> None:
    popularity = Popularity()
    for index, share in enumerate((10, 20, 50, 100)):
        for number in range(index + 1):
            popularity.add(class_of(make_request(f"p-{share}-{number}", percent(share))))
    fleet = Fleet([make_node()])
    mix = compile_mix(popularity.mix(), fleet.kinds)
    assert mix.weight.dtype == np.int64
    assert abs(mix.total - SCALE) <= len(mix.weight)


class TestPopularity:
    def test_before_anything_came_the_mix_is_a_whole_device(self) -> None:
        assert [weighted.kind for weighted in Popularity().mix()] == [WHOLE_DEVICE]

    def test_estimates_grow_apart(self) -> None:
        popularity, at = Popularity(), []
        for number in range(100):
            before = popularity.generation
            popularity.add(class_of(make_request("p", percent(number % 3 + 1))))
            if popularity.generation != before:
                at.append(number + 1)
        assert at[:4] == [1, 2, 3, 5]
        assert all(later >= GROWTH * earlier for earlier, later in pairwise(at))

    def test_rare_classes_are_left_out_of_the_mix_but_not_of_everything(self) -> None:
        popularity = Popularity()
        for number in range(1000):
            popularity.add(class_of(make_request("p", percent(50 if number % 100 else 7))))
        asks = [kind.ask for kind, _ in popularity.mix() if kind.ask is not None]
        assert percent(7) not in asks
        assert percent(7) in [kind.ask for kind, _ in popularity.everything()]
        assert 0 < COVER < 1

    def test_old_arrivals_fade(self) -> None:
        popularity = Popularity()
        for _ in range(WINDOW + 10):
            popularity.add(class_of(make_request("old", percent(10))))
        for _ in range(4 * WINDOW):
            popularity.add(class_of(make_request("new", percent(90))))
        assert popularity.mix()[0].kind.ask == percent(90)
        assert sum(count for _, count in popularity.export()) <= 2 * WINDOW

    @given(st.lists(st.integers(1, 100), max_size=60))
    def test_export_and_load_give_the_same_mix(self, shares: list[int]) -> None:
        popularity = Popularity()
        for share in shares:
            popularity.add(class_of(make_request("p", percent(share))))
        copy = Popularity()
        copy.load(popularity.export())
        again = Popularity()
        again.load(copy.export())
        assert copy.mix() == again.mix()
        assert copy.export() == popularity.export()


def two_models() -> Fleet:
    scarce = [make_node(f"scarce-{i}", SHARED[0], 4) for i in range(2)]
    return Fleet([*scarce, *(make_node(f"plenty-{i}", Kind("nvidia", "L40S"), 4) for i in range(2))])


def test_who_may_go_anywhere_leaves_what_others_need() -> None:
    fleet = two_models()
    engine = Engine(fleet)
    for index in range(40):
        engine.learn(make_request(f"bound-{index}", whole(), model=Pattern(("A100",))))
        engine.learn(make_request(f"free-{index}", whole()))
    for index in range(8):
        found = engine.decide(make_request(f"free-{index}", whole()))
        assert found is not None
        fleet.grant(found)
        assert found.node.startswith("plenty")
    late = engine.decide(make_request("late", whole()))
    assert late is not None  # nobody waits for the sake of the rule
    assert late.node.startswith("scarce")


def test_nothing_is_kept_where_nobody_is_bound() -> None:
    fleet = two_models()
    engine = Engine(fleet)
    for index in range(40):
        engine.learn(make_request(f"free-{index}", whole()))
    found = engine.decide(make_request("free", whole()))
    assert found is not None
    assert found.node.startswith("scarce")


def test_a_shield_concerns_only_what_can_be_avoided() -> None:
    kinds = np.array([False, True, False])
    both = np.array([False, True, True])
    level = Reserve(kinds, 0.5)
    assert shield(kinds, (level,)) is None
    concern = shield(both, (level,))
    assert concern is not None
    assert unreserved(concern, np.array([0, 100, 10_000])).tolist() == [False, False, True]
    assert unreserved(concern, np.array([0, 0, 10_000])).tolist() == [False, False, True]


@given(
    st.lists(st.tuples(st.lists(st.booleans(), min_size=4, max_size=4), st.floats(0.01, 1)), min_size=1, max_size=5),
    st.lists(st.integers(0, 5000), min_size=4, max_size=4),
)
def test_one_kind_is_judged_as_all_are(sets: list[tuple[list[bool], float]], idle: list[int]) -> None:
    can = np.array([False, True, True, True, True])
    levels = tuple(Reserve(np.array([False, *kinds]), demand) for kinds, demand in sets)
    concern = shield(can, levels)
    left = np.array([0, *idle])
    if concern is not None:
        for kind in range(1, 5):
            if left[kind]:
                assert spared(concern, left, kind) == unreserved(concern, left)[kind]


def test_large_nodes_are_kept_for_pods_of_many_devices() -> None:
    small = [make_node(f"small-{i}", Kind("nvidia", "L40S"), 2) for i in range(4)]
    fleet = Fleet([make_node("large", SHARED[0], 8), *small])
    engine = Engine(fleet)
    for index in range(20):
        engine.learn(make_request(f"eight-{index}", whole(8)))
        engine.learn(make_request(f"one-{index}", whole()))
    found = engine.decide(make_request("one", whole()))
    assert found is not None
    assert found.node != "large"


def test_dropped_nodes_take_nothing_and_come_back_with_their_grants() -> None:
    fleet = Fleet([make_node("a"), make_node("b")])
    engine = Engine(fleet)
    found = engine.place_on(make_request("pod", whole(2)), "a")
    assert isinstance(found, Allocation)
    fleet.grant(found)
    node = fleet.node("a")
    assert node is not None
    fleet.drop_node("a")
    other = engine.decide(make_request("other", whole(2)))
    assert other is not None
    assert other.node == "b"
    fleet.put_node(node)
    assert all(view.alone for view in fleet.devices("a"))
    fleet.put_node(Node(name="a", devices=node.devices[:1]))
    assert fleet.release("uid-pod") is not None
    assert all(not view.holders for view in fleet.devices("a"))
