"""The same pods under several policies: what each of them places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from terrazzo.model.allocation import Allocation
from terrazzo.model.node import Node
from terrazzo.model.request import PodRequest
from terrazzo.placement.fleet import Fleet
from terrazzo.simulator import policies, rewrites

BASELINES = (
    ("whole cards", "whole-cards"),
    (f"time-slicing, {rewrites.REPLICAS} replicas a card", "time-slicing"),
    ("MIG, cut on demand", "mig"),
    ("HAMi's defaults", "hami"),
    ("Terrazzo", "terrazzo"),
)
"""What people have today, and this."""
_ENOUGH = 10_000


class Outcome(NamedTuple):
    """What a policy placed.

    Attributes:
        placed: allocations by request, in order.
        refused: requests that fitted nowhere.
    """

    placed: list[tuple[PodRequest, Allocation]]
    refused: list[PodRequest]

    def devices(self) -> list[tuple[str, str]]:
        """Return node and uuid of every device held, once for each pod on it."""
        return [(allocation.node, use.uuid) for _, allocation in self.placed for use in allocation.uses]


def place_all(policy: str, nodes: Sequence[Node], requests: Sequence[PodRequest]) -> Outcome:
    """Return what a policy makes of these pods, one after the other."""
    outcome = Outcome([], [])
    way = policies.approach(policy)
    rewrite = way.rewrite(nodes)
    asked = [rewrite(request) for request in requests]
    fleet = Fleet(way.fleet(nodes, asked))
    placer = way.placer(fleet, asked, np.random.default_rng(0))
    for request, wanted in zip(requests, asked, strict=True):
        placer.learn(wanted)
        found = placer.decide(wanted)
        if found is None:
            outcome.refused.append(request)
        else:
            fleet.grant(found)
            outcome.placed.append((request, found))
    return outcome


def fill(policy: str, nodes: Sequence[Node], kinds: Sequence[PodRequest]) -> Outcome:
    """Return what a policy places when pods of these kinds come in turn until none of them fits any more."""
    outcome = Outcome([], [])
    way = policies.approach(policy)
    rewrite = way.rewrite(nodes)
    asked = [rewrite(kind) for kind in kinds]
    fleet = Fleet(way.fleet(nodes, asked))
    placer = way.placer(fleet, asked, np.random.default_rng(0))
    left = list(range(len(kinds)))
    for turn in range(_ENOUGH):
        for place in tuple(left):
            name = f"{kinds[place].name}-{turn}"
            request = rewrite(msgspec.structs.replace(kinds[place], name=name, uid=name))
            placer.learn(request)
            found = placer.decide(request)
            if found is None:
                left.remove(place)
                outcome.refused.append(kinds[place])
            else:
                fleet.grant(found)
                outcome.placed.append((kinds[place], found))
        if not left:
            break
    return outcome
