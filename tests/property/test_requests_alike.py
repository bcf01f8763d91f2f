"""Reading pods of one template once changes nothing about any of them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from test_normalise_fuzz import pods

from terrazzo.control.requests import MOST, Requests
from terrazzo.dialects.normalise import normalise
from terrazzo.model.errors import RequestError
from terrazzo.model.request import PodRequest
from terrazzo.wire.kubernetes import Pod
from terrazzo.wire.state import ALLOCATION

OWNER = {"kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}
own = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["a", "b"]),
        "generateName": st.just("g-"),
        "namespace": st.sampled_from(["default", "team"]),
        "uid": st.sampled_from(["1", "2"]),
        "labels": st.dictionaries(st.sampled_from(["app"]), st.sampled_from(["x", "y"])),
        "creationTimestamp": st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"]),
        "ownerReferences": st.just([OWNER]),
    },
)
lives = st.tuples(own, st.sampled_from(["", "n0", "n1"]), st.sampled_from(["Pending", "Running"]), st.booleans())


def _pod(template: dict[str, Any], life: tuple[dict[str, Any], str, str, bool]) -> Pod:
    body, (meta, node, phase, held) = copy.deepcopy(template), life
    body["metadata"] |= meta
    body["spec"]["nodeName"] = node
    body["status"] = {"phase": phase}
    if held:
        body["metadata"]["annotations"] |= {ALLOCATION: "{}"}
    return msgspec.convert(body, Pod)


@settings(max_examples=200, deadline=None)
@given(pods, st.lists(lives, min_size=2, max_size=5))
def test_every_pod_of_a_template_is_read_as_it_would_be_alone(template: dict[str, Any], each: list[Any]) -> None:
    requests = Requests()
    for life in each:
        pod = _pod(template, life)
        assert _said(requests.of, pod) == _said(lambda each: normalise(each).request, pod)


def _said(read: Callable[[Pod], PodRequest], pod: Pod) -> PodRequest | str:
    try:
        return read(pod)
    except RequestError as error:
        return str(error)


def test_what_is_remembered_has_an_end() -> None:
    requests = Requests()
    for number in range(MOST + 10):
        spec = {"containers": [{"name": "c", "image": f"app:{number}"}]}
        requests.of(msgspec.convert({"metadata": {"name": "p"}, "spec": spec}, Pod))
    assert len(requests._known) <= MOST
