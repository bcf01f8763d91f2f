"""Calls that make no sense, against the real service: one line each, nothing changes, the service stays up."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from terrazzo.kube.kinds import CLAIM, POD
from terrazzo.testing.builders import SHARED, make_node
from terrazzo.testing.cluster.audit import leaks
from terrazzo.testing.cluster.kwok import Kwok
from terrazzo.testing.cluster.stack import Stack, is_ready, pod_object
from terrazzo.testing.cluster.waiting import wait_until

PART = {"terrazzo.io/gpu": 1, "terrazzo.io/gpu-memory": "1Gi"}


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with Stack() as made:
        Kwok(made.plane).start()
        made.add_nodes([make_node("gpu-0", SHARED[0], 40)])
        made.plane.admin.create(POD, pod_object("first", PART), "default")
        made.wait_bound(["first"])  # the node is ready then
        yield made


def call(stack: Stack, verb: str, body: Any) -> tuple[int, Any]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{stack.ports['extender']}/{verb}", data=data, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310 - ours
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except urllib.error.URLError:
        return 0, None  # turned away before all was sent


def bind(stack: Stack, name: str, uid: str, node: str) -> str:
    body = {"PodName": name, "PodNamespace": "default", "PodUID": uid, "Node": node}
    status, answer = call(stack, "bind", body)
    assert status == 200
    return str(answer["Error"])


def held_back(name: str, limits: dict[str, Any]) -> dict[str, Any]:
    return pod_object(name, limits, scheduler="nobody")


def uid_of(stack: Stack, name: str) -> str:
    pod = wait_until(lambda: stack.pod(name), "it is there")
    assert pod
    return str(pod["metadata"]["uid"])


def test_nonsense(stack: Stack) -> None:
    for verb in ("filter", "prioritize", "bind", "preempt"):
        for body in (b"", b"\xff\xfe", b"<html>", b"[]", b'{"Pod":7}', b"{" * 100_000):
            status, _ = call(stack, verb, body)
            assert status in {200, 400}
    assert call(stack, "filter", b"x" * (17 << 20))[0] in {0, 413}
    assert call(stack, "nowhere", b"{}")[0] == 404
    assert is_ready(stack.ports["scheduler"])


def test_a_node_that_is_not_there(stack: Stack) -> None:
    stack.plane.admin.create(POD, held_back("lost", PART), "default")
    uid = uid_of(stack, "lost")
    assert "not in the cluster" in bind(stack, "lost", uid, "no-such-node")
    _, answer = call(stack, "filter", {"Pod": stack.pod("lost"), "NodeNames": ["no-such-node"]})
    assert answer["FailedAndUnresolvableNodes"] == {"no-such-node": "node(s) that Terrazzo does not know yet"}
    assert not stack.node_of("lost")


def test_a_pod_that_is_gone_or_another(stack: Stack) -> None:
    assert "not found" in bind(stack, "never", "uid-never", "gpu-0")
    stack.plane.admin.create(POD, held_back("twin", PART), "default")
    uid_of(stack, "twin")
    assert "replaced" in bind(stack, "twin", "uid-of-another", "gpu-0")
    assert not stack.node_of("twin")


def test_bound_once_and_no_more(stack: Stack) -> None:
    stack.plane.admin.create(POD, held_back("once", PART), "default")
    uid = uid_of(stack, "once")
    assert not bind(stack, "once", uid, "gpu-0")
    wait_until(lambda: "already" in bind(stack, "once", uid, "gpu-0"), "a second bind is refused", deadline_s=10)
    assert len([c for c in stack.plane.admin.list(CLAIM, "default") if c["metadata"]["name"].startswith("once-")]) == 1


def test_more_devices_than_a_claim_holds(stack: Stack) -> None:
    stack.plane.admin.create(
        POD, held_back("many", {"terrazzo.io/gpu": 33, "terrazzo.io/gpu-memory": "1Gi"}), "default"
    )
    assert "a claim holds 32" in bind(stack, "many", uid_of(stack, "many"), "gpu-0")
    wait_until(lambda: not leaks(stack.plane), "nothing is left", deadline_s=20)
