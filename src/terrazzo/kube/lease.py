"""Leader election by a Lease (coordination.k8s.io/v1), as kube-scheduler and client-go do it.

Clocks of replicas are never compared: a candidate measures with its own clock how long the lease has not changed.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct, field

from terrazzo.kube.client import Client, decode
from terrazzo.kube.errors import ApiError, Conflict, NotFound
from terrazzo.kube.kinds import LEASE
from terrazzo.wire.kubernetes import ObjectMeta

LASTS_S = 15
RENEW_S = 10
"""A leader that could not renew for this long steps down, before anybody may take over."""
RETRY_S = 2.0


class LeaseSpec(Struct, rename="camel"):
    """``spec`` of a Lease."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class LeaseObject(Struct, rename="camel"):
    """A Lease."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: LeaseSpec = field(default_factory=LeaseSpec)


class Election:
    """One candidate.

    Args:
        client: the API server.
        namespace, name: the Lease.
        identity: of this candidate, unique among replicas.
    """

    def __init__(self, client: Client, namespace: str, name: str, identity: str) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._seen = ""
        self._seen_at = 0.0
        self._renewed_at = -float("inf")

    @property
    def leads(self) -> bool:
        """Whether this candidate is sure to lead now."""
        return time.monotonic() - self._renewed_at < RENEW_S

    async def lead(self, work: Callable[[], Awaitable[None]], said: Callable[[str], None]) -> None:
        """Run ``work`` whenever this candidate leads, cancel it when it leads no more; until ``work`` ends by itself.

        Args:
            work: runs until it is cancelled; an exception of its own is raised.
            said: is told of troubles, in sentences.
        """
        task: asyncio.Task[None] | None = None
        try:
            while True:
                try:
                    # A leader must know in time that it leads no more: before the lease can be anybody else's.
                    async with asyncio.timeout(min(RENEW_S / 2, self._left_s()) if self.leads else RENEW_S / 2):
                        await self._try()
                except (ApiError, TimeoutError) as error:
                    said(f"lease {self._namespace}/{self._name}: {error or 'no answer in time'}")
                if self.leads and task is None:
                    task = asyncio.ensure_future(work())
                elif not self.leads and task is not None:
                    await _stop(task)
                    task = None
                wait = RETRY_S * random.uniform(0.8, 1.2)  # noqa: S311 - jitter
                if task is None:
                    await asyncio.sleep(wait)
                    continue
                done, _ = await asyncio.wait((task,), timeout=min(wait, max(0.0, self._left_s())))
                if done:
                    task.result()
                    return
        finally:
            try:
                if task is not None and not task.done():
                    await _stop(task)
            finally:
                await self._give_back()

    def _left_s(self) -> float:
        """How long this candidate is still sure to lead, in seconds."""
        return self._renewed_at + RENEW_S - time.monotonic()

    async def _try(self) -> None:
        try:
            lease = await self._client.get(LEASE, LeaseObject, self._name, self._namespace)
        except NotFound:
            body = {**self._object(0, fresh=True), "metadata": {"name": self._name, "namespace": self._namespace}}
            started = time.monotonic()
            await self._client.create(LEASE, body, self._namespace)
            self._renewed_at = started
            return
        spec, version, now = lease.spec, lease.metadata.resource_version, time.monotonic()
        if version != self._seen:
            self._seen, self._seen_at = version, now
        ours = spec.holder_identity == self._identity
        free = not spec.holder_identity or now - self._seen_at > (spec.lease_duration_seconds or LASTS_S)
        if not ours and not free:
            self._renewed_at = -float("inf")
            return
        body = self._object(spec.lease_transitions or 0, fresh=not ours, acquired=spec.acquire_time)
        # A patch leaves labels and annotations alone that a chart, or a person, has put there.
        change = {"metadata": {"resourceVersion": version}, "spec": body["spec"]}
        try:
            answer = await self._client.patch(LEASE, change, self._name, self._namespace)
        except Conflict:
            if not ours:
                return
            raise
        self._renewed_at = now
        self._seen, self._seen_at = decode(answer, LeaseObject).metadata.resource_version, now

    def _object(self, transitions: int, *, fresh: bool, acquired: str | None = None) -> dict[str, Any]:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.name,
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": LASTS_S,
                "acquireTime": now if fresh or not acquired else acquired,
                "renewTime": now,
                "leaseTransitions": transitions + fresh,
            },
        }

    async def _give_back(self) -> None:
        """Let the next one take over at once instead of after the lease's time."""
        if not self.leads:
            return
        self._renewed_at = -float("inf")
        body = {"metadata": {"resourceVersion": self._seen}, "spec": {"holderIdentity": "", "leaseDurationSeconds": 1}}
        try:
            await asyncio.wait_for(self._client.patch(LEASE, body, self._name, self._namespace), 2)
        except (ApiError, TimeoutError):
            return


async def _stop(task: asyncio.Task[None]) -> None:
    """Cancel a task and wait until it has ended; a cancellation of the caller itself goes on."""
    task.cancel()
    await asyncio.wait((task,))
    if not task.cancelled() and task.exception() is not None:
        task.result()
