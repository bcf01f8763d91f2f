"""What the extender answers: which nodes do, which is best, which devices, and in words why the others do not."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from msgspec import Struct

from terrazzo.control.books import Books
from terrazzo.control.plain import Counts, counts_of
from terrazzo.control.pods import is_soft
from terrazzo.model.allocation import Allocation
from terrazzo.model.errors import LedgerError, RequestError
from terrazzo.model.reason import NodeRejection
from terrazzo.model.request import PodRequest
from terrazzo.placement.fit import allocation_of
from terrazzo.placement.sentences import SHORT, asks, nearest_line
from terrazzo.wire import kubernetes as k8s

STEP = 1000
"""Between two ranks: more than all scores of Kubernetes' own plugins together (each 100 × its weight, below 20)."""
SOFT_RANKS = 10
"""Ranks of a pod with preferences: few and close together, so that what it prefers outweighs how we pack."""
REMEMBERED = 1024
UNMANAGED = "node(s) that Terrazzo does not manage"
GONE = "node(s) that Terrazzo does not know yet"
KEPT = "node(s) kept for a pod that comes first"
_SAID = {reason: f"node(s) {text}" for reason, text in SHORT.items()}


class Verdict(Struct, frozen=True):
    """What filter found.

    Attributes:
        ranks: feasible nodes with their score for kube-scheduler, best first.
        failed: nodes that do not do now, with why.
        hopeless: nodes that no eviction by kube-scheduler can mend, with why.
    """

    ranks: dict[str, int]
    failed: dict[str, str]
    hopeless: dict[str, str]


