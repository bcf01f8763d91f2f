"""A stream of pods of all kinds, created and deleted at random while something else breaks."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Self

from terrazzo.kube.errors import ApiError
from terrazzo.kube.kinds import POD
from terrazzo.testing.cluster.stack import Stack, pod_object
from terrazzo.testing.cluster.waiting import wait_until

LIMITS: tuple[dict[str, Any], ...] = (
    {"terrazzo.io/gpu": 1, "terrazzo.io/gpu-memory": "8Gi", "terrazzo.io/gpu-cores": 20},
    {"terrazzo.io/gpu": 2, "terrazzo.io/gpu-memory": "20Gi"},
    {"nvidia.com/gpu": 1},
    {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000, "nvidia.com/gpucores": 10},
    {"terrazzo.io/gpu": 1, "terrazzo.io/gpu-memory-percentage": 30},
)


class Stream:
    """Creates pods and deletes some of them again, until stopped.

    Args:
        stack: the cluster.
        namespace: of the pods.
        number: pods to create in all.
        per_second: how fast; the API server may be slower.
        most: pods at once; beyond, one is deleted for each that is created.
        burst: pods created at the same time.
        seed: of chance.
    """

    def __init__(
        self,
        stack: Stack,
        namespace: str,
        *,
        number: int,
        per_second: float = 50,
        most: int = 60,
        burst: int = 1,
        seed: int = 1,
    ) -> None:
        self.stack = stack
        self.namespace = namespace
        self.number = number
        self.created = 0
        self._pause_s = 1 / per_second
        self._most = most
        self._burst = burst
        self._random = random.Random(seed)  # noqa: S311 - a stream that can be had again
        self._alive: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="stream", daemon=True)

    def __enter__(self) -> Self:
        """Start."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self._stop.set()
        self._thread.join()

    def wait(self, deadline_s: float = 600) -> None:
        """Wait until all pods have been created."""
        self._thread.join(deadline_s)

    @property
    def done(self) -> bool:
        """Whether all pods have been created."""
        return not self._thread.is_alive()

    def _work(self) -> None:
        while self.created < self.number and not self._stop.is_set():
            until = min(self.number, self.created + self._burst)
            self.stack.plane.admin.run(self._burst_of(range(self.created, until)))
            self.created = until
            time.sleep(self._pause_s * self._burst)

    async def _burst_of(self, numbers: Iterable[int]) -> None:
        await asyncio.gather(*(self._one(f"s{number}") for number in numbers))

    async def _one(self, name: str) -> None:
        """Create one pod, and delete another where there are enough; again and again while the API server is away."""
        client = self.stack.plane.admin.client
        pod = pod_object(name, self._random.choice(LIMITS), annotations={"terrazzo.io/vendor": "nvidia"})
        victim = ""
        if len(self._alive) >= self._most:
            victim = self._alive.pop(self._random.randrange(len(self._alive)))
        self._alive.append(name)
        while not self._stop.is_set():
            try:
                if victim:
                    await client.delete(POD, victim, self.namespace, grace_s=0)
                await client.create(POD, pod, self.namespace)
            except ApiError as error:
                if error.status == 409:
                    return
                await asyncio.sleep(0.5)
            else:
                return

    def settled(self, deadline_s: float = 90) -> int:
        """Wait until every pod is bound or told why not, delete them all, and return how many were bound."""
        bound = wait_until(self._answered, "every pod is bound or told why not", deadline_s=deadline_s, step_s=0.5)
        for pod in self.stack.plane.admin.list(POD, self.namespace):
            with suppress(ApiError):
                self.stack.plane.admin.delete(POD, pod["metadata"]["name"], self.namespace, grace_s=0)
        return bound

    def _answered(self) -> int:
        bound = 0
        for pod in self.stack.plane.admin.list(POD, self.namespace):
            told = any(c["type"] == "PodScheduled" for c in pod.get("status", {}).get("conditions", ()))
            bound += bool(pod["spec"].get("nodeName"))
            if not pod["spec"].get("nodeName") and not told:
                return 0
        return bound
