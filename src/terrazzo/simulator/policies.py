"""Policies by name: what becomes of the cards, what becomes of the asks, and who decides."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from terrazzo.model.errors import InputError
from terrazzo.model.node import Node
from terrazzo.model.policy import STRATEGIES, Policy
from terrazzo.model.request import PodRequest
from terrazzo.placement.engine import Engine
from terrazzo.placement.fleet import Fleet
from terrazzo.simulator import partitions, rewrites
from terrazzo.simulator.baselines import BestFit, FirstFit, Placer, Random
from terrazzo.simulator.fgd import Fgd
from terrazzo.simulator.hami import Hami, with_slots
from terrazzo.simulator.rewrites import Rewrite

MakePlacer = Callable[[Fleet, Sequence[PodRequest], np.random.Generator], Placer]


class Approach(NamedTuple):
    """One policy.

    Attributes:
        says: what it does, in a few words, for reports.
        placer: makes the one who decides, from the fleet, all requests to come (only ``fgd`` looks) and chance.
        nodes: what becomes of a node.
        prepare: what becomes of the fleet, from all (rewritten) requests to come; by default of each node by itself.
        rewrite: makes, from the nodes as they were, what becomes of a pod.
        fenced: whether a pod is kept from taking more memory than it was granted.
    """

    says: str
    placer: MakePlacer
    nodes: Callable[[Node], Node] = lambda node: node
    rewrite: Callable[[Sequence[Node]], Rewrite] = lambda _: lambda request: request
    fenced: bool = True
    prepare: Callable[[Sequence[Node], Sequence[PodRequest]], tuple[Node, ...]] | None = None

    def fleet(self, nodes: Sequence[Node], requests: Sequence[PodRequest]) -> tuple[Node, ...]:
        """Return the fleet as this policy shares it.

        Args:
            nodes: as they are.
            requests: all to come, rewritten.
        """
        if self.prepare is not None:
            return self.prepare(nodes, requests)
        return tuple(self.nodes(node) for node in nodes)


def _engine(strategy: str) -> MakePlacer:
    return lambda fleet, _requests, _rng: Engine(fleet, Policy(strategy=strategy))


_OURS = {
    "fragmentation": "expected fragmentation over what was asked lately",
    "pack": "fullest first",
    "spread": "emptiest first",
    "topology": "best linked devices first",
}
_WHOLE = Approach(
    "every ask takes whole devices, fullest node first",
    lambda fleet, _requests, _rng: BestFit(fleet),
    rewrite=rewrites.whole_cards,
)
APPROACHES: dict[str, Approach] = {
    **{name: Approach(_OURS[name], _engine(name)) for name in STRATEGIES},
    "fgd": Approach(
        "fragmentation gradient descent as published, the mix known beforehand",
        lambda fleet, requests, _rng: Fgd(fleet, requests),
    ),
    "bestfit": Approach("least left on the node, fullest device", lambda fleet, _requests, _rng: BestFit(fleet)),
    "first-fit": Approach("first node, first devices", lambda fleet, _requests, _rng: FirstFit(fleet)),
    "random": Approach("any node, any devices", lambda fleet, _requests, rng: Random(fleet, rng)),
    "whole-cards": _WHOLE,
    "time-slicing": Approach(
        f"{rewrites.REPLICAS} pods per NVIDIA card in turns, memory not fenced; other devices whole",
        lambda fleet, _requests, _rng: BestFit(fleet),
        nodes=rewrites.time_sliced_node,
        rewrite=rewrites.time_sliced_ask,
        fenced=False,
    ),
    "mig": Approach(
        "NVIDIA cards cut on demand into MIG slices, asks rounded up; other devices whole",
        _engine("pack"),
        nodes=rewrites.mig_node,
        rewrite=rewrites.mig_ask,
    ),
    "mig-static": Approach(
        "NVIDIA cards cut beforehand into the slices that the pods to come need; other devices whole",
        lambda fleet, _requests, _rng: BestFit(fleet),
        rewrite=rewrites.mig_ask,
        prepare=partitions.best_static,
    ),
    "hami": Approach(
        "HAMi's defaults: ten slots, fullest node before the pod is there, emptiest devices",
        lambda fleet, _requests, _rng: Hami(fleet),
        nodes=with_slots,
    ),
}
ALIASES = {"terrazzo": "fragmentation"}
NAMES = tuple(sorted({*APPROACHES, *ALIASES}))


def approach(name: str) -> Approach:
    """Return the policy of that name.

    Raises:
        InputError: there is none; with the nearest name.
    """
    found = APPROACHES.get(ALIASES.get(name, name))
    if found is None:
        close = difflib.get_close_matches(name, NAMES, n=1)
        remedy = f"write {close[0]}" if close else f"the policies are {', '.join(NAMES)}"
        raise InputError(f"there is no policy {name!r}", remedy=remedy)
    return found
