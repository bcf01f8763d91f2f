"""Whatever breaks, no device is over-granted at any moment, nothing is left over, every pod is bound or told why."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from terrazzo.kube.kinds import CLAIM, DEVICE_CLASS, NODE, POD, Kind
from terrazzo.testing.builders import SHARED, make_node
from terrazzo.testing.cluster.audit import leaks, over_granted
from terrazzo.testing.cluster.kwok import Kwok
from terrazzo.testing.cluster.relay import Relay
from terrazzo.testing.cluster.stack import Stack, pod_object
from terrazzo.testing.cluster.stream import Stream
from terrazzo.testing.cluster.waiting import wait_until

STATEFUL_SET = Kind("apps", "v1", "statefulsets", "StatefulSet")
PART = {"terrazzo.io/gpu": 1, "terrazzo.io/gpu-memory": "8Gi"}
SETTLES_S = 10


@pytest.fixture(params=["dra", "classic"])
def stack(request: pytest.FixtureRequest) -> Iterator[Stack]:
    with Stack(ledger=request.param, history=True) as made:
        Kwok(made.plane).start()
        made.add_nodes([make_node(f"gpu-{i}", SHARED[0], 4) for i in range(4)])
        yield made


def _holds(stack: Stack) -> None:
    """Nothing was over-granted at any moment, and nothing is left over ten seconds after the dust settles."""
    time.sleep(0.5)
    wait_until(lambda: not leaks(stack.plane), f"nothing is left over: {leaks(stack.plane)}", deadline_s=SETTLES_S)
    assert over_granted(stack.plane).versions


def test_killed_at_random_instants_under_a_stream(stack: Stack) -> None:
    chance = random.Random(5)  # noqa: S311 - instants that can be had again
    with Stream(stack, "default", number=500, per_second=25) as stream:
        for _ in range(50):
            time.sleep(chance.uniform(0.05, 0.8))
            name = chance.choice(("scheduler", "controller"))
            (stack.extender if name == "scheduler" else stack.controller).kill()
            stack.start_service(name)
        stream.wait()
        assert stream.settled() > 20
    _holds(stack)


def test_api_server_restarted(stack: Stack) -> None:
    with Stream(stack, "default", number=150) as stream:
        for _ in range(2):
            time.sleep(1)
            stack.plane.api.restart()
        stream.wait()
        assert stream.settled() > 20
    _holds(stack)


def test_etcd_paused(stack: Stack) -> None:
    with Stream(stack, "default", number=150) as stream:
        time.sleep(1)
        stack.plane.etcd.pause()
        time.sleep(8)
        stack.plane.etcd.resume()
        stream.wait()
        assert stream.settled() > 20
    _holds(stack)


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
        _holds(stack)


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
        _holds(stack)
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


def test_two_schedulers_at_once(stack: Stack) -> None:
    rival = stack.rival()
    with Stream(stack, "default", number=300, per_second=100) as stream:
        stream.wait()
        assert stream.settled() > 20
    rival.stop()
    _holds(stack)


def test_clock_jumps(stack: Stack, tmp_path: Path) -> None:
    source = Path(__file__).parent / "clock.c"
    library, offset = tmp_path / "clock.so", tmp_path / "offset"
    build = ["gcc", "-shared", "-fPIC", "-O2", "-o", str(library), str(source)]
    subprocess.run(build, check=True)  # noqa: S603 - our own file
    offset.write_text("0")
    for name, process in (("scheduler", stack.extender), ("controller", stack.controller)):
        process.stop()
        stack.start_service(name, env={"LD_PRELOAD": str(library), "CLOCK_OFFSET_FILE": str(offset)})
    with Stream(stack, "default", number=150) as stream:
        for jump in (86_400, -86_400, 10, -3600, 0):
            time.sleep(0.6)
            offset.write_text(str(jump))
        stream.wait()
        assert stream.settled() > 20
    _holds(stack)


def test_node_deleted_with_pods_on_it(stack: Stack) -> None:
    for index in range(12):
        stack.plane.admin.create(POD, pod_object(f"p{index}", PART), "default")
    bound = stack.wait_bound([f"p{i}" for i in range(12)])
    gone = bound["p0"]
    stack.plane.admin.delete(NODE, gone)
    lost = [name for name, node in bound.items() if node == gone]
    wait_until(lambda: not any(stack.pod(name) for name in lost), "its pods are collected", deadline_s=90)
    stack.plane.admin.create(POD, pod_object("next", PART), "default")
    assert stack.wait_bound(["next"])["next"] != gone
    wait_until(lambda: not leaks(stack.plane), "nothing is left over", deadline_s=SETTLES_S)


def _uid(stack: Stack, name: str) -> str:
    return str((stack.pod(name) or {}).get("metadata", {}).get("uid", ""))


def test_stateful_set_pods_replaced_under_the_same_name(stack: Stack) -> None:
    template = pod_object("x", PART, labels={"app": "db"})
    spec = {"serviceName": "db", "replicas": 3, "selector": {"matchLabels": {"app": "db"}}, "template": template}
    spec["podManagementPolicy"] = "Parallel"
    stack.plane.admin.create(STATEFUL_SET, {"metadata": {"name": "db"}, "spec": spec}, "default")
    names = [f"db-{i}" for i in range(3)]
    for _ in range(8):
        stack.wait_bound(names)
        before = {name: _uid(stack, name) for name in names}
        for name in names:
            stack.plane.admin.delete(POD, name, "default", grace_s=0)

        def replaced(before: dict[str, str] = before) -> bool:
            return all(_uid(stack, name) not in {"", before[name]} for name in names)

        wait_until(replaced, "all are replaced")
    stack.wait_bound(names)
    _holds(stack)


def test_a_device_class_that_takes_a_name_away(stack: Stack) -> None:
    if stack.ledger == "classic":
        pytest.skip("the classic ledger has no device classes")
    body = {"metadata": {"name": "theirs"}, "spec": {"extendedResourceName": "nvidia.com/gpu"}}
    stack.plane.admin.create(DEVICE_CLASS, body)
    time.sleep(0.5)
    stack.plane.admin.create(POD, pod_object("hijacked", {"nvidia.com/gpu": 1}), "default")
    stack.plane.admin.create(POD, pod_object("ours", PART), "default")
    stack.wait_bound(["ours"])
    wait_until(lambda: "theirs" in stack.event_text("hijacked") or "claims" in stack.event_text("hijacked"), "told why")
    assert not stack.node_of("hijacked")
    stack.plane.admin.delete(DEVICE_CLASS, "theirs")
    stack.wait_bound(["hijacked"], seconds=30)
    _holds(stack)


def test_a_claim_deleted_by_hand_is_rebuilt_under_its_name(stack: Stack) -> None:
    if stack.ledger == "classic":
        pytest.skip("the classic ledger has no claims")
    stack.plane.admin.create(POD, pod_object("p", PART), "default")
    stack.wait_bound(["p"])
    (claim,) = stack.plane.admin.list(CLAIM, "default")
    name, uid = claim["metadata"]["name"], claim["metadata"]["uid"]
    stack.plane.admin.patch(CLAIM, {"metadata": {"finalizers": None}}, name, "default")
    stack.plane.admin.delete(CLAIM, name, "default")

    def rebuilt() -> Any:
        found = stack.plane.admin.find(CLAIM, name, "default")
        return (
            found if found and found["metadata"]["uid"] != uid and found.get("status", {}).get("allocation") else None
        )

    again = wait_until(rebuilt, "the claim is there again", deadline_s=30)
    assert again["status"]["allocation"]["devices"] == claim["status"]["allocation"]["devices"]
    _holds(stack)


def test_ten_thousand_pods_at_random(stack: Stack) -> None:
    if stack.ledger == "classic":
        pytest.skip("once is enough; the dra ledger has more writes to go wrong")
    with Stream(stack, "default", number=10_000, per_second=400, most=40) as stream:
        stream.wait(1500)
        assert stream.created == stream.number
        assert stream.settled() > 5
    assert "terrazzo_invariant_faults_total 0.0" in stack.metrics()
    _holds(stack)