class Placer:
    """Decides for the extender; takes nothing.

    Args:
        books: the cluster.
        top: nodes given back at most for a pod without soft rules.
    """

    def __init__(self, books: Books, top: int) -> None:
        self._books = books
        self._top = top
        self._last: OrderedDict[str, dict[str, int]] = OrderedDict()
        self._expected: OrderedDict[str, Allocation] = OrderedDict()

    # -- filter and prioritize -----------------------------------------------------------------------------------

    def filter(self, pod: k8s.Pod, names: Sequence[str]) -> Verdict:
        """Return which of the nodes do for the pod, ranked, and why the others do not."""
        books = self._books
        try:
            request = books.resolve(books.request_of(pod))
        except RequestError as error:
            return self._nowhere(names, str(error))
        if not request.asks_devices:
            return Verdict(dict.fromkeys(names, 0), {}, {})
        barred = books.barred(request)
        if barred:
            return self._nowhere(names, barred)
        soft = is_soft(pod.spec)
        with self._free_of(request.key):
            good = self._good(request, names, len(names) if soft else self._top)
            verdict = Verdict(_scores(good, soft=soft), *self._why_not(request, names, good))
        self._remember(request.key, verdict.ranks)
        return verdict

    def prioritize(self, pod: k8s.Pod, names: Sequence[str]) -> dict[str, int]:
        """Return a score for each node, as filter found them."""
        ranks = self._last.get(pod.metadata.uid)
        if ranks is None or any(name not in ranks for name in names):
            ranks = self.filter(pod, names).ranks
        return {name: ranks.get(name, 0) for name in names}

    def _good(self, request: PodRequest, names: Sequence[str], limit: int) -> list[str]:
        """Return the nodes that do, best first: those of vendors' plugins, so that shared ones stay for shares."""
        books = self._books
        counts = counts_of(request)
        plain = books.plain.fitting(names, counts) if counts else []
        ranked = [each.node for each in books.engine.rank(request, limit, among=names)]
        promised = books.nominated
        ranked = [name for name in ranked if not promised.get(name) or self._beside(request, name) is not None]
        return plain[:limit] + ranked[: limit - min(limit, len(plain))]

    def _why_not(
        self, request: PodRequest, names: Sequence[str], good: Sequence[str]
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Return reasons for all nodes, but only when none does: nobody reads them else, and they cost."""
        if good:
            return {}, {}
        found = self._books.reasons.of(request)
        hopeless = {name: _SAID[found[name]] if name in found else self._strange(name) for name in names}
        # On its nominated node the victims of a pod are still ending; elsewhere kube-scheduler can do nothing.
        row = self._books.pods.get(request.key)
        kept = hopeless.pop(row.nominated, "") if row is not None else ""
        return {row.nominated: kept} if row is not None and kept else {}, hopeless

    def _strange(self, name: str) -> str:
        """Return why a node does not do on which the engine itself would place the pod, or that it does not know."""
        if name in self._books.plain:
            return UNMANAGED
        return GONE if self._books.ledger.fleet.node(name) is None else KEPT

    def _nowhere(self, names: Iterable[str], why: str) -> Verdict:
        return Verdict({}, {}, dict.fromkeys(names, why))

    def _remember(self, uid: str, ranks: dict[str, int]) -> None:
        self._last[uid] = ranks
        self._last.move_to_end(uid)
        if len(self._last) > REMEMBERED:
            self._last.popitem(last=False)

    # -- nominated pods ------------------------------------------------------------------------------------------

    def _beside(self, request: PodRequest, node: str) -> Allocation | None:
        """Return what the pod gets on a node beside the pods that were promised a place there and come first.

        Of two pods of one priority that were both promised a place the one that is asked about comes first.
        """
        books = self._books
        there = books.nominated.get(node, {})
        least = request.priority + (request.key in there)
        first = [(row.request, node) for uid, row in there.items() if row.request.priority >= least]
        if not first:
            return books.engine.try_on(request, node)
        with self.placed(first, but=request.key):
            return books.engine.try_on(request, node)

    @contextmanager
    def placed(self, promised: Iterable[tuple[PodRequest, str]], *, but: str = "") -> Iterator[None]:
        """Have these pods hold what they would get on their nodes while the block runs, one of them left out."""
        fleet, taken = self._books.ledger.fleet, []
        try:
            for request, node in promised:
                if request.key == but or fleet.allocation(request.key) is not None:
                    continue
                if self._promise(request, node):
                    taken.append(request.key)
            yield
        finally:
            for uid in taken:
                fleet.release(uid)

    def _promise(self, request: PodRequest, node: str) -> bool:
        """Have a pod hold what was expected for it last, or what it gets now where that is not to be had any more."""
        fleet = self._books.ledger.fleet
        known = self._expected.get(request.key)
        if known is not None and known.node == node:
            try:
                fleet.grant(known)
            except LedgerError:
                pass
            else:
                return True
        found = self._books.engine.try_on(self._settled(request), node)
        if found is None:
            return False
        fleet.grant(found)
        self.expect(found)
        return True

    def expect(self, allocation: Allocation) -> None:
        """Note what a pod is going to get: a nominated pod is looked at again and again until it is bound."""
        self._expected[allocation.pod] = allocation
        if len(self._expected) > REMEMBERED:
            self._expected.popitem(last=False)

    def _settled(self, request: PodRequest) -> PodRequest:
        try:
            return self._books.resolve(request)
        except RequestError:
            return request

    @contextmanager
    def _free_of(self, uid: str) -> Iterator[None]:
        """Look at the fleet as if the pod held nothing: a bind of it may be under way and fail."""
        if self._books.ledger.fleet.allocation(uid) is None:
            yield
            return
        with self._books.ledger.fleet.without([uid]):
            yield

    # -- bind ----------------------------------------------------------------------------------------------------

    def choose(self, request: PodRequest, node: str) -> Allocation:
        """Return what the pod gets on this node now, exactly.

        Raises:
            LedgerError: nothing does there, with why.
        """
        books = self._books
        barred = books.barred(request)
        if barred:
            raise LedgerError(barred, where=f"pod {request.title}")
        if node in books.plain:
            counts = counts_of(request)
            if counts is None or not books.plain.fits(node, counts):
                raise LedgerError(
                    f"{node} has not enough {' and '.join(counts or ())} left", where=f"pod {request.title}"
                )
            return allocation_of(request, node, (), ())
        found = self._beside(request, node)
        if found is not None:
            return found
        why = books.engine.place_on(request, node)
        said = nearest_line(why) if isinstance(why, NodeRejection) else "kept for a pod that comes first"
        raise LedgerError(f"{asks(request)} does not fit on {node} any more: {said}", where=f"pod {request.title}")

    def counts(self, request: PodRequest) -> Counts:
        """Return the counts that a pod takes of a vendor's node."""
        return counts_of(request) or {}

    # -- preempt -------------------------------------------------------------------------------------------------

    def survivors(self, pod: k8s.Pod, victims: Mapping[str, Sequence[str]]) -> list[str]:
        """Return the nodes on which the pod's devices fit once these victims are gone.

        Args:
            pod: the preemptor.
            victims: UIDs per node, as kube-scheduler would evict them.
        """
        books = self._books
        try:
            request = books.resolve(books.request_of(pod))
        except RequestError:
            return []
        if not request.asks_devices or books.barred(request):
            return [] if request.asks_devices else list(victims)
        found = []
        counts = counts_of(request)
        for node, uids in victims.items():
            if node in books.plain:
                if counts and books.plain.fits(node, counts):
                    found.append(node)
                continue
            with books.ledger.fleet.without([uid for uid in uids if uid != request.key]):
                if self._beside(request, node) is not None:
                    found.append(node)
        return found

    def is_crowded(self, request: PodRequest, crowd: int) -> bool:
        """Return whether a pod that is about to be created fits nowhere while so many wait already."""
        books = self._books
        if sum(row.waits for row in books.unbound.values()) < crowd:
            return False
        try:
            request = books.resolve(request)
        except RequestError:
            return False
        counts = counts_of(request)
        if books.barred(request) or (counts and books.plain.any_fits(counts)):
            return False
        return not books.engine.fits(request)


def _scores(good: Sequence[str], *, soft: bool) -> dict[str, int]:
    """Return scores for kube-scheduler: distinct ones, so that it never draws lots between our nodes."""
    if not soft:
        return {name: (len(good) - place) * STEP for place, name in enumerate(good)}
    return {name: SOFT_RANKS - place * SOFT_RANKS // len(good) for place, name in enumerate(good)}
