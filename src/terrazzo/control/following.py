"""Watches of everything that decides, each into the books; and whether they have caught up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

from terrazzo.control.books import Books
from terrazzo.control.healing import Claims
from terrazzo.control.observed import Figures
from terrazzo.control.pods import version_of
from terrazzo.control.preempting import Preemptor
from terrazzo.dialects import policyfile
from terrazzo.kube import watch
from terrazzo.kube.client import Client
from terrazzo.kube.errors import ApiError
from terrazzo.kube.kinds import BUDGET, CLAIM, CONFIG_MAP, DEVICE_CLASS, NODE, POD, SLICE, Kind
from terrazzo.model.errors import InputError
from terrazzo.model.policy import Policy
from terrazzo.placement import instructions as ins
from terrazzo.wire import kubernetes as k8s
from terrazzo.wire.claims import Claim

_T = TypeVar("_T")
POLICY_KEY = "policy.yaml"
SILENCE_S = 10.0
"""After so long without a decision the first one makes sure that the books have caught up."""
NOTED = 2048

Heard = Callable[[Any], None]


class Followers:
    """The watches of one process.

    Args:
        client: the API server.
        books: the cluster.
        claims: of the ``dra`` ledger, or None where nobody here mends them.
        preemptor: knows disruption budgets.
        told: is given the ledger's instructions.
        policy: namespace and name of the policy's ConfigMap.
        parse: reads YAML.
        figures: counts.
        log: troubles.
        dra: whether devices are told by ResourceSlices.
    """

    def __init__(
        self, client: Client, books: Books, claims: Claims | None, preemptor: Preemptor | None,
        told: Callable[[tuple[ins.Instruction, ...]], None], policy: tuple[str, str],
        parse: Callable[[str, str], object], figures: Figures, log: Any, *, dra: bool,
    ) -> None:  # fmt: skip
        self._client = client
        self._books = books
        self._claims = claims
        self._preemptor = preemptor
        self._told = told
        self._policy = policy
        self._parse = parse
        self._figures = figures
        self._log = log
        self._dra = dra
        self._listed: dict[str, asyncio.Event] = {}
        self._decided_at = -float("inf")
        self._catching_up = asyncio.Lock()
        self._said: dict[str, float] = {}
        self._default_policy = Policy()

    @property
    def waits_for(self) -> list[str]:
        """What has not been listed yet."""
        return [name for name, event in self._listed.items() if not event.is_set()]

    async def all_listed(self) -> None:
        """Return once everything has been listed."""
        for event in list(self._listed.values()):
            await event.wait()

    def note(self, sentence: str) -> None:
        """Log what is wrong with an object, the same not again within five minutes."""
        now = time.monotonic()
        if now - self._said.get(sentence, -300.0) < 300:
            return
        if len(self._said) > NOTED:
            self._said.clear()
        self._said[sentence] = now
        self._log.warning("note", said=sentence)

    async def run(self, default_policy: Policy) -> None:
        """Follow for ever.

        Nodes and what describes them are heard first, then pods, so that grants find their devices; all lists are
        fetched at once.
        """
        self._default_policy = default_policy
        self._books.set_policy(default_policy)
        follows = [self._follow(NODE, k8s.Node, self._nodes), self._follow_policy()]
        if self._dra:
            follows += [self._follow(SLICE, k8s.ResourceSlice, self._slices)]
            follows += [self._follow(DEVICE_CLASS, k8s.DeviceClass, self._classes)]
        before = tuple(self._listed.values())
        follows += [self._follow(POD, k8s.Pod, self._pods, after=before)]
        if self._claims is not None:
            follows += [self._follow(CLAIM, Claim, self._on_claims, after=before)]
        if self._preemptor is not None:
            follows += [self._follow(BUDGET, k8s.DisruptionBudget, self._budgets, after=before)]
        async with asyncio.TaskGroup() as tasks:
            for each in follows:
                tasks.create_task(each)

    def _follow(
        self,
        kind: Kind,
        type_: type[_T],
        heard: Callable[[watch.News[_T]], None],
        namespace: str = "",
        fields: str = "",
        after: tuple[asyncio.Event, ...] = (),
    ) -> Any:
        self._listed[kind.plural] = asyncio.Event()
        return self._loop(kind, type_, heard, namespace, fields, after)

    async def _loop(
        self, kind: Kind, type_: type[_T], heard: Callable[[watch.News[_T]], None], namespace: str, fields: str,
        after: tuple[asyncio.Event, ...],
    ) -> None:  # fmt: skip
        while True:
            following = watch.follow(self._client, kind, type_, namespace, fields=fields)
            try:
                async for news in following:
                    if isinstance(news, watch.Trouble):
                        self._figures.troubles.labels(kind.plural).inc()
                        self._log.warning("watch", kind=kind.plural, said=news.why)
                        continue
                    for event in after:
                        await event.wait()
                    heard(news)
                    if isinstance(news, watch.Listed):
                        self._listed[kind.plural].set()
                        self._log.info("listed", kind=kind.plural, number=len(news.items), at=news.version)
                    if kind is POD and self._books.stale:
                        break
            finally:
                await following.aclose()

    # -- each kind -----------------------------------------------------------------------------------------------

    def _nodes(self, news: watch.News[k8s.Node]) -> None:
        match news:
            case watch.Listed(items, version):
                self._told(self._books.nodes_listed(items, int(version or 0)))
            case watch.Changed(item):
                self._told(self._books.node_seen(item))
            case watch.Deleted(item):
                self._told(self._books.node_gone(item.metadata.name, version_of(item.metadata)))

    def _slices(self, news: watch.News[k8s.ResourceSlice]) -> None:
        match news:
            case watch.Listed(items, version):
                self._told(self._books.slices_listed(items, int(version or 0)))
            case watch.Changed(item):
                self._told(self._books.slice_seen(item))
            case watch.Deleted(item):
                self._told(self._books.slice_gone(item.metadata.name, version_of(item.metadata)))

    def _pods(self, news: watch.News[k8s.Pod]) -> None:
        match news:
            case watch.Listed(items, version):
                self._told(self._books.pods_listed(items, int(version or 0)))
            case watch.Changed(item):
                self._told(self._books.pod_seen(item))
            case watch.Deleted(item):
                self._told(self._books.pod_gone(item))

    def _classes(self, news: watch.News[k8s.DeviceClass]) -> None:
        match news:
            case watch.Listed(items, _):
                for item in items:
                    self._books.class_seen(item)
            case watch.Changed(item):
                self._books.class_seen(item)
            case watch.Deleted(item):
                self._books.class_gone(item.metadata.name)

    def _on_claims(self, news: watch.News[Claim]) -> None:
        claims = self._claims
        if claims is None:
            return
        match news:
            case watch.Listed(items, _):
                claims.listed(items)
            case watch.Changed(item):
                claims.seen(item)
            case watch.Deleted(item):
                claims.gone(item.metadata.uid)

    def _budgets(self, news: watch.News[k8s.DisruptionBudget]) -> None:
        preemptor = self._preemptor
        if preemptor is None:
            return
        match news:
            case watch.Listed(items, _):
                preemptor.budgets_listed(items)
            case watch.Changed(item):
                preemptor.budget_seen(item)
            case watch.Deleted(item):
                preemptor.budget_gone(item.metadata.namespace, item.metadata.name)

    def _follow_policy(self) -> Any:
        namespace, name = self._policy
        return self._follow(CONFIG_MAP, k8s.ConfigMap, self._policies, namespace, f"metadata.name={name}")

    def _policies(self, news: watch.News[k8s.ConfigMap]) -> None:
        """Take the policy; a damaged one changes nothing, so that a slip does not stop the cluster."""
        maps: Iterable[k8s.ConfigMap] = ()
        match news:
            case watch.Listed(items, _):
                maps = items
            case watch.Changed(item):
                maps = (item,)
            case watch.Deleted(_):
                maps = ()
            case _:
                return
        try:
            found = [self._read_policy(each) for each in maps]
        except InputError as error:
            self.note(f"the policy stays as it was: {error}")
            return
        self._books.set_policy(found[0] if found else self._default_policy)

    def _read_policy(self, each: k8s.ConfigMap) -> Policy:
        where = f"config map {each.metadata.namespace}/{each.metadata.name}: {POLICY_KEY}"
        policy = policyfile.read(self._parse((each.data or {}).get(POLICY_KEY, ""), where), where=where)
        return msgspec.structs.replace(policy, scheduler=policy.scheduler or self._default_policy.scheduler)

    # -- caught up -----------------------------------------------------------------------------------------------

    async def caught_up(self) -> None:
        """Return when the books know what others may have bound lately; at once in a busy stream of decisions.

        A hot standby that is asked for the first time may be a moment behind. Pods that were bound in that moment are
        still pending, so those are read; what was bound longer ago the watch has told.
        """
        if time.monotonic() - self._decided_at > SILENCE_S:
            async with self._catching_up:
                if time.monotonic() - self._decided_at > SILENCE_S:
                    await self._read_pending()
        self._decided_at = time.monotonic()

    async def _read_pending(self) -> None:
        if self.waits_for:
            self._log.info("decision waits", kinds=self.waits_for)
        await self.all_listed()
        try:
            listing = await self._client.list(POD, k8s.Pod, fields="status.phase=Pending,spec.nodeName!=")
        except ApiError as error:
            self._log.warning("catching up", error=str(error))
            return
        for pod in listing.items:
            self._told(self._books.pod_seen(pod))
