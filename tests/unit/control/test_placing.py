from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from world import books, node, pod

from terrazzo.control.extender import Extender
from terrazzo.control.observed import Figures, start_log
from terrazzo.control.placing import SOFT_RANKS, STEP, UNMANAGED, Placer
from terrazzo.control.plain import PlainNodes, counts_of
from terrazzo.model.errors import LedgerError
from terrazzo.model.policy import Policy
from terrazzo.placement import events as ev
from terrazzo.testing.builders import SHARED, Kind, make_node
from terrazzo.wire import extender as wire

PART = {"terrazzo.io/gpu": 1, "terrazzo.io/gpu-memory": "8Gi"}
WHOLE = {"nvidia.com/gpu": 1}


def _world(nodes: int = 4, devices: int = 2, top: int = 100) -> tuple[Any, Placer, list[str]]:
    made, _ = books([make_node(f"n{i}", SHARED[0], devices) for i in range(nodes)])
    return made, Placer(made, top), [f"n{i}" for i in range(nodes)]


def test_ranks_are_distinct_and_far_apart() -> None:
    _, placer, names = _world()
    scores = sorted(placer.filter(pod("p", PART), names).ranks.values())
    assert len(set(scores)) == 4
    assert min(b - a for a, b in pairwise(scores)) >= STEP


def test_only_the_best_nodes_go_back_unless_the_pod_has_preferences() -> None:
    _, placer, names = _world(nodes=20, top=5)
    assert len(placer.filter(pod("p", PART), names).ranks) == 5
    spread = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]
    soft = placer.filter(pod("q", PART, topologySpreadConstraints=spread), names).ranks
    assert len(soft) == 20
    assert max(soft.values()) <= SOFT_RANKS


def test_only_nodes_that_were_asked_about_are_looked_at() -> None:
    _, placer, _ = _world()
    assert set(placer.filter(pod("p", PART), ["n2", "nowhere"]).ranks) == {"n2"}


def test_prioritize_repeats_what_filter_found_without_deciding_again() -> None:
    made, placer, names = _world()
    ranks = placer.filter(pod("p", PART), names).ranks
    scored = made.engine.scored
    assert placer.prioritize(pod("p", PART), names) == ranks
    assert made.engine.scored == scored
    assert placer.prioritize(pod("other", PART), names[:2]).keys() == {"n0", "n1"}


@pytest.mark.parametrize("kind", SHARED, ids=str)
def test_every_node_has_a_reason_when_none_does(kind: Kind) -> None:
    made, _ = books([make_node(f"n{i}", kind, 2) for i in range(3)])
    made.node_seen(node(make_node("plain", kind, 0), managed=False, extended={"nvidia.com/gpu": 1}))
    made.set_policy(Policy(vendors=(kind.vendor,)))
    verdict = Placer(made, 100).filter(pod("p", {"terrazzo.io/gpu-memory": "900Gi"}), ["n0", "n1", "n2", "plain", "x"])
    assert not verdict.ranks
    assert set(verdict.hopeless) == {"n0", "n1", "n2", "plain", "x"}
    assert verdict.hopeless["plain"] == UNMANAGED
    assert verdict.hopeless["n0"] == "node(s) with too small devices"


def test_on_the_nominated_node_the_shortage_may_pass() -> None:
    made, placer, names = _world(nodes=1, devices=1)
    first = made.engine.decide(made.request_of(pod("holder", WHOLE)))
    made.ledger.apply(ev.Committed(first))
    made.pod_seen(pod("p", WHOLE, status={"nominatedNodeName": "n0"}))
    verdict = placer.filter(pod("p", WHOLE), names)
    assert set(verdict.failed) == {"n0"}
    assert not verdict.hopeless


def test_a_place_is_kept_for_a_nominated_pod_that_comes_first() -> None:
    made, placer, names = _world(nodes=1, devices=1)
    made.pod_seen(pod("dear", WHOLE, priority=10, status={"nominatedNodeName": "n0"}))
    assert not placer.filter(pod("p", PART), names).ranks
    assert placer.filter(pod("dear", WHOLE, priority=10), names).ranks
    assert placer.filter(pod("dearer", WHOLE, priority=11), names).ranks
    with pytest.raises(LedgerError, match="comes first"):
        placer.choose(made.request_of(pod("p", PART)), "n0")
    assert not list(made.ledger.fleet.allocations()), "asking takes nothing"


def test_a_pod_whose_bind_is_under_way_is_looked_at_as_if_it_held_nothing() -> None:
    made, placer, names = _world(nodes=1, devices=1)
    found = made.engine.decide(made.request_of(pod("p", WHOLE)))
    made.ledger.apply(ev.Committed(found))
    assert placer.filter(pod("p", WHOLE), names).ranks
    assert made.ledger.fleet.allocation("uid-p") == found


def test_whole_cards_in_the_vendors_word_go_to_its_own_nodes_first() -> None:
    made, placer, names = _world(nodes=2)
    made.node_seen(node(make_node("plain", SHARED[0], 0), managed=False, extended={"nvidia.com/gpu": 1}))
    names = [*names, "plain"]
    assert next(iter(placer.filter(pod("p", WHOLE), names).ranks)) == "plain"
    assert "plain" not in placer.filter(pod("q", PART), names).ranks
    assert "plain" not in placer.filter(pod("r", {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000}), names).ranks
    made.pod_seen(pod("taken", WHOLE, node="plain"))
    assert "plain" not in placer.filter(pod("s", WHOLE), names).ranks
    with pytest.raises(LedgerError, match="not enough"):
        placer.choose(made.request_of(pod("s", WHOLE)), "plain")


