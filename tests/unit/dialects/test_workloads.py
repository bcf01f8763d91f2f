from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from terrazzo.dialects import workloads
from terrazzo.model.errors import InputError

POD = {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}
TEMPLATE = {"metadata": {"labels": {"app": "x"}, "annotations": {"terrazzo.io/vendor": "nvidia"}}, "spec": POD}


def thing(kind: str, spec: Any, **meta: str) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": "web", **meta}, "spec": spec}


def names(body: dict[str, Any]) -> list[str]:
    return [made.pod.metadata.name for made in workloads.pods_of(body, "f:1")]


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"])
def test_replicas_make_numbered_pods(kind: str) -> None:
    assert names(thing(kind, {"replicas": 3, "template": TEMPLATE})) == ["web-0", "web-1", "web-2"]
    assert names(thing(kind, {"template": TEMPLATE})) == ["web-0"]
    assert names(thing(kind, {"replicas": 0, "template": TEMPLATE})) == []


@pytest.mark.parametrize(
    ("spec", "number"),
    [({}, 1), ({"parallelism": 4}, 4), ({"parallelism": 4, "completions": 2}, 2), ({"completions": 9}, 1)],
)
def test_a_job_runs_as_many_pods_as_run_at_once(spec: dict[str, int], number: int) -> None:
    assert len(names(thing("Job", {**spec, "template": TEMPLATE}))) == number
    cron = thing("CronJob", {"schedule": "* * * * *", "jobTemplate": {"spec": {**spec, "template": TEMPLATE}}})
    assert len(names(cron)) == number


def test_a_daemon_set_stands_for_every_node() -> None:
    (made,) = workloads.pods_of(thing("DaemonSet", {"template": TEMPLATE}), "f:1")
    assert made.per_node


def test_a_pod_takes_over_what_its_template_says() -> None:
    (made,) = workloads.pods_of(thing("Deployment", {"template": TEMPLATE}, namespace="vision"), "f:1")
    meta = made.pod.metadata
    assert (meta.namespace, meta.labels, meta.annotations) == (
        "vision",
        {"app": "x"},
        {"terrazzo.io/vendor": "nvidia"},
    )
    assert meta.owner_references is not None
    assert (meta.owner_references[0].kind, meta.owner_references[0].name) == ("Deployment", "web")


UNKNOWN = {
    "ray": (
        "RayCluster",
        {
            "headGroupSpec": {"template": TEMPLATE},
            "workerGroupSpecs": [{"groupName": "gpu", "replicas": 2, "numOfHosts": 2, "template": TEMPLATE}],
        },
        ["web-head", "web-gpu-0", "web-gpu-1", "web-gpu-2", "web-gpu-3"],
    ),
    "ray job": (
        "RayJob",
        {"rayClusterSpec": {"workerGroupSpecs": [{"groupName": "gpu", "minReplicas": 1, "template": TEMPLATE}]}},
        ["web-raycluster-gpu"],
    ),
    "kubeflow": (
        "PyTorchJob",
        {
            "runPolicy": {"schedulingPolicy": {"minAvailable": 3}},
            "pytorchReplicaSpecs": {
                "Master": {"replicas": 1, "template": TEMPLATE},
                "Worker": {"replicas": 2, "template": TEMPLATE},
            },
        },
        ["web-master", "web-worker-0", "web-worker-1"],
    ),
    "volcano": (
        "Job.batch.volcano",
        {"minAvailable": 3, "tasks": [{"name": "ps", "replicas": 1, "template": TEMPLATE}]},
        ["web-ps"],
    ),
    "leader and workers": (
        "LeaderWorkerSet",
        {
            "replicas": 2,
            "leaderWorkerTemplate": {"size": 3, "leaderTemplate": TEMPLATE, "workerTemplate": TEMPLATE},
        },
        ["web-leader-0", "web-leader-1", "web-worker-0", "web-worker-1", "web-worker-2", "web-worker-3"],
    ),
    "workers alone": (
        "LeaderWorkerSet",
        {"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": TEMPLATE}},
        ["web-worker-0", "web-worker-1"],
    ),
    "job set": (
        "JobSet",
        {
            "replicatedJobs": [
                {"name": "w", "replicas": 2, "template": {"spec": {"parallelism": 2, "template": TEMPLATE}}},
            ]
        },
        ["web-w-0", "web-w-1", "web-w-2", "web-w-3"],
    ),
    "list of bare specs": (
        "SeldonDeployment",
        {"predictors": [{"name": "a", "componentSpecs": [{"spec": POD}]}]},
        ["web-a-componentspecs-0"],
    ),
    "own spec": ("Sandbox", POD, ["web"]),
    "no pods": ("Service", {"ports": [{"port": 80}]}, []),
}  # fmt: skip


