"""Decisions: which node and which devices for a pod, or why none.

Scores are kept in one row per class of request and refreshed only for nodes that changed since the class was last
seen, so that a decision costs what changed and one pass over a line of integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from terrazzo.model.allocation import Allocation, ContainerGrant, DeviceGrant, DeviceUse, Slice
from terrazzo.model.node import Node
from terrazzo.model.policy import Policy
from terrazzo.model.reason import NodeRejection, Reason
from terrazzo.model.request import Ask, PodRequest
from terrazzo.placement import fit, noderules, topology
from terrazzo.placement.demand import Need, need_on
from terrazzo.placement.fleet import Fleet
from terrazzo.placement.geometry import cuts_of
from terrazzo.placement.popularity import Popularity, class_of
from terrazzo.placement.protection import Shield, spared, unreserved
from terrazzo.placement.rows import Row, Rows, is_simple
from terrazzo.placement.seat import DeviceView
from terrazzo.placement.tables import Bools

PREFERRED = 1 << 40
"""One point of preferred affinity outweighs any score: what the user wrote comes before how we pack."""


class Ranked(NamedTuple):
    """A feasible node and its rank; ranks are distinct, more is better."""

    node: str
    rank: int


class Engine:
    """Decides over a fleet; changes nothing in it.

    Args:
        fleet: the state to decide on.
        policy: strategies per namespace.
        popularity: what was learnt before, or None to start with nothing.
    """

    def __init__(self, fleet: Fleet, policy: Policy | None = None, popularity: Popularity | None = None) -> None:
        self.fleet = fleet
        self.policy = policy or Policy()
        self.popularity = popularity or Popularity()
        self._rows = Rows(fleet, self.popularity)
        self._masks: dict[object, tuple[int, Bools | None, NDArray[np.int64] | None]] = {}

    @property
    def scored(self) -> int:
        """Nodes scored so far: what tests and benches count instead of time."""
        return self._rows.scored

    def learn(self, request: PodRequest) -> None:
        """Count a request among those that came lately."""
        self.popularity.add(class_of(request))

    # -- one decision --------------------------------------------------------------------------------------------

    def decide(self, request: PodRequest, *, among: Sequence[str] | None = None) -> Allocation | None:
        """Return where the pod goes and what it gets, or None when it fits nowhere. Nothing is taken yet.

        Args:
            request: the pod.
            among: names of the only nodes to look at; None = all.
        """
        row = self._rows.row(request, self._strategy(request)) if is_simple(request) else None
        scores = self._scores(request, among, row)
        concern = self._concern(request, row)
        if concern is not None and not self._is_spared(concern, scores, row):
            may = unreserved(concern, self.fleet.idle)
            sheltered = np.where(may[self.fleet.kind[: len(scores), 0]], scores, -1)
            found = self._best(request, sheltered, row)
            if found is not None:
                return found
        return self._best(request, scores, row)

    def _is_spared(self, concern: Shield, scores: NDArray[np.int64], row: Row | None) -> bool:
        """Return whether the best node, which the pod surely fits, is of a kind that it may use anyway."""
        if row is None or not len(scores):
            return False
        return spared(concern, self.fleet.idle, int(self.fleet.kind[int(scores.argmax()), 0]))

    def _best(self, request: PodRequest, scores: NDArray[np.int64], row: Row | None) -> Allocation | None:
        column = int(scores.argmax()) if len(scores) else -1
        if column < 0 or scores[column] < 0:
            return None
        if row is not None:
            return self._place_simple(request, row, column)
        order = np.argsort(-scores, kind="stable")
        for candidate in order[: int((scores >= 0).sum())]:
            found = self._place(request, int(candidate))
            if found is not None:
                return found
        return None

    def fits(self, request: PodRequest) -> bool:
        """Return whether the pod fits somewhere now."""
        return self.decide(request) is not None

    def count(self, request: PodRequest) -> int:
        """Return on how many nodes the pod fits now."""
        return int(self.feasible(request).sum())

    def feasible(self, request: PodRequest) -> Bools:
        """Return, per column of the fleet, whether the pod fits there now."""
        fits: Bools = self._scores(request, None) >= 0
        if not is_simple(request):
            for column in np.flatnonzero(fits).tolist():
                fits[column] = self._place(request, column) is not None
        return fits

    def place_on(self, request: PodRequest, node: str) -> Allocation | NodeRejection:
        """Return what the pod gets on this node, or why it cannot be there. Exact; nothing is taken yet."""
        known = self.fleet.node(node)
        if known is None:
            return NodeRejection(node, Reason.NOT_READY, detail="not in the cluster")
        found = self.try_on(request, node)
        if found is not None:
            return found
        return self._barred(request, known, self._at(node)) or self._devices_short(request, known)

    def try_on(self, request: PodRequest, node: str) -> Allocation | None:
        """Return what the pod gets on this node, or None; as ``place_on``, without the cost of saying why."""
        known = self.fleet.node(node)
        if known is None or self._barred(request, known, self._at(node)) is not None:
            return None
        if not is_simple(request):
            return self._place(request, self._at(node))
        row = self._rows.row(request, self._strategy(request))
        column = self._at(node)
        return self._place_simple(request, row, column) if row.score[column] >= 0 else None

    def _at(self, node: str) -> int:
        column = self.fleet.column(node)
        assert column is not None  # noqa: S101 - callers have seen the node
        return column

    def rank(self, request: PodRequest, limit: int, *, among: Sequence[str] | None = None) -> list[Ranked]:
        """Return the best feasible nodes, best first, with distinct ranks counting down to 1.

        Args:
            request: the pod.
            limit: nodes to return at most.
            among: names of the only nodes to look at; None = all.
        """
        scores = self._scores(request, None)
        order = np.argsort(-scores, kind="stable")[: int((scores >= 0).sum())].tolist()
        wanted = None if among is None else frozenset(among)
        simple = is_simple(request)
        best: list[str] = []
        for column in order:
            name = self.fleet.name(column)
            if wanted is not None and name not in wanted:
                continue
            if len(best) >= limit:
                break
            if simple or self._place(request, column) is not None:
                best.append(name)
        return [Ranked(name, len(best) - i) for i, name in enumerate(best)]

    def why(self, request: PodRequest) -> tuple[NodeRejection, ...]:
        """Return, for every node where the pod cannot be, why; in the fleet's order."""
        found = (self.place_on(request, node.name) for node in self.fleet.nodes())
        return tuple(each for each in found if isinstance(each, NodeRejection))

    # -- nodes ---------------------------------------------------------------------------------------------------

    def _strategy(self, request: PodRequest) -> str:
        return self.policy.strategy_for(request.namespace, request.strategy)

    def _scores(self, request: PodRequest, among: Sequence[str] | None, row: Row | None = None) -> NDArray[np.int64]:
        """Return one score per column, negative where the pod cannot be (for a pod of several asks: surely not)."""
        strategy = self._strategy(request)
        scores = row.score if row is not None else self._rows.combined(request, strategy)
        mask, liked = self._mask(request)
        if mask is not None:
            scores = np.where(mask, scores, -1)
        if liked is not None:
            scores = np.where(scores >= 0, scores + liked * PREFERRED, -1)
        if among is not None:
            wanted = np.zeros(len(scores), dtype=bool)
            wanted[self.fleet.columns(among)] = True
            scores = np.where(wanted, scores, -1)
        return scores

    def _mask(self, request: PodRequest) -> tuple[Bools | None, NDArray[np.int64] | None]:
        """Return the nodes that the pod's own rules allow, and how much it likes each; None = no difference."""
        rules = request.rules
        key: object = None if noderules.is_plain(rules) and not request.other else repr((rules, request.other))
        cached = self._masks.get(key)
        if cached is not None and cached[0] == self.fleet.layout:
            return cached[1], cached[2]
        size = len(self.fleet)
        mask, liked = np.zeros(size, dtype=bool), np.zeros(size, dtype=np.int64)
        for node in self.fleet.nodes():
            column = self.fleet.column(node.name)
            others = all(node.other.get(name, 0) >= amount for name, amount in request.other.items())
            mask[column] = others and noderules.allows(rules, node) is None
            liked[column] = noderules.preference(rules, node)
        liked -= liked.min(initial=0)
        present = self.fleet.usable[:size] > 0
        result = (None if mask[present].all() else mask, liked if liked.any() else None)
        if len(self._masks) > 512:
            self._masks.clear()
        self._masks[key] = (self.fleet.layout, *result)
        return result

    def _concern(self, request: PodRequest, row: Row | None) -> Shield | None:
        """Return what the pod should leave to restricted requests as long as it has a choice."""
        if request.rules.preferences or self._strategy(request) != "fragmentation":
            return None
        return (row or self._rows.row(request, "fragmentation")).shield

    def _barred(self, request: PodRequest, node: Node, column: int) -> NodeRejection | None:
        fleet = self.fleet
        return noderules.allows(request.rules, node) or noderules.host_shortage(
            request, node, int(fleet.cpu_milli[column]), int(fleet.memory_mib[column]), int(fleet.pods[column])
        )

    def _devices_short(self, request: PodRequest, node: Node) -> NodeRejection:
        if not node.devices and node.unknowns:
            return NodeRejection(node.name, Reason.INVENTORY_UNKNOWN, detail=node.unknowns[0].reason)
        return fit.why_not(request, node.name, self.fleet.devices(node.name), self.title)

    def title(self, pod: str) -> str:
        """Return ``namespace/name`` of a pod that holds something, else its key."""
        allocation = self.fleet.allocation(pod)
        return allocation.title if allocation is not None else pod

    # -- devices -------------------------------------------------------------------------------------------------

    def _place(self, request: PodRequest, column: int) -> Allocation | None:
        name = self.fleet.name(column)
        node = self.fleet.node(name)
        if node is None or self._barred(request, node, column) is not None:
            return None
        if not request.asks_devices:
            return fit.allocation_of(request, name, (), ())
        order = _emptiest if self._strategy(request) == "spread" else _fullest
        return fit.place(request, name, self.fleet.devices(name), order, self.popularity.profiles())

    def _place_simple(self, request: PodRequest, row: Row, column: int) -> Allocation:
        """Place a pod whose only ask is for devices of one kind of need: no search is needed."""
        name = self.fleet.name(column)
        asking = [(c.name, ask) for c in request.containers for ask in c.asks]
        if not asking:
            return fit.allocation_of(request, name, (), ())
        container, ask = asking[0]
        taken = [self._take(request, ask, place, column) for place in self._chosen(ask, row, column)]
        grants = ContainerGrant(container, tuple(grant for grant, _ in taken))
        return fit.allocation_of(request, name, (grants,), tuple(use for _, use in taken))

    def _chosen(self, ask: Ask, row: Row, column: int) -> list[int]:
        if ask.count == 1:
            return [int(row.place[column])]
        fitting = self._rows.fitting(row, column)
        if ask.count < len(fitting):
            devices = [self.fleet.device(r, column) for r in fitting]
            if any(device.links or device.numa is not None for device in devices):
                return sorted(fitting[i] for i in topology.together(devices, ask.count))
            share = self.fleet.share[column]
            fitting = sorted(sorted(fitting, key=lambda r: (share[r], r))[: ask.count])
        return fitting

    def _take(self, request: PodRequest, ask: Ask, row: int, column: int) -> tuple[DeviceGrant, DeviceUse]:
        device = self.fleet.device(row, column)
        need = need_on(request, ask, device)
        assert isinstance(need, Need)  # noqa: S101 - the row said it fits
        cut = None
        if need.profile is not None and device.geometry is not None:
            state = int(self.fleet.state[column, row])
            start = cuts_of(device.geometry).best_start(need.profile, state, self.popularity.profiles())
            assert start is not None  # noqa: S101 - the row said it fits
            cut = Slice(need.profile.name, start)
        return fit.grant_of(request, ask, device, need, cut)


def _fullest(view: DeviceView) -> tuple[int, ...]:
    return (0 if view.holders else 1, view.free_mib, view.free_units)


def _emptiest(view: DeviceView) -> tuple[int, ...]:
    return (-view.free_mib, -view.free_units)
