"""Bind: choose devices against the state of now, commit in memory, write, or undo.

One bind per pod UID at a time; a call for a pod that is being bound joins it. A caller that hangs up changes nothing:
the bind goes on to its end. What the API server did with a write that it did not answer is unknown, and only reading
the pod back settles it.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from terrazzo.control import claims
from terrazzo.control.books import Books
from terrazzo.control.placing import Placer
from terrazzo.control.pods import PodRow, row_of, version_of
from terrazzo.dialects import holdings
from terrazzo.kube.client import Client, decode
from terrazzo.kube.errors import ApiError, Conflict, NotFound, ServerFault, Unreachable
from terrazzo.kube.kinds import CLAIM, POD
from terrazzo.model.allocation import Allocation
from terrazzo.model.errors import TerrazzoError
from terrazzo.model.quantity import format_mib
from terrazzo.model.request import PodRequest
from terrazzo.placement import events as ev
from terrazzo.placement import instructions as ins
from terrazzo.wire import kubernetes as k8s
from terrazzo.wire.claims import Claim
from terrazzo.wire.state import ALLOCATION

LEAD_S = 3.0
READ_BACK_S = 2.0
"""Between two tries to learn what became of a write."""


UNANSWERED = "terrazzo.io/unanswered"
"""Annotation: as of which version of the pod a bind was given up that nobody had answered."""


class BindError(TerrazzoError):
    """The pod is not bound, and nothing of the attempt is left. The text becomes the pod's event."""


class Bound(Struct, frozen=True):
    """What came of a bind.

    Attributes:
        allocation: what the pod holds now.
        ledger: ``dra``, ``classic`` or ``plain``.
    """

    allocation: Allocation
    ledger: str