def test_counts_of_vendors_nodes() -> None:
    plain = PlainNodes()
    plain.put("a", [("nvidia.com/gpu", 4), ("cpu", 8), ("example.com/fpga", 2)])
    plain.put("b", [("nvidia.com/gpu", 2)])
    made, _ = books()
    counts = counts_of(made.request_of(pod("p", {"nvidia.com/gpu": 2})))
    assert counts == {"nvidia.com/gpu": 2}
    assert plain.fitting(["a", "b", "c"], counts) == ["b", "a"]
    plain.take("p", "b", counts)
    plain.take("p", "b", counts)
    assert plain.fitting(["a", "b"], counts) == ["a"]
    plain.give_back("p")
    plain.give_back("p")
    assert plain.left("b", "nvidia.com/gpu") == 2
    assert plain.left("a", "example.com/fpga") == 0
    assert counts_of(made.request_of(pod("p", {"nvidia.com/mig-1g.10gb": 2}))) == {"nvidia.com/mig-1g.10gb": 2}
    assert counts_of(made.request_of(pod("p", PART))) is None
    assert counts_of(made.request_of(pod("p", {"terrazzo.io/gpu": 1}))) is None


def test_preemption_by_others_only_where_devices_fit_afterwards() -> None:
    made, placer, _ = _world(nodes=2, devices=1)
    for index in range(2):
        found = made.engine.decide(made.request_of(pod(f"v{index}", WHOLE)))
        made.ledger.apply(ev.Committed(found))
    holder = {a.node: a.pod for a in made.ledger.fleet.allocations()}
    victims = {"n0": [holder["n0"]], "n1": ["uid-of-a-cpu-pod"], "nowhere": []}
    assert placer.survivors(pod("p", WHOLE, priority=5), victims) == ["n0"]
    assert len(list(made.ledger.fleet.allocations())) == 2


def test_a_crowd_is_a_crowd_only_where_the_pod_fits_nowhere() -> None:
    made, placer, _ = _world(nodes=1, devices=1)
    request = made.request_of(pod("p", WHOLE))
    gates = [{"name": "terrazzo.io/devices"}]
    for index in range(3):
        made.pod_seen(pod(f"w{index}", WHOLE, schedulingGates=gates))
    assert not placer.is_crowded(request, 3), "it fits"
    made.ledger.apply(ev.Committed(made.engine.decide(made.request_of(pod("holder", WHOLE)))))
    assert placer.is_crowded(request, 3)
    assert not placer.is_crowded(request, 4)


# -- bytes ---------------------------------------------------------------------------------------------------------


class _NoBinds:
    async def bind(self, *_: str) -> None:
        raise AssertionError


async def _at_once() -> None:
    return


def _extender(nodes: int = 3) -> Extender:
    _, placer, _ = _world(nodes)
    return Extender(placer, _NoBinds(), Figures(), start_log("error"), _at_once)  # type: ignore[arg-type]


def test_filter_in_the_words_of_kube_scheduler() -> None:
    body = {
        "Pod": {"metadata": {"name": "p", "namespace": "d", "uid": "u"}, "spec": {"containers": [
            {"name": "c", "resources": {"limits": {"terrazzo.io/gpu-memory": "8Gi"}}}]}},
        "Nodes": None, "NodeNames": ["n0", "n1", "n2"],
    }  # fmt: skip
    answer = asyncio.run(_extender().filter(json.dumps(body).encode()))
    assert answer.status == 200
    assert set(json.loads(answer.body)["NodeNames"]) == {"n0", "n1", "n2"}
    scores = json.loads(asyncio.run(_extender().prioritize(json.dumps(body).encode())).body)
    assert {each["Host"] for each in scores} == {"n0", "n1", "n2"}
    body["NodeNames"] = None
    said = json.loads(asyncio.run(_extender().filter(json.dumps(body).encode())).body)
    assert "nodeCacheCapable" in said["Error"]


def test_a_pod_of_three_megabytes_is_answered() -> None:
    pad = {"annotations": {f"k{i}": "x" * 1000 for i in range(3000)}, "uid": "u", "name": "p", "namespace": "d"}
    body = {"Pod": {"metadata": pad, "spec": {}}, "NodeNames": ["n0"]}
    assert json.loads(asyncio.run(_extender().filter(json.dumps(body).encode())).body)["NodeNames"] == ["n0"]


_KEYS = st.sampled_from(["Pod", "NodeNames", "metadata", "spec", "PodUID", "PodName", "Node", "uid", "Pods", "x"])
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(st.binary(max_size=60) | _json.map(lambda value: json.dumps(value).encode()))
@settings(max_examples=150, deadline=None)
def test_whatever_comes_in_an_answer_goes_out(body: bytes) -> None:
    extender = _shared
    for verb in (extender.filter, extender.prioritize, extender.preempt):
        answer = asyncio.run(verb(body))
        assert answer.status in {200, 400}
        msgspec.json.decode(answer.body)


_shared = _extender()


def test_a_bind_that_cannot_be_read_is_an_error_in_words() -> None:
    answer = asyncio.run(_extender().bind(b"{"))
    assert "cannot be read" in msgspec.json.decode(answer.body, type=wire.BindingResult).error