@pytest.mark.parametrize("case", UNKNOWN)
def test_templates_are_found_in_kinds_nobody_knows(case: str) -> None:
    kind, spec, expected = UNKNOWN[case]
    body = thing(kind, spec)
    assert names(body) == expected
    assert workloads.is_workload(body) == bool(expected)


@pytest.mark.parametrize("count", [-1, 1.5, "three", True, 10**9])
@pytest.mark.parametrize("kind", ["Deployment", "RayCluster"])
def test_a_count_that_is_none_is_refused_with_its_place(kind: str, count: object) -> None:
    with pytest.raises(InputError, match=r"f:1.*replicas"):
        workloads.pods_of(thing(kind, {"replicas": count, "template": TEMPLATE}), "f:1")


def test_counts_that_multiply_without_end_are_refused() -> None:
    spec: dict[str, Any] = {"template": TEMPLATE}
    for _ in range(4):
        spec = {"replicas": 90_000, "inner": spec}
    with pytest.raises(InputError, match="100000 pods"):
        workloads.pods_of(thing("Tower", spec), "f:1")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, "pod template"),
        ({"template": {"spec": {}}}, "containers"),
        ({"template": {"spec": {"containers": "x"}}}, "spec.containers: is text where a list is expected"),
        ({"template": {"spec": {"containers": [{"name": 5}]}}}, r"containers\[0\].name: is a whole number"),
    ],
)
def test_damaged_workloads_are_told_with_their_field(spec: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        workloads.pods_of(thing("Deployment", spec), "f:1")


def test_null_counts_as_absent() -> None:
    body = thing("Deployment", {"template": {"spec": {**POD, "nodeName": None, "priorityClassName": None}}})
    assert names(body) == ["web-0"]


def test_deep_nesting_is_refused() -> None:
    spec: dict[str, Any] = {}
    for _ in range(5000):
        spec = {"a": spec}
    with pytest.raises(InputError, match="deep"):
        workloads.pods_of(thing("Deep", spec), "f:1")


WORDS = st.sampled_from(
    ["spec", "template", "containers", "replicas", "parallelism", "completions", "name", "resources", "limits", "size",
     "kind", "metadata", "jobTemplate", "workerGroupSpecs", "numOfHosts", "nvidia.com/gpu"]
)  # fmt: skip
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(-3, 5), st.floats(allow_nan=False), st.text(max_size=5))
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(WORDS, inner, max_size=4)),
    max_leaves=25,
)
KINDS = st.sampled_from(["Pod", "Deployment", "Job", "CronJob", "DaemonSet", "PodTemplate", "Ray", "List", ""])


@settings(max_examples=150, deadline=None)
@given(KINDS, st.dictionaries(WORDS, TREES, max_size=4))
def test_whatever_is_given_gives_pods_or_one_sentence(kind: str, body: dict[str, Any]) -> None:
    with suppress(InputError):
        made = workloads.pods_of({**body, "kind": kind}, "f:1")
        assert all(each.pod.spec.containers is not None for each in made)
