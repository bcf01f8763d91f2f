"""Whatever bytes come in, the webhooks answer: within the protocol, or with an HTTP status and a sentence."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from terrazzo.admission import summarise
from terrazzo.control.webhook import WARNING_BYTES, Reviewed, Webhook
from terrazzo.dialects import names
from terrazzo.model.errors import InputError
from terrazzo.model.policy import Policy
from terrazzo.testing.builders import SHARED, make_node
from terrazzo.wire import review

WEBHOOK = Webhook(
    lambda: Policy(scheduler="terrazzo"),
    lambda: summarise([make_node(f"node-{i}", kind) for i, kind in enumerate(SHARED)]),
    lambda _: True,
)
PATHS = (WEBHOOK.admit, WEBHOOK.admit_whole, WEBHOOK.warn)

scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=8))
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
amounts = st.dictionaries(
    st.sampled_from([*names.all_names(), "cpu", "nvidia.com/mig-1g.10gb", "terrazzo.io/gpu-mem"]),
    st.sampled_from([0, 1, 3, 100, "8Gi", "30", "-1", "x"]),
    max_size=4,
)
containers = st.lists(
    st.fixed_dictionaries(
        {"name": st.text(max_size=4), "image": st.text(max_size=4)},
        optional={
            "resources": st.fixed_dictionaries({}, optional={"limits": amounts, "requests": amounts}),
            "env": st.lists(st.fixed_dictionaries({"name": st.sampled_from(["A", "LD_PRELOAD"]), "value": st.text()})),
        },
    ),
    max_size=3,
)
specs = st.fixed_dictionaries(
    {"containers": containers},
    optional={
        "initContainers": containers, "nodeName": st.sampled_from(["", "n"]), "os": st.just({"name": "windows"}),
        "schedulerName": st.sampled_from(["", "default-scheduler", "terrazzo", "volcano"]),
        "schedulingGates": st.lists(st.fixed_dictionaries({"name": st.sampled_from(["a", "terrazzo.io/devices"])})),
    },
)  # fmt: skip
metas = st.fixed_dictionaries(
    {},
    optional={
        "name": st.text(max_size=5), "generateName": st.text(max_size=5), "namespace": st.text(max_size=5),
        "annotations": st.dictionaries(st.sampled_from(["terrazzo.io/allocation", "terrazzo.io/vendor"]), st.text()),
    },
)  # fmt: skip
pods = st.fixed_dictionaries({"metadata": metas, "spec": specs})
workloads = st.fixed_dictionaries(
    {
        "metadata": metas,
        "spec": st.one_of(
            anything,
            st.fixed_dictionaries({"replicas": anything, "template": pods}),
            st.fixed_dictionaries({"jobTemplate": st.fixed_dictionaries({"spec": st.just({}) | anything})}),
        ),
    }
)


def reviews(objects: st.SearchStrategy[Any]) -> st.SearchStrategy[bytes]:
    request = st.fixed_dictionaries(
        {"uid": st.text(min_size=1, max_size=6), "object": objects},
        optional={
            "kind": st.one_of(
                anything,
                st.fixed_dictionaries({"kind": st.sampled_from(["Pod", "Job", "CronJob", "Deployment"])}),
            ),
            "operation": st.sampled_from(["CREATE", "UPDATE", "DELETE"]),
            "namespace": st.text(max_size=5),
            "userInfo": st.one_of(anything, st.fixed_dictionaries({"username": st.text()})),
        },
    )
    whole = {"apiVersion": st.just("admission.k8s.io/v1"), "kind": st.just("AdmissionReview"), "request": request}
    return st.fixed_dictionaries(whole).map(msgspec.json.encode)


def checked(answer: Reviewed) -> None:
    body = msgspec.json.decode(answer.body)
    assert not answer.decision.fault, answer.decision.sentence
    if answer.status != 200:
        assert answer.status == 400
        assert body["error"] == answer.decision.sentence
        return
    said = body["response"]
    assert said["allowed"] == answer.decision.allowed
    assert said["uid"] == answer.decision.uid
    assert said["allowed"] or "\n" not in said["status"]["message"]
    assert all(len(each.encode()) <= WARNING_BYTES and each.isprintable() for each in said.get("warnings", ()))
    if "patch" in said:
        assert all(operation["op"] == "add" for operation in msgspec.json.decode(base64.b64decode(said["patch"])))


@given(st.binary(max_size=200))
def test_any_bytes(body: bytes) -> None:
    for path in PATHS:
        checked(path(body))
    with pytest.raises(InputError):
        review.decode(body)


@given(anything)
def test_any_json(value: Any) -> None:
    for path in PATHS:
        checked(path(msgspec.json.encode(value)))


@given(reviews(st.one_of(anything, pods, workloads)))
def test_any_object(body: bytes) -> None:
    for path in PATHS:
        checked(path(body))


@given(reviews(pods), st.integers(0, 400), st.binary(min_size=1, max_size=3))
def test_a_review_damaged_on_its_way(body: bytes, at: int, junk: bytes) -> None:
    at %= len(body)
    for damaged in (body[:at], body[:at] + junk + body[at:], body[:at] + junk + body[at + len(junk) :]):
        for path in PATHS:
            checked(path(damaged))
