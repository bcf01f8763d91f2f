"""The API server restarts, etcd stops, answers and watches are lost: the books stay right."""

from __future__ import annotations

import time

import pytest
from settling import holds

from terrazzo.kube.kinds import NODE, POD
from terrazzo.testing.cluster.audit import leaks, over_granted
from terrazzo.testing.cluster.relay import Relay
from terrazzo.testing.cluster.stack import Stack, pod_object
from terrazzo.testing.cluster.stream import Stream

PART = {"terrazzo.io/gpu": 1, "terrazzo.io/gpu-memory": "8Gi"}


def test_api_server_restarted(stack: Stack) -> None:
    with Stream(stack, "default", number=150) as stream:
        for _ in range(2):
            time.sleep(1)
            stack.plane.api.restart()
        stream.wait()
        assert stream.settled() > 20
    holds(stack)


def test_etcd_paused(stack: Stack) -> None:
    with Stream(stack, "default", number=150) as stream:
        time.sleep(1)
        stack.plane.etcd.pause()
        time.sleep(8)
        stack.plane.etcd.resume()
        stream.wait()
        assert stream.settled() > 20
    holds(stack)


def _behind(stack: Stack, relay: Relay) -> None:
    """Put the service behind a wire that can be cut."""
    for name, process in (("scheduler", stack.extender), ("controller", stack.controller)):
        process.stop()
        stack.start_service(name, port=relay.port)


@pytest.mark.parametrize("way", ["answers", "requests"])
def test_a_bind_that_outlasts_the_schedulers_patience(stack: Stack, way: str) -> None:
    with stack.plane.relay() as relay:
        _behind(stack, relay)
        stack.restart_scheduler({"extender": {"httpTimeout": "2s"}})
        for index in range(6):
            stack.plane.admin.create(POD, pod_object(f"p{index}", PART), "default")
        time.sleep(0.15)
        for _ in range(4):
            relay.hold(requests=way == "requests", answers=way == "answers")
            time.sleep(4)  # longer than kube-scheduler waits: it calls again meanwhile
            relay.release()
            time.sleep(0.3)
        stack.wait_bound([f"p{i}" for i in range(6)], seconds=90)
        holds(stack)


def test_watches_cut_and_compacted(stack: Stack) -> None:
    with stack.plane.relay() as relay:
        _behind(stack, relay)
        # Compaction forgets what the audit reads, so it is audited up to here first.
        with Stream(stack, "default", number=200) as stream:
            for _ in range(8):
                time.sleep(0.4)
                relay.cut()
            stream.wait()
            assert stream.settled() > 20
        holds(stack)
        relay.hold()
        for index in range(8):
            stack.plane.admin.create(POD, pod_object(f"late{index}", PART), "default")
            stack.plane.admin.delete(POD, f"late{index}", "default", grace_s=0)
        since = stack.plane.store.compact()
        relay.cut()
        relay.release()
        stack.plane.admin.create(POD, pod_object("after", PART), "default")
        stack.wait_bound(["after"])
        assert not leaks(stack.plane)
        over_granted_since = over_granted(stack.plane, since=since, nodes_from=stack.plane.admin.list(NODE))
        assert over_granted_since.versions
