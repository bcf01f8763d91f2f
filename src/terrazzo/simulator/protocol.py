"""The protocol of the published openb figures: pods arrive one by one and stay; nothing waits, nothing leaves.

After each arrival, *arrived* is what was asked so far and *allocated* what was placed, both as percent of all devices.
The figure at 100 % is the mean of allocated over the arrivals at which arrived rounds to 100.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from terrazzo.model.node import Node
from terrazzo.placement.fleet import Fleet
from terrazzo.simulator import openb, policies
from terrazzo.simulator.openb import TracePod
from terrazzo.simulator.workload import Progress

MARKS = (95, 100, 130)
"""Percent arrived at which allocation is reported."""
_EVERY = 500
_POLICY_SEED = 20_000


class Curve(NamedTuple):
    """Allocation against arrival.

    Attributes:
        percent: per whole percent arrived, percent allocated.
        pods: how many arrived.
        placed: how many were placed.
    """

    percent: dict[int, float]
    pods: int
    placed: int

    def at(self, mark: int) -> float | None:
        """Return percent allocated at ``mark`` percent arrived; where nothing rounds to it, at the mark before.

        None where so much never arrived.
        """
        if not self.percent or mark > max(self.percent):
            return None
        return self.percent[max((each for each in self.percent if each <= mark), default=min(self.percent))]


def replay(
    nodes: Sequence[Node],
    pods: Sequence[TracePod],
    policy: str,
    seed: int,
    *,
    tune: float = 1.3,
    progress: Progress | None = None,
) -> Curve:
    """Return what ``policy`` allocates of the fleet.

    Args:
        nodes: of the trace.
        pods: of the trace.
        policy: name from ``policies``.
        seed: of shuffle, draws, order of nodes and, for ``random``, choice.
        tune: how much is asked in the end, as a multiple of the fleet.
        progress: called now and then.
    """
    way = policies.approach(policy)
    ordered = openb.node_order(nodes, seed)
    rewrite = way.rewrite(ordered)
    made = {pod: rewrite(pod.request("")) for pod in dict.fromkeys(pods)}
    asked = [made[pod] for pod in pods]
    fleet = Fleet(way.fleet(ordered, asked))
    placer = way.placer(fleet, asked, np.random.default_rng(seed + _POLICY_SEED))
    capacity = 1000 * sum(len(node.devices) for node in nodes)
    order = openb.sequence(pods, capacity, tune, seed)
    sums: dict[int, list[float]] = {}
    arrived = allocated = placed = 0
    for number, index in enumerate(order):
        pod = pods[index]
        arrived += pod.demand_milli
        request = rewrite(pod.request(f"pod-{number}"))
        placer.learn(request)
        found = placer.decide(request)
        if found is not None:
            fleet.grant(found)
            allocated += pod.demand_milli
            placed += 1
        entry = sums.setdefault(round(arrived / capacity * 100), [0.0, 0])
        entry[0] += 100.0 * allocated / capacity
        entry[1] += 1
        if progress is not None and (number + 1) % _EVERY == 0:
            progress(number + 1, len(order))
    if progress is not None:
        progress(len(order), len(order))
    return Curve({percent: total / count for percent, (total, count) in sums.items()}, len(order), placed)


def openb_runs(
    directory: Path | str,
    trace: str,
    policy: str,
    seeds: Iterable[int],
    *,
    tune: float = 1.3,
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """Return, per seed, ``{"trace", "seed", "policy", "allocation": {"95", "100", "130"}}`` in percent.

    Args:
        directory: folder with the openb CSV files.
        trace: name of a pod list, such as ``default``.
        policy: name from ``policies``.
        seeds: one run each.
        tune: how much is asked in the end, as a multiple of the fleet.
        progress: called now and then with pods done and pods in all, over all seeds.

    Raises:
        InputError: unknown policy, or a file that is missing or wrong.
    """
    policies.approach(policy)
    folder = Path(directory)
    nodes = openb.read_nodes(folder / openb.NODES)
    pods = openb.read_pods(folder / openb.PODS.format(trace=trace))
    wanted = list(seeds)
    runs = []
    for number, seed in enumerate(wanted):
        curve = replay(nodes, pods, policy, seed, tune=tune, progress=_part(progress, number, len(wanted)))
        marks = {str(mark): curve.at(mark) for mark in MARKS}
        allocation = {mark: None if value is None else round(value, 4) for mark, value in marks.items()}
        runs.append({"trace": trace, "seed": seed, "policy": policy, "allocation": allocation})
    return runs


def _part(progress: Progress | None, number: int, runs: int) -> Progress | None:
    """Return a callback for one run of several that reports over all."""
    if progress is None:
        return None
    return lambda done, total: progress(number * total + done, runs * total)
