"""Runs a workload against a fleet under a policy: submit, place or wait, end, wake."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from msgspec import Struct

from terrazzo.model.allocation import Allocation
from terrazzo.model.errors import InputError
from terrazzo.model.node import Node
from terrazzo.model.request import PodRequest
from terrazzo.placement.demand import Need, need_on
from terrazzo.placement.engine import Engine
from terrazzo.placement.events import Committed, PodGone, Written
from terrazzo.placement.fleet import Fleet
from terrazzo.placement.ledger import Ledger
from terrazzo.simulator import policies, report
from terrazzo.simulator.clock import Clock
from terrazzo.simulator.fgd import Fragmentation, typical
from terrazzo.simulator.meter import Meter
from terrazzo.simulator.report import KindFigures, Point, Report
from terrazzo.simulator.waiting import Key, Waiting, key_of
from terrazzo.simulator.workload import Arrival, Progress

_EVERY = 500
"""Events between two calls of the progress callback."""


class SimulationSpec(Struct, frozen=True, kw_only=True):
    """What to simulate.

    Attributes:
        name: of the workload, for the report.
        nodes: the fleet; their order breaks ties.
        arrivals: in any order; pods have distinct keys.
        policy: name from ``policies``.
        seed: of whatever the policy leaves to chance.
        until_s: when to stop; None runs until nothing is planned any more.
        warm_s: time at the start that does not count in the means.
        may_wait: pods that do not fit wait for room; else they are rejected at once.
        samples: moments in the series, at equal distances.
        notes: what is modelled and where figures come from, handed on to the report.
    """

    name: str
    nodes: tuple[Node, ...]
    arrivals: tuple[Arrival, ...]
    policy: str = "fragmentation"
    seed: int = 0
    until_s: float | None = None
    warm_s: float = 0.0
    may_wait: bool = True
    samples: int = 100
    notes: tuple[str, ...] = ()


class _Submit(Struct, frozen=True, gc=False):
    number: int


class _End(Struct, frozen=True, gc=False):
    number: int


class _Look(Struct, frozen=True, gc=False):
    """Note the state for the series."""


@dataclass(slots=True)
class _Fates:
    """What became of each pod: times in seconds, by its number."""

    submitted: set[int] = field(default_factory=set)
    placed_s: dict[int, float] = field(default_factory=dict)
    finished: set[int] = field(default_factory=set)
    rejected: set[int] = field(default_factory=set)


def simulate(spec: SimulationSpec, *, progress: Progress | None = None) -> Report:
    """Return what becomes of the workload.

    Args:
        spec: fleet, workload, policy, seed.
        progress: called now and then with events done and events known.

    Raises:
        InputError: unknown policy, or two arrivals with one key.
    """
    return _Run(spec).run(progress)


class _Run:
    def __init__(self, spec: SimulationSpec) -> None:
        self.spec = spec
        self.way = policies.approach(spec.policy)
        self.arrivals = sorted(spec.arrivals, key=lambda arrival: arrival.arrive_s)
        self.keys = [arrival.request.key for arrival in self.arrivals]
        if len(set(self.keys)) < len(self.keys):
            double = next(key for key in self.keys if self.keys.count(key) > 1)
            raise InputError(f"the pod {double} is submitted twice", where=f"workload {spec.name}")
        rewrite = self.way.rewrite(spec.nodes)
        self.requests = [rewrite(arrival.request) for arrival in self.arrivals]
        self.nodes = self.way.fleet(spec.nodes, self.requests)
        self.ledger = Ledger(self.nodes)
        self.fleet = self.ledger.fleet
        self.placer = self.way.placer(self.fleet, self.requests, np.random.default_rng(spec.seed))
        asking = [request for request in self.requests if request.asks_devices]
        self.meter = Meter(self.fleet, Fragmentation(typical(asking), self.fleet))
        self.waiting = Waiting(self.fleet)
        self.clock: Clock[_Submit | _End | _Look] = Clock()
        self.fates = _Fates()
        self.series: list[Point] = []
        self._hopeless: dict[Key, bool] = {}
        self._empty = Engine(Fleet(self.nodes))
        self._memory = None if self.way.fenced else _Unfenced(spec.nodes)

    def run(self, progress: Progress | None) -> Report:
        for number, arrival in enumerate(self.arrivals):
            self.clock.plan(arrival.arrive_s, _Submit(number))
        ends_s = self._plan_looks()
        done = 0
        while (at_s := self.clock.next_s()) is not None and at_s <= ends_s:
            since = max(self.clock.now_s, self.spec.warm_s)
            self.meter.pass_time(at_s - since, len(self.waiting))
            self._happen()
            done += 1
            if progress is not None and done % _EVERY == 0:
                progress(min(done, 2 * len(self.arrivals)), 2 * len(self.arrivals))
        now_s = self.clock.now_s
        if self.spec.until_s is not None:
            self.meter.pass_time(ends_s - max(now_s, self.spec.warm_s), len(self.waiting))
            now_s = ends_s
        if progress is not None:
            progress(2 * len(self.arrivals), 2 * len(self.arrivals))
        return self._report(now_s)

    def _plan_looks(self) -> float:
        """Plan the moments of the series; return when the run ends at the latest."""
        last_s = max((a.arrive_s + (a.duration_s or 0.0) for a in self.arrivals), default=0.0)
        covered_s = last_s if self.spec.until_s is None else self.spec.until_s
        samples = max(1, self.spec.samples)
        for number in range(1, samples + 1):
            self.clock.plan(covered_s * number / samples, _Look())
        return float("inf") if self.spec.until_s is None else self.spec.until_s

    def _happen(self) -> None:
        event = self.clock.take()
        now_s = self.clock.now_s
        match event:
            case _Submit(number):
                self._submit(number)
            case _End(number):
                self._end(number)
            case _Look():
                counts = now_s >= self.spec.warm_s
                self.series.append(self.meter.point(now_s, len(self.waiting), counts=counts))

    # -- pods ----------------------------------------------------------------------------------------------------

    def _submit(self, number: int) -> None:
        request = self.requests[number]
        self.fates.submitted.add(number)
        self.placer.learn(request)
        if self._start(number):
            return
        if self.spec.may_wait and not self._never(request):
            self.waiting.add(number, request)
        else:
            self.fates.rejected.add(number)

    def _start(self, number: int) -> bool:
        """Place a pod now, if it fits."""
        found = self.placer.decide(self.requests[number])
        if found is None:
            return False
        self.ledger.apply(Committed(found))
        self.ledger.apply(Written(found))
        self.meter.granted(found, 1)
        self.fates.placed_s[number] = self.clock.now_s
        arrival = self.arrivals[number]
        if self._memory is not None:
            self._memory.placed(arrival.request, found)
        if arrival.duration_s is not None:
            self.clock.plan(self.clock.now_s + arrival.duration_s, _End(number))
        return True

    def _end(self, number: int) -> None:
        released = self.fleet.allocation(self.keys[number])
        assert released is not None  # noqa: S101 - it was placed when its end was planned
        self.ledger.apply(PodGone(released.pod))
        self.meter.granted(released, -1)
        self.fates.finished.add(number)
        if self._memory is not None:
            self._memory.gone(released)
        column = self.fleet.column(released.node)
        if column is not None:
            self._wake(column)

    def _wake(self, column: int) -> None:
        """Start waiting pods that fit on the node that gained something: by priority, then by age.

        Nothing else has gained since they were tried, so no other node needs a look. Who fits goes, also past an
        older pod that does not.
        """
        heads = self.waiting.able((column,))
        while heads:
            key = min(heads, key=heads.__getitem__)
            if not self._start(self.waiting.first(key)):
                del heads[key]
                continue
            self.waiting.pop(key)
            able = self.waiting.able((column,))
            heads = {each: able[each] for each in heads if each in able}

    def _never(self, request: PodRequest) -> bool:
        """Return whether a pod would not fit even if the fleet were empty."""
        key = key_of(request)
        if key not in self._hopeless:
            self._hopeless[key] = not self._empty.fits(request)
        return self._hopeless[key]

    # -- report --------------------------------------------------------------------------------------------------

    def _report(self, now_s: float) -> Report:
        spec, fates = self.spec, self.fates
        mean = self.meter.mean(now_s, len(self.waiting))
        everyone = self._figures(sorted(fates.submitted), now_s)
        kinds = sorted({self.arrivals[number].kind for number in fates.submitted} - {""})
        by_kind = {
            kind: self._figures([n for n in sorted(fates.submitted) if self.arrivals[n].kind == kind], now_s)
            for kind in kinds
        }
        return Report(
            name=spec.name,
            policy=spec.policy,
            says=self.way.says,
            seed=spec.seed,
            nodes=len(self.nodes),
            devices=self.meter.devices,
            submitted=everyone.submitted,
            placed=everyone.placed,
            finished=everyone.finished,
            rejected=everyone.rejected,
            waiting=everyone.waiting,
            diverges=_diverges(self.series, everyone),
            waits=everyone.waits,
            kinds=by_kind,
            mean=mean,
            series=tuple(self.series),
            over_memory=() if self._memory is None else tuple(self._memory.over),
            ends_s=round(now_s, 3),
            notes=spec.notes,
        )

    def _figures(self, numbers: list[int], now_s: float) -> KindFigures:
        fates = self.fates
        asking = (n for n in numbers if self.requests[n].asks_devices and n not in fates.rejected)
        waits = [fates.placed_s.get(n, now_s) - self.arrivals[n].arrive_s for n in asking]
        placed = sum(number in fates.placed_s for number in numbers)
        rejected = sum(number in fates.rejected for number in numbers)
        return KindFigures(
            submitted=len(numbers),
            placed=placed,
            finished=sum(number in fates.finished for number in numbers),
            rejected=rejected,
            waiting=len(numbers) - placed - rejected,
            waits=report.waits_of(waits),
        )


def _diverges(series: list[Point], everyone: KindFigures) -> bool:
    """Return whether the queue kept growing: in the last quarter longer by a fourth than in the one before, not short.

    A queue of fewer than one pod in a hundred submitted is called short.
    """
    quarter = len(series) // 4
    if not quarter or everyone.waiting * 100 < everyone.submitted:
        return False
    before = sum(point.waiting for point in series[-2 * quarter : -quarter])
    return sum(point.waiting for point in series[-quarter:]) > 1.25 * before


class _Unfenced:
    """Memory where nothing fences it: what the pods on a card asked for, together, against what it has."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._devices = {(d.node, d.uuid): d for node in nodes for d in node.devices}
        self._wanted: dict[tuple[str, str], dict[str, int]] = {}
        self._titles: dict[str, str] = {}
        self.over: dict[str, None] = {}

    def placed(self, request: PodRequest, allocation: Allocation) -> None:
        """Follow a grant; ``request`` is what the pod asked before it was rewritten."""
        self._titles[allocation.pod] = allocation.title
        asks = [ask for container in request.containers for ask in container.asks for _ in range(ask.count)]
        for use, ask in zip(allocation.uses, asks, strict=False):
            at = (allocation.node, use.uuid)
            need = need_on(request, ask, self._devices[at])
            wanted = self._wanted.setdefault(at, {})
            size = self._devices[at].memory_mib
            whole = size if isinstance(size, int) else 0
            wanted[allocation.pod] = need.memory_mib if isinstance(need, Need) else whole
            if sum(wanted.values()) > whole:
                self.over.update(dict.fromkeys(self._titles[pod] for pod in wanted))

    def gone(self, allocation: Allocation) -> None:
        """Follow a release."""
        for use in allocation.uses:
            self._wanted.get((allocation.node, use.uuid), {}).pop(allocation.pod, None)
