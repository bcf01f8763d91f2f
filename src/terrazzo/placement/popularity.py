"""What has been asked for lately: the mix of requests, learnt online.

Nobody tells the engine what will come; it counts what came. Counts are halved now and then, so that an old mix fades.
Before anything was learnt, the mix is one whole device: enough to keep a card whole rather than touch two.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from terrazzo.model.request import Ask, Pattern, PodRequest

COVER = 0.8
"""The most popular classes that together make this part of all arrivals are looked at; more only adds noise."""
GROWTH = 1.5
"""The mix is estimated anew when this many times as many arrivals have been seen as at the last estimate."""
WINDOW = 16384
"""Arrivals after which counts are halved."""


class RequestClass(Struct, frozen=True, gc=False):
    """What makes two requests the same for placement; ``ask`` is None for a pod without devices."""

    ask: Ask | None
    exclusive: bool
    vendor: Pattern
    model: Pattern
    cpu_milli: int


class Weighted(NamedTuple):
    """A class and how often it came."""

    kind: RequestClass
    arrivals: int


WHOLE_DEVICE = RequestClass(Ask(whole=True), exclusive=False, vendor=Pattern(), model=Pattern(), cpu_milli=0)


def class_of(request: PodRequest) -> RequestClass:
    """Return the class of a pod: its largest ask, its selectors and its CPU."""
    asks = [ask for container in request.containers for ask in container.asks]
    ask = max(asks, key=lambda a: (a.whole, a.count, a.memory_mib, a.memory_percent, a.cores_percent), default=None)
    return RequestClass(ask, request.exclusive, request.vendor, request.model, request.cpu_milli)


class Popularity:
    """Counts of request classes and the mix estimated from them.

    Attributes:
        generation: grows by one with each new estimate.
    """

    def __init__(self) -> None:
        self._counts: dict[RequestClass, int] = {}
        self._total = 0
        self._estimated_at = 0
        self._mix: tuple[Weighted, ...] = (Weighted(WHOLE_DEVICE, 1),)
        self._everything: tuple[Weighted, ...] = ()
        self._profiles: dict[str, int] = {}
        self.generation = 0

    def add(self, kind: RequestClass) -> None:
        """Count one arrival; estimate anew when arrivals have grown by half."""
        self._counts[kind] = self._counts.get(kind, 0) + 1
        self._total += 1
        if kind.ask is not None and kind.ask.profile:
            self._profiles[kind.ask.profile] = self._profiles.get(kind.ask.profile, 0) + 1
        if self._total >= GROWTH * self._estimated_at:
            self._estimate()

    def _estimate(self) -> None:
        if self._total > WINDOW:
            self._counts = {kind: count // 2 for kind, count in self._counts.items() if count > 1}
            self._total = sum(self._counts.values())
            self._profiles = _profiles(self._counts)
        self._estimated_at = self._total
        ranked = sorted(self._counts.items(), key=lambda item: (-item[1], _order(item[0])))
        chosen: list[Weighted] = []
        covered = 0
        for kind, count in ranked:
            if covered >= COVER * self._total:
                break
            chosen.append(Weighted(kind, count))
            covered += count
        self._everything = tuple(Weighted(kind, count) for kind, count in ranked)
        if not any(kind.ask is not None and kind.ask.whole for kind, _ in chosen):
            chosen.append(Weighted(WHOLE_DEVICE, 0))
        self._mix = tuple(chosen)
        self.generation += 1

    def mix(self) -> tuple[Weighted, ...]:
        """Return the classes that matter, most popular first."""
        return self._mix

    def everything(self) -> tuple[Weighted, ...]:
        """Return all classes counted at the last estimate, also the rare ones that ``mix`` leaves out."""
        return self._everything

    def profiles(self) -> dict[str, int]:
        """Return how often each geometry profile was asked for by name; not to be changed by the caller."""
        return self._profiles

    def export(self) -> tuple[tuple[RequestClass, int], ...]:
        """Return all counts, to be given to ``load`` of another instance."""
        return tuple(sorted(self._counts.items(), key=lambda item: (-item[1], _order(item[0]))))

    def load(self, counts: tuple[tuple[RequestClass, int], ...]) -> None:
        """Replace all counts and estimate the mix from them."""
        self._counts = dict(counts)
        self._total = sum(self._counts.values())
        self._profiles = _profiles(self._counts)
        if self._total:
            self._estimate()


def _profiles(counts: dict[RequestClass, int]) -> dict[str, int]:
    asked: dict[str, int] = {}
    for kind, count in counts.items():
        if kind.ask is not None and kind.ask.profile:
            asked[kind.ask.profile] = asked.get(kind.ask.profile, 0) + count
    return asked


def _order(kind: RequestClass) -> tuple[object, ...]:
    """A total order of classes for ties: larger first, so that it does not depend on arrival."""
    ask = kind.ask or Ask(count=0)
    return (-kind.cpu_milli, -ask.cores_percent, -ask.memory_mib, -ask.memory_percent, -ask.count, ask.profile,
            ask.vendors, ask.models, kind.model.include, kind.model.exclude, kind.vendor.include)  # fmt: skip
