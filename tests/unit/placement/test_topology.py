"""Which devices belong together, from link groups and from matrices."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terrazzo.model.node import Node
from terrazzo.placement import topology
from terrazzo.placement.engine import Engine
from terrazzo.placement.fleet import Fleet
from terrazzo.testing.builders import SHARED, Kind, fraction, make_device, make_request, whole


def box(kind: Kind, links: Sequence[tuple[str, ...]], numa: list[int] | None = None) -> Node:
    devices = tuple(
        make_device(kind, index=i, links=each, numa=numa[i] if numa else None) for i, each in enumerate(links)
    )
    return Node(name="node-0", devices=devices)


@pytest.mark.parametrize("kind", SHARED, ids=str)
@pytest.mark.parametrize("strategy", ["topology", "fragmentation"])
def test_four_of_eight_stay_within_one_group(kind: Kind, strategy: str) -> None:
    node = box(kind, [("left",) if i % 2 else ("right",) for i in range(8)])
    found = Engine(Fleet([node])).decide(make_request("pod", whole(4), strategy=strategy))
    assert found is not None
    chosen = {use.uuid for use in found.uses}
    assert len({d.links for d in node.devices if d.uuid in chosen}) == 1


@pytest.mark.parametrize("kind", SHARED, ids=str)
def test_any_four_behind_one_switch_are_as_good(kind: Kind) -> None:
    node = box(kind, [("switch",)] * 8)
    found = Engine(Fleet([node])).decide(make_request("pod", whole(4), strategy="topology"))
    assert found is not None
    chosen = [d for d in node.devices if d.uuid in {use.uuid for use in found.uses}]
    assert topology.quality(chosen) == 6 * 10


def test_the_better_linked_node_wins() -> None:
    loose = Node(name="loose", devices=tuple(make_device(node="loose", index=i) for i in range(2)))
    tied = Node(name="tied", devices=tuple(make_device(node="tied", index=i, links=("nv",)) for i in range(2)))
    found = Engine(Fleet([loose, tied])).decide(make_request("pod", whole(2), strategy="topology"))
    assert found is not None
    assert found.node == "tied"


def test_numa_breaks_ties_only() -> None:
    node = box(SHARED[0], [("a",), ("b",), ("a",), ("b",)], numa=[0, 0, 1, 1])
    chosen = topology.together(node.devices, 2)
    assert {node.devices[i].links for i in chosen} in ({("a",)}, {("b",)})
    plain = box(SHARED[0], [()] * 4, numa=[0, 1, 0, 1])
    assert topology.together(plain.devices, 2) == (0, 2)


def test_numa_bind_is_a_rule() -> None:
    node = box(SHARED[0], [()] * 4, numa=[0, 0, 1, 1])
    engine = Engine(Fleet([node]))
    found = engine.decide(make_request("two", fraction(1024, count=2), numa_bind=True))
    assert found is not None
    assert len({d.numa for d in node.devices if d.uuid in {use.uuid for use in found.uses}}) == 1
    assert engine.decide(make_request("three", fraction(1024, count=3), numa_bind=True)) is None


def test_the_tightest_group_is_used_first() -> None:
    node = box(SHARED[0], [("large",)] * 4 + [("small",)] * 2)
    assert topology.together(node.devices, 2) == (4, 5)


@given(st.lists(st.frozensets(st.sampled_from("abc")), min_size=2, max_size=6), st.integers(1, 5), st.data())
def test_close_to_the_best_of_all_sets(groups: list[frozenset[str]], count: int, data: st.DataObject) -> None:
    numa = [data.draw(st.integers(0, 1)) for _ in groups]
    devices = box(SHARED[0], [tuple(sorted(each)) for each in groups], numa).devices
    count = min(count, len(devices))
    chosen = topology.together(devices, count)
    assert len(set(chosen)) == count
    if count in {2, len(devices)}:
        best = max(topology.quality([devices[i] for i in each]) for each in combinations(range(len(devices)), count))
        assert topology.quality([devices[i] for i in chosen]) >= best // 10 * 10 // 3


def test_a_matrix_becomes_groups() -> None:
    full = [[True] * 4 for _ in range(4)]
    assert topology.groups_from_matrix(full, "nv") == (("nv-0",),) * 4
    pairs = [[abs(i - j) == 1 for j in range(3)] for i in range(3)]
    assert topology.groups_from_matrix(pairs, "nv") == (("nv-0-1",), ("nv-0-1", "nv-1-2"), ("nv-1-2",))
    assert topology.groups_from_matrix([[False]], "nv") == ((),)