class Binder:
    """Binds pods.

    Args:
        client: the API server.
        books: the cluster.
        placer: chooses devices.
        dra: whether the server offers what the ``dra`` ledger needs.
        deadline_s: for the writes of one bind.
        leads: whether this process may bind. Two that bind at once would not see each other's choices.
    """

    def __init__(
        self, client: Client, books: Books, placer: Placer, *, dra: bool, deadline_s: float, leads: Callable[[], bool]
    ) -> None:
        self._client = client
        self._books = books
        self._placer = placer
        self._dra = dra
        self._deadline_s = deadline_s
        self._leads = leads
        self._running: dict[str, asyncio.Task[Bound]] = {}

    @property
    def running(self) -> frozenset[str]:
        """UIDs of the pods that are being bound now."""
        return frozenset(self._running)

    async def bind(self, uid: str, namespace: str, name: str, node: str) -> Bound:
        """Bind a pod to a node with devices chosen now.

        Raises:
            BindError: it is not bound; why.
        """
        task = self._running.get(uid)
        if task is None:
            task = asyncio.ensure_future(self._bind(uid, namespace, name, node))
            self._running[uid] = task
            task.add_done_callback(lambda _: self._running.pop(uid, None))
        bound = await asyncio.shield(task)
        if bound.allocation.node != node:
            raise BindError(f"is being bound to {bound.allocation.node} already", where=f"pod {namespace}/{name}")
        return bound

    async def settle(self) -> None:
        """Wait for the binds that are under way."""
        if self._running:
            await asyncio.wait(list(self._running.values()))

    # -- one bind ------------------------------------------------------------------------------------------------

    async def _bind(self, uid: str, namespace: str, name: str, node: str) -> Bound:
        title = f"pod {namespace}/{name}"
        await self._lead(title)
        row = self._books.pods.get(uid) or await self._fetched(uid, namespace, name)
        if row.node:
            raise BindError(f"is bound to {row.node} already", where=title)
        try:
            request = self._books.resolve(row.request)
            allocation = self._placer.choose(request, node)
        except TerrazzoError as error:
            raise BindError(error.what, where=error.where, remedy=error.remedy) from None
        ledger = self._ledger_of(node, allocation)
        self._commit(allocation, title)
        if ledger == "plain":
            self._books.plain.take(uid, node, self._placer.counts(request))
        try:
            await asyncio.wait_for(self._write_twice(ledger, row, request, allocation), self._deadline_s)
        except (Unreachable, ServerFault, TimeoutError) as error:
            self._books.ledger.apply(ev.WriteUnknown(allocation))
            await self._settled(row, allocation, str(error) or "no answer in time")
        except TerrazzoError as error:
            self._undo(allocation)
            raise BindError(error.what, where=error.where, remedy=error.remedy) from None
        self._books.ledger.apply(ev.Written(allocation))
        self._books.engine.learn(request)
        return Bound(allocation, ledger)

    async def _lead(self, title: str) -> None:
        """Wait a little for the lease, which a process that has just started may be about to get.

        Raises:
            BindError: another process has it.
        """
        until = time.monotonic() + LEAD_S
        while not self._leads():
            if time.monotonic() > until:
                raise BindError("another replica of terrazzo binds at the moment, this one does not", where=title)
            await asyncio.sleep(0.05)

    def _undo(self, allocation: Allocation) -> None:
        self._books.ledger.apply(ev.WriteFailed(allocation))
        self._books.plain.give_back(allocation.pod)

    async def _write_twice(self, ledger: str, row: PodRow, request: PodRequest, allocation: Allocation) -> None:
        """Write; once more when the pod has changed since the watch told of it."""
        try:
            await self._write(ledger, row.version, request, allocation)
        except Conflict:
            fresh = await self._fetched(request.key, request.namespace, request.name)
            if fresh.node or fresh.leaving:
                raise
            await self._write(ledger, fresh.version, request, allocation)

    async def _fetched(self, uid: str, namespace: str, name: str) -> PodRow:
        """Return the row of a pod that the watch has not told yet."""
        try:
            pod = await self._client.get(POD, k8s.Pod, name, namespace)
        except ApiError as error:
            raise BindError(error.what, where=f"pod {namespace}/{name}") from None
        if pod.metadata.uid != uid:
            raise BindError("was replaced by another of the same name", where=f"pod {namespace}/{name}")
        return row_of(pod, self._books.request_of(pod))

    def _ledger_of(self, node: str, allocation: Allocation) -> str:
        if node in self._books.plain:
            return "plain"
        return "dra" if self._dra and allocation.uses and self._books.device_names.get(node) else "classic"

    def _commit(self, allocation: Allocation, title: str) -> None:
        if self._books.ledger.fleet.node(allocation.node) is None:
            return
        for told in self._books.ledger.apply(ev.Committed(allocation)):
            if isinstance(told, ins.Refuse):
                raise BindError(told.why, where=title)

    async def _write(self, ledger: str, seen: int, request: PodRequest, allocation: Allocation) -> None:
        text = holdings.written(allocation)
        version = await self._patch_images(request, allocation) or str(seen)
        if ledger != "dra":
            text = text if ledger == "classic" else ""
            await self._post_binding(request, allocation, text, self._latest(request, version))
            return
        name = claims.claim_name(request.name, request.key, secrets.token_hex(8))
        names = self._books.device_names.get(allocation.node, {})
        allocated = claims.status(request, allocation, names)
        body = claims.claim(name, request, allocation, text, granted(allocation))
        made: Claim | None = None
        try:
            made = decode(await self._client.create(CLAIM, body, request.namespace), Claim)
            body["metadata"] = {
                **body["metadata"],
                "uid": made.metadata.uid,
                "resourceVersion": made.metadata.resource_version,
            }
            await self._client.replace(
                CLAIM, {**body, "status": allocated}, name, request.namespace, subresource="status"
            )
            version = await self._point(name, request, allocation, self._latest(request, version))
            await self._post_binding(request, allocation, text, version)
        except (Unreachable, ServerFault):
            raise
        except TerrazzoError:
            if made is not None:
                await self.undo(request.namespace, name, made.metadata.uid)
            raise

    def _latest(self, request: PodRequest, version: str) -> str:
        """Return the newest version of a pod that is known, as long as nobody else has bound it or is about to."""
        row = self._books.pods.get(request.key)
        if row is None or row.node or row.claim or row.version <= int(version):
            return version
        return str(row.version)

    async def _point(self, claim: str, request: PodRequest, allocation: Allocation, version: str) -> str:
        """Have the pod's status name its claim; return the version after that.

        Once more where the pod has changed meanwhile, but not in this: a nomination may cross a bind, and the claim
        is as good as before.

        Raises:
            Conflict: somebody else is at it.
        """
        status = claims.pod_status(claim, request, allocation)
        body: dict[str, Any] = {"metadata": {"resourceVersion": version, "uid": request.key}, "status": status}
        try:
            answer = await self._client.patch(POD, body, request.name, request.namespace, subresource="status")
        except Conflict:
            fresh = await self._fetched(request.key, request.namespace, request.name)
            if fresh.node or fresh.leaving or fresh.claim:
                raise
            body["metadata"]["resourceVersion"] = str(fresh.version)
            answer = await self._client.patch(POD, body, request.name, request.namespace, subresource="status")
        return decode(answer, k8s.Pod).metadata.resource_version

    async def _patch_images(self, request: PodRequest, allocation: Allocation) -> str:
        """Put in the images that the policy names for the vendor whose devices a container got.

        Returns:
            The pod's resourceVersion after that, or an empty string where nothing was changed.
        """
        node = self._books.ledger.fleet.node(allocation.node)
        vendors = {device.uuid: device.vendor for device in node.devices} if node is not None else {}
        images = []
        for container in request.containers:
            rule = self._books.policy.image_rule(container.image)
            grants = next((held.devices for held in allocation.containers if held.container == container.name), ())
            image = rule.images.get(vendors.get(grants[0].uuid, "")) if rule is not None and grants else None
            if image and image != container.image:
                section = "initContainers" if container.kind != "app" else "containers"
                images.append((section, {"name": container.name, "image": image}))
        if not images:
            return ""
        spec: dict[str, list[dict[str, str]]] = {}
        for section, entry in images:
            spec.setdefault(section, []).append(entry)
        form = "application/strategic-merge-patch+json"
        answer = await self._client.patch(POD, {"spec": spec}, request.name, request.namespace, form=form)
        return decode(answer, k8s.Pod).metadata.resource_version

    async def _post_binding(self, request: PodRequest, allocation: Allocation, text: str, version: str) -> None:
        """Bind the pod of this UID, as of this version, and carry the allocation to it in the same write."""
        metadata: dict[str, Any] = {"name": request.name, "namespace": request.namespace, "uid": request.key}
        if version:
            metadata["resourceVersion"] = version
        if text:
            metadata["annotations"] = {ALLOCATION: text}
        target = {"apiVersion": "v1", "kind": "Node", "name": allocation.node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        await self._client.create(POD, body, request.namespace, name=request.name, subresource="binding")

    async def undo(self, namespace: str, name: str, uid: str) -> None:
        """Take a claim back: no reservation, no devices, no finalizer, gone. What fails here the reconciler does."""
        try:
            body = {"metadata": {"uid": uid}, "status": {"reservedFor": None, "allocation": None}}
            await self._client.patch(CLAIM, body, name, namespace, subresource="status")
            await self._client.patch(CLAIM, {"metadata": {"uid": uid, "finalizers": None}}, name, namespace)
            await self._client.delete(CLAIM, name, namespace, uid=uid)
        except (NotFound, Conflict):
            return
        except ApiError:
            return

    async def _settled(self, row: PodRow, allocation: Allocation, why: str) -> None:
        """Learn from the API server what became of a bind that it did not answer, however long that takes.

        Raises:
            BindError: it did not happen, and cannot happen any more.
        """
        request = row.request
        while True:
            try:
                pod = await self._client.get(POD, k8s.Pod, request.name, request.namespace)
                node = pod.spec.node_name
                if pod.metadata.uid == request.key and not node:
                    pod = await self._fenced(pod)
            except NotFound:
                pod, node = k8s.Pod(), ""
            except Conflict:
                continue
            except ApiError:
                await asyncio.sleep(READ_BACK_S)
                continue
            break
        if pod.metadata.uid != request.key:
            self._books.plain.give_back(request.key)
            self._books.ledger.apply(ev.PodGone(request.key))
            raise BindError("is gone", where=f"pod {request.title}")
        known = self._books.ledger.fleet.node(node)
        held = holdings.read(pod, {node: known} if known is not None else {}) if node else None
        self._books.ledger.apply(ev.ReadBack(request, version_of(pod.metadata), node, held))
        if node != allocation.node:
            self._books.plain.give_back(request.key)
            elsewhere = f"is bound to {node}" if node else f"is not bound ({why})"
            raise BindError(elsewhere, where=f"pod {request.title}")

    async def _fenced(self, pod: k8s.Pod) -> k8s.Pod:
        """Change the pod, so that a Binding that is still on its way carries a stale version and is refused."""
        meta = pod.metadata
        body = {
            "metadata": {
                "uid": meta.uid,
                "resourceVersion": meta.resource_version,
                "annotations": {UNANSWERED: meta.resource_version},
            }
        }
        return decode(await self._client.patch(POD, body, meta.name, meta.namespace), k8s.Pod)


def granted(allocation: Allocation) -> str:
    """Return a grant in words: ``train: 2×(40Gi, 50 units)``."""
    parts = []
    for held in allocation.containers:
        for grant in held.devices:
            size = "whole" if grant.whole else f"{format_mib(grant.memory_mib)}, {grant.units} units"
            parts.append(f"{held.container}: {grant.uuid} {grant.profile or size}")
    return f"{allocation.node}: " + "; ".join(parts)
