"""Leases on a real API server: never two leaders, a quick hand-over, a step down in time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from terrazzo.kube import lease as leases
from terrazzo.kube.access import from_kubeconfig
from terrazzo.kube.client import Client
from terrazzo.kube.kinds import LEASE
from terrazzo.kube.lease import Election
from terrazzo.testing.cluster import ControlPlane


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane(scheduler=False, controllers=False) as made:
        yield made


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "LASTS_S", 3)
    monkeypatch.setattr(leases, "RENEW_S", 2)
    monkeypatch.setattr(leases, "RETRY_S", 0.2)


class Candidate:
    """A candidate that writes down when it led."""

    def __init__(self, plane: ControlPlane, lease: str, name: str, log: list[tuple[str, str, float]]) -> None:
        self.name, self.log, self.said = name, log, list[str]()
        self.client = Client(from_kubeconfig(plane.kubeconfig()))
        self.election = Election(self.client, "default", lease, name)
        self.task = asyncio.ensure_future(self.election.lead(self._work, self.said.append))

    async def _work(self) -> None:
        self.log.append((self.name, "on", time.monotonic()))
        try:
            await asyncio.Event().wait()
        finally:
            self.log.append((self.name, "off", time.monotonic()))

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.wait((self.task,))
        await self.client.close()


def alone(log: list[tuple[str, str, float]]) -> bool:
    """Return whether nobody led while another did."""
    leading: set[str] = set()
    for name, what, _ in log:
        if what == "on" and leading:
            return False
        (leading.add if what == "on" else leading.discard)(name)
    return True


async def leader(candidates: list[Candidate], deadline_s: float = 15) -> Candidate:
    until = time.monotonic() + deadline_s
    while time.monotonic() < until:
        for each in candidates:
            if each.election.leads and each.log and each.log[-1][:2] == (each.name, "on"):
                return each
        await asyncio.sleep(0.02)
    raise AssertionError([each.said for each in candidates])


def test_one_leads_and_hands_over_at_once(plane: ControlPlane) -> None:
    async def work() -> None:
        log: list[tuple[str, str, float]] = []
        candidates = [Candidate(plane, "handed", f"c{i}", log) for i in range(3)]
        for _ in range(3):
            first = await leader(candidates)
            await asyncio.sleep(0.5)
            began = time.monotonic()
            await first.stop()
            candidates.remove(first)
            if candidates:
                await leader(candidates)
                assert time.monotonic() - began < leases.LASTS_S, "handed over, not expired"
        assert alone(log)
        assert [what for _, what, _ in log] == ["on", "off"] * 3

    asyncio.run(work())


def test_a_leader_that_hears_nothing_steps_down_before_another_may_lead(plane: ControlPlane) -> None:
    async def work() -> None:
        log: list[tuple[str, str, float]] = []
        only = Candidate(plane, "paused", "only", log)
        await leader([only])
        plane.api.pause()
        paused = time.monotonic()
        try:
            while log[-1][1] == "on":
                await asyncio.sleep(0.02)
                assert time.monotonic() - paused < 30
        finally:
            plane.api.resume()
        assert log[-1][2] - paused <= leases.LASTS_S
        await leader([only])
        await only.stop()
        assert alone(log)

    asyncio.run(work())


def test_a_restart_in_place_does_not_wait_and_labels_of_others_stay(plane: ControlPlane) -> None:
    async def work() -> None:
        log: list[tuple[str, str, float]] = []
        first = Candidate(plane, "kept", "same", log)
        await leader([first])
        plane.admin.patch(LEASE, {"metadata": {"labels": {"a": "b"}}}, "kept", "default")
        first.election._renewed_at = -float("inf")  # as a kill leaves it: nothing is given back
        await first.stop()
        began = time.monotonic()
        again = Candidate(plane, "kept", "same", log)
        await leader([again])
        assert time.monotonic() - began < leases.LASTS_S
        assert plane.admin.get(LEASE, "kept", "default")["metadata"]["labels"] == {"a": "b"}
        await again.stop()

    asyncio.run(work())


def test_work_that_ends_or_fails_ends_the_election_and_gives_the_lease_back(plane: ControlPlane) -> None:
    async def work() -> None:
        async with Client(from_kubeconfig(plane.kubeconfig())) as client:

            async def ends() -> None:
                return

            async def fails() -> None:
                raise ValueError("a fault")

            await asyncio.wait_for(Election(client, "default", "ends", "x").lead(ends, print), 10)
            with pytest.raises(ValueError, match="a fault"):
                await asyncio.wait_for(Election(client, "default", "ends", "y").lead(fails, print), 10)
        assert plane.admin.get(LEASE, "ends", "default")["spec"]["holderIdentity"] == ""

    asyncio.run(work())
