"""What Kubernetes itself checks, counted as Kubernetes counts it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from terrazzo.dialects.normalise import normalise
from terrazzo.model.errors import RequestError
from terrazzo.model.request import LabelTest, PodRequest, Preference, Toleration
from terrazzo.wire.kubernetes import Pod


def request(spec: dict[str, Any], **metadata: Any) -> PodRequest:
    return normalise(msgspec.convert({"metadata": {"name": "p", **metadata}, "spec": spec}, Pod)).request


def uses(cpu: str, memory: str = "0", **more: Any) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": cpu, "memory": memory}}, **more}


def test_containers_add_up() -> None:
    got = request({"containers": [uses("1500m", "1Gi"), uses("0.5", "512Mi")]})
    assert (got.cpu_milli, got.memory_mib) == (2000, 1536)


def test_an_init_container_counts_where_it_is_more_than_the_rest() -> None:
    got = request({"initContainers": [uses("4"), uses("1")], "containers": [uses("1"), uses("2")]})
    assert got.cpu_milli == 4000


def test_sidecars_count_beside_apps_and_beside_later_init_containers() -> None:
    side = uses("2", restartPolicy="Always")
    assert request({"initContainers": [side], "containers": [uses("3")]}).cpu_milli == 5000
    assert request({"initContainers": [side, uses("4")], "containers": [uses("3")]}).cpu_milli == 6000
    assert request({"initContainers": [uses("4"), side], "containers": [uses("1")]}).cpu_milli == 4000


def test_overhead_is_added() -> None:
    got = request({"containers": [uses("1", "1Gi")], "overhead": {"cpu": "250m", "memory": "120Mi"}})
    assert (got.cpu_milli, got.memory_mib) == (1250, 1144)


def test_a_limit_without_a_request_is_a_request_and_a_request_beats_a_limit() -> None:
    limit = {"resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}
    both = {"resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}}
    assert request({"containers": [limit]}).cpu_milli == 2000
    assert request({"containers": [both]}).cpu_milli == 1000


def test_other_extended_resources_but_not_devices_nor_kubernetes_own() -> None:
    limits = {
        "rdma/hca": 2, "nvidia.com/gpu": 1, "terrazzo.io/gpu-cores": 0, "kubernetes.io/batch": 1,
        "hugepages-2Mi": "4Mi", "ephemeral-storage": "1Gi", "example.com/zero": 0,
    }  # fmt: skip
    assert request({"containers": [{"resources": {"limits": limits}}]}).other == {"rdma/hca": 2}


@pytest.mark.parametrize("value", ["-1", "lots", "1GB"])
def test_a_bad_host_quantity_is_refused_with_its_path(value: str) -> None:
    with pytest.raises(RequestError, match=r"spec\.containers\[0\]\.resources\.requests\[memory\]"):
        request({"containers": [{"resources": {"requests": {"memory": value}}}]})


def test_absurd_amounts_stay_countable() -> None:
    assert request({"containers": [uses("9e300", "9e300")]}).cpu_milli <= 1 << 50


def test_selectors_affinity_and_tolerations() -> None:
    rules = request(
        {
            "nodeName": "n1",
            "nodeSelector": {"zone": "a"},
            "tolerations": [
                {"key": "gpu", "operator": "Exists"},
                {"key": "team", "value": "x", "effect": "NoSchedule"},
            ],
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "gen", "operator": "Gt", "values": ["3"]}]},
                            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
                        ]
                    },
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 7, "preference": {"matchExpressions": [{"key": "ssd", "operator": "Exists"}]}}
                    ],
                }
            },
        }
    ).rules
    assert rules.node_name == "n1"
    assert rules.selector == {"zone": "a"}
    assert rules.terms == ((LabelTest("gen", "Gt", ("3",)),), (LabelTest("metadata.name", "In", ("n1",)),))
    assert rules.preferences == (Preference(7, (LabelTest("ssd", "Exists"),)),)
    assert rules.tolerations == (Toleration("gpu", "Exists"), Toleration("team", "Equal", "x", "NoSchedule"))


def test_a_required_affinity_without_terms_matches_no_node() -> None:
    empty: dict[str, Any] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}
    }
    assert request({"affinity": empty}).rules.terms == ((),)
    assert request({"affinity": {"nodeAffinity": {}}}).rules.terms == ()


def test_identity_age_owner_priority_and_phase() -> None:
    pod = msgspec.convert(
        {
            "metadata": {
                "name": "p",
                "namespace": "team",
                "uid": "u-1",
                "labels": {"app": "x"},
                "creationTimestamp": "2026-01-02T03:04:05Z",
                "ownerReferences": [{"kind": "Thing", "name": "t"}, {"kind": "Job", "name": "j", "controller": True}],
            },
            "spec": {"priority": 1000},
            "status": {"phase": "Running"},
        },
        Pod,
    )
    got = normalise(pod).request
    assert (got.title, got.uid, got.labels) == ("team/p", "u-1", {"app": "x"})
    assert (got.created_s, got.owner, got.priority, got.phase) == (1767323045, "Job/j", 1000, "Running")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1970-01-01T00:00:10Z", 10), ("1970-01-01T02:00:00+02:00", 0), ("1970-01-01T00:00:10", 10), ("soon", 0), ("", 0)],
)
def test_times_are_read_without_a_clock(text: str, seconds: int) -> None:
    assert request({}, creationTimestamp=text).created_s == seconds


def test_a_template_is_named_by_what_it_would_generate() -> None:
    pod = msgspec.convert({"metadata": {"generateName": "web-"}}, Pod)
    assert normalise(pod).request.title == "default/web-"
