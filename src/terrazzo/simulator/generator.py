"""Made-up work: Poisson arrivals of pods drawn from a mix of classes, each with its lifetimes.

Everything here is modelled; where a figure comes from is said by whoever chooses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from math import exp, log
from typing import Protocol

import numpy as np
from msgspec import Struct, structs

from terrazzo.model.node import Node
from terrazzo.model.request import Ask, PodRequest
from terrazzo.simulator.workload import Arrival


class Lifetimes(Protocol):
    """How long pods run."""

    @property
    def mean_s(self) -> float:
        """Mean in seconds."""
        ...

    def draw(self, rng: np.random.Generator) -> float:
        """Return one lifetime in seconds."""
        ...


class Lognormal(Struct, frozen=True):
    """Lognormal lifetimes.

    Attributes:
        median_s: half of the pods run shorter, in seconds.
        spread: standard deviation of the logarithm; 0 makes all alike.
    """

    median_s: float
    spread: float = 1.0

    @property
    def mean_s(self) -> float:
        """Mean in seconds."""
        return self.median_s * exp(self.spread**2 / 2)

    def draw(self, rng: np.random.Generator) -> float:
        """Return one lifetime in seconds."""
        return float(rng.lognormal(log(self.median_s), self.spread))


class Measured(Struct, frozen=True):
    """Lifetimes drawn from measured ones.

    Attributes:
        seconds: what was measured; not empty.
        longest_s: longer ones are cut to this, so that a simulated week is not held by a job of a month.
    """

    seconds: tuple[float, ...]
    longest_s: float = float("inf")

    @property
    def mean_s(self) -> float:
        """Mean in seconds."""
        return float(np.minimum(np.array(self.seconds), self.longest_s).mean())

    def draw(self, rng: np.random.Generator) -> float:
        """Return one lifetime in seconds."""
        return min(self.seconds[int(rng.integers(len(self.seconds)))], self.longest_s)


class JobClass(Struct, frozen=True):
    """One kind of pod.

    Attributes:
        kind: word for reports, such as ``training``.
        request: the pod; each one gets a name of its own.
        lifetimes: how long such pods run.
        weight: how often it comes, relative to the others.
    """

    kind: str
    request: PodRequest
    lifetimes: Lifetimes
    weight: float = 1.0


def devices_of(request: PodRequest, nodes: Sequence[Node]) -> float:
    """Return the devices' worth that a pod asks for: a share counts by its memory or its cores, the larger.

    Memory in MiB is a share of the mean device of the vendors that the pod may use.
    """
    total = 0.0
    for container in request.containers:
        for ask in container.asks:
            whole = ask.whole or bool(ask.profile)
            percent = 100.0 if whole else max(ask.cores_percent, ask.memory_percent, _memory_percent(ask, nodes))
            total += ask.count * percent / 100
    return total


def _memory_percent(ask: Ask, nodes: Sequence[Node]) -> float:
    devices = (d for node in nodes for d in node.devices if not ask.vendors or d.vendor in ask.vendors)
    sizes = [d.memory_mib for d in devices if isinstance(d.memory_mib, int)]
    return min(100.0, 100 * ask.memory_mib * len(sizes) / sum(sizes)) if ask.memory_mib and sizes else 0.0


def device_count(nodes: Sequence[Node]) -> int:
    """Return the number of devices of a fleet."""
    return sum(len(node.devices) for node in nodes)


def rate_for(classes: Sequence[JobClass], nodes: Sequence[Node], load: float) -> float:
    """Return the arrivals per second at which the asked-for devices' worth is ``load`` times the fleet, on average.

    Args:
        classes: the mix.
        nodes: the fleet.
        load: 1.0 asks for as much as there is.
    """
    weight = sum(each.weight for each in classes)
    held = sum(each.weight * devices_of(each.request, nodes) * each.lifetimes.mean_s for each in classes) / weight
    return load * device_count(nodes) / held if held else 0.0


def generate(
    classes: Sequence[JobClass], *, rate_per_s: float, until_s: float, rng: np.random.Generator, prefix: str = "job"
) -> tuple[Arrival, ...]:
    """Return pods that arrive as a Poisson process.

    Args:
        classes: the mix; not empty.
        rate_per_s: arrivals per second, of all classes together.
        until_s: no arrival later than this.
        rng: all chance.
        prefix: names are ``<prefix>-<kind>-<number>``.
    """
    bounds = np.cumsum([each.weight for each in classes])
    arrivals = []
    now_s = 0.0
    for number in count():
        now_s += float(rng.exponential(1 / rate_per_s)) if rate_per_s > 0 else float("inf")
        if now_s > until_s:
            break
        chosen = classes[int(np.searchsorted(bounds, rng.random() * bounds[-1], side="right"))]
        name = "-".join(word for word in (prefix, chosen.kind, str(number)) if word)
        request = structs.replace(chosen.request, name=name, uid="")
        arrivals.append(Arrival(request, now_s, chosen.lifetimes.draw(rng), chosen.kind))
    return tuple(arrivals)
