"""Every rule of the words that users write, in our dialect."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from terrazzo.dialects.normalise import Normalised, normalise
from terrazzo.model.errors import RequestError
from terrazzo.model.request import Ask, ContainerKind
from terrazzo.wire.kubernetes import Pod

GPU = "terrazzo.io/gpu"
MEMORY = "terrazzo.io/gpu-memory"
PERCENTAGE = "terrazzo.io/gpu-memory-percentage"
CORES = "terrazzo.io/gpu-cores"


def pod(*containers: dict[str, Any], annotations: dict[str, str] | None = None, **spec: Any) -> Pod:
    rows = [{"name": f"c{i}", "resources": {"limits": limits}} for i, limits in enumerate(containers)]
    return msgspec.convert(
        {"metadata": {"name": "train", "annotations": annotations}, "spec": {"containers": rows, **spec}}, Pod
    )


def one(limits: dict[str, Any], **annotations: str) -> Ask:
    (container,) = read(limits, **annotations).request.containers
    (ask,) = container.asks
    return ask


def read(limits: dict[str, Any], **annotations: str) -> Normalised:
    return normalise(pod(limits, annotations={f"terrazzo.io/{key}": text for key, text in annotations.items()}))


def refused(limits: dict[str, Any], **annotations: str) -> str:
    with pytest.raises(RequestError) as caught:
        read(limits, **annotations)
    return str(caught.value)


def amounts(ask: Ask) -> tuple[int, int, int, int, bool]:
    return ask.count, ask.memory_mib, ask.memory_percent, ask.cores_percent, ask.whole


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        pytest.param({GPU: 1}, (1, 0, 0, 0, True), id="rule 1: count alone is a whole device"),
        pytest.param({GPU: 4}, (4, 0, 0, 0, True), id="rule 1: several whole devices"),
        pytest.param({GPU: 1, MEMORY: "8Gi"}, (1, 8192, 0, 0, False), id="rule 2: memory reserves no compute"),
        pytest.param({GPU: 1, PERCENTAGE: 25}, (1, 0, 25, 0, False), id="rule 2: percentage reserves no compute"),
        pytest.param({GPU: 1, CORES: 30}, (1, 0, 30, 30, False), id="rule 3: cores take the same share of memory"),
        pytest.param({MEMORY: "8Gi"}, (1, 8192, 0, 0, False), id="rule 4: memory without count is one device"),
        pytest.param({CORES: 30}, (1, 0, 30, 30, False), id="rule 4: cores without count is one device"),
        pytest.param({GPU: 2, MEMORY: "8Gi", CORES: 30}, (2, 8192, 0, 30, False), id="amounts are per device"),
        pytest.param({GPU: 1, MEMORY: 8589934593}, (1, 8193, 0, 0, False), id="bytes round up to MiB"),
        pytest.param({GPU: 1, MEMORY: "1.5Gi"}, (1, 1536, 0, 0, False), id="fractions of a Gi are whole bytes"),
        pytest.param({GPU: 1, MEMORY: "8G"}, (1, 7630, 0, 0, False), id="8G is decimal"),
        pytest.param({GPU: "1", CORES: "100", MEMORY: "8Gi"}, (1, 8192, 0, 100, False), id="all compute, some memory"),
        pytest.param({GPU: 1.0, MEMORY: "8Gi"}, (1, 8192, 0, 0, False), id="a float that is whole"),
    ],
)
def test_rules_of_our_words(limits: dict[str, Any], expected: tuple[int, int, int, int, bool]) -> None:
    assert amounts(one(limits)) == expected
    assert read(limits).warnings == ()


def test_neutral_words_imply_no_vendor() -> None:
    ask = one({GPU: 1})
    assert ask.vendors == ()
    assert ask.models == ()
    assert ask.words == (GPU,)


def test_rule_5_memory_beats_percentage_with_a_warning() -> None:
    result = read({GPU: 1, MEMORY: "8Gi", PERCENTAGE: 50})
    assert amounts(result.request.containers[0].asks[0]) == (1, 8192, 0, 0, False)
    (warning,) = result.warnings
    assert "the percentage is not used" in warning
    assert warning.startswith("pod default/train: spec.containers[0].resources")


@pytest.mark.parametrize("name", [MEMORY, PERCENTAGE, CORES])
def test_rule_5_zero_is_absent_with_a_warning(name: str) -> None:
    result = read({GPU: 1, name: 0})
    assert result.request.containers[0].asks[0].whole
    field = f"spec.containers[0].resources.limits[{name}]"
    (warning,) = result.warnings
    assert warning == f"pod default/train: {field}: 0 asks for nothing and counts as absent; leave the line out."


def test_a_pod_whose_every_number_is_zero_asks_for_nothing() -> None:
    result = read({GPU: 0, MEMORY: "0"})
    assert not result.request.asks_devices
    assert len(result.warnings) == 2


@pytest.mark.parametrize(
    ("limits", "says", "remedy"),
    [
        ({GPU: 1, CORES: 120}, "120 is more than the 100", "write a number from 1 to 100"),
        ({CORES: 200}, "200 is more than the 100", "for 2 devices write terrazzo.io/gpu: 2"),
        ({PERCENTAGE: 101}, "more than 100 percent", "write a number from 1 to 100"),
        ({GPU: -1}, "-1 is negative", "write a positive number"),
        ({MEMORY: "-8Gi"}, "-8Gi is negative", "leave the line out"),
        ({GPU: "1.5"}, "1.5 is not a whole number", "write 2"),
        ({CORES: 0.5}, "0.5 is not a whole number", "write 1"),
        ({MEMORY: "8GB"}, "unknown suffix 'GB'", "write 8Gi"),
        ({MEMORY: "8gb"}, "unknown suffix 'gb'", "write 8Gi"),
        ({MEMORY: "much"}, "'much' is not a quantity", "such as 8Gi"),
        ({MEMORY: "8 Gi"}, "not a quantity", "such as 8Gi"),
        ({MEMORY: "96Ti"}, "more memory than any device has", "such as 8Gi"),
        ({GPU: 100000}, "more than any node has", "the number of devices"),
        ({"terrazzo.io/gpu-mem": "8Gi"}, "does not exist", "write terrazzo.io/gpu-memory"),
        ({"terrazzo.io/gpus": 1}, "does not exist", "write terrazzo.io/gpu"),
        ({"terrazzo.io/whatever": 1}, "does not exist", "terrazzo.io/gpu-cores"),
    ],
)
def test_what_can_never_be_valid_is_refused_with_what_to_write(limits: dict[str, Any], says: str, remedy: str) -> None:
    sentence = refused(limits)
    assert says in sentence
    assert remedy in sentence
    assert sentence.startswith("pod default/train: spec.containers[0].resources.limits[terrazzo.io/")
    assert "\n" not in sentence


@pytest.mark.parametrize(
    ("value", "remedy"), [(8, "write 8Gi"), ("16", "write 16Gi"), (8192, "write 8192Mi"), ("8m", "such as 8Gi")]
)
def test_memory_below_a_mebibyte_is_a_slip(value: str | int, remedy: str) -> None:
    result = read({MEMORY: value})
    assert result.request.containers[0].asks[0].memory_mib == 1
    assert remedy in result.warnings[0]


def test_where_it_was_read_precedes_the_object() -> None:
    with pytest.raises(RequestError, match=r"^pods\.yaml:12: pod default/train: spec\.containers\[0\]"):
        normalise(pod({CORES: 120}), where="pods.yaml:12")


def test_limits_rule_and_requests_that_agree_say_nothing_new() -> None:
    manifest = pod({GPU: 1, MEMORY: "8Gi"})
    assert manifest.spec.containers is not None
    assert manifest.spec.containers[0].resources is not None
    manifest.spec.containers[0].resources.requests = {GPU: "1", MEMORY: "8192Mi"}
    result = normalise(manifest)
    assert amounts(result.request.containers[0].asks[0]) == (1, 8192, 0, 0, False)
    assert result.warnings == ()


def test_requests_that_differ_from_limits_are_refused_as_kubernetes_does() -> None:
    manifest = pod({GPU: 2})
    assert manifest.spec.containers is not None
    assert manifest.spec.containers[0].resources is not None
    manifest.spec.containers[0].resources.requests = {GPU: 1}
    with pytest.raises(RequestError, match="the limit 2 and the request 1 differ"):
        normalise(manifest)


def test_requests_alone_are_read_with_a_warning() -> None:
    manifest = pod({})
    assert manifest.spec.containers is not None
    assert manifest.spec.containers[0].resources is not None
    manifest.spec.containers[0].resources.requests = {GPU: 1}
    result = normalise(manifest)
    assert result.request.containers[0].asks[0].whole
    assert "write it under limits" in result.warnings[0]


def test_two_dialects_in_one_container_are_refused() -> None:
    assert "two dialects in one container" in refused({GPU: 1, "nvidia.com/gpu": 1})
    assert "two dialects in one container" in refused({MEMORY: "8Gi", "nvidia.com/gpumem": 1})
    assert "two dialects in one container" in refused({"nvidia.com/gpu": 1, "volcano.sh/vgpu-memory": 1000})


def test_two_dialects_in_two_containers_are_each_their_own() -> None:
    request = normalise(pod({GPU: 1, MEMORY: "8Gi"}, {"nvidia.com/gpumem": 4000})).request
    assert [c.asks[0].vendors for c in request.containers] == [(), ("nvidia",)]


def test_a_zero_of_another_dialect_does_not_clash() -> None:
    assert one({GPU: 1, "nvidia.com/gpu": 0}).words == (GPU,)


def test_two_vendors_in_one_container_may_only_be_whole() -> None:
    request = read({"nvidia.com/gpu": 1, "cambricon.com/mlu": 2}).request
    assert [(a.vendors, a.count, a.whole) for a in request.containers[0].asks] == [
        (("nvidia",), 1, True),
        (("cambricon",), 2, True),
    ]
    assert "two vendors' devices" in refused({"nvidia.com/gpu": 1, "cambricon.com/mlu.smlu.vmemory": 4})


def test_containers_come_init_first_and_a_restarting_init_is_a_sidecar() -> None:
    manifest = pod({GPU: 1})
    manifest = msgspec.convert(
        {
            "metadata": {"name": "x"},
            "spec": {
                "initContainers": [
                    {"name": "side", "restartPolicy": "Always", "resources": {"limits": {MEMORY: "2Gi"}}},
                    {"name": "prepare", "image": "tools:1"},
                ],
                "containers": [{"name": "app", "resources": {"limits": {GPU: 1}}}],
            },
        },
        Pod,
    )
    request = normalise(manifest).request
    assert [(c.name, c.kind, bool(c.asks)) for c in request.containers] == [
        ("side", ContainerKind.SIDECAR, True),
        ("prepare", ContainerKind.INIT, False),
        ("app", ContainerKind.APP, True),
    ]
    assert request.containers[1].image == "tools:1"


def test_the_path_of_an_init_container_is_named() -> None:
    manifest = msgspec.convert(
        {"metadata": {"name": "x"}, "spec": {"initContainers": [{"resources": {"limits": {CORES: 101}}}]}}, Pod
    )
    with pytest.raises(RequestError, match=r"spec\.initContainers\[0\]"):
        normalise(manifest)


def test_a_pod_that_asks_for_nothing_of_ours_is_left_alone() -> None:
    result = normalise(pod({"cpu": "1", "rdma/hca": 1}, {}, annotations={"terrazzo.io/strategy": "nonsense"}))
    assert not result.request.asks_devices
    assert result.warnings == ()
    assert result.request.other == {"rdma/hca": 1}
    assert not normalise(Pod()).request.asks_devices


def test_a_name_near_a_vendors_is_left_to_kubernetes_with_a_word() -> None:
    result = read({"nvidia.com/gpumemory": 4000, GPU: 1})
    assert "write nvidia.com/gpumem if you meant that" in result.warnings[0]
    assert result.request.other == {"nvidia.com/gpumemory": 4000}


def test_a_misspelt_domain_is_found_too() -> None:
    assert "terrazzo.io/gpu-memory" in read({"terazzo.io/gpu-memory": 4000}).warnings[0]


def test_a_known_name_that_cannot_be_translated_says_so() -> None:
    result = read({"enflame.com/drs-gcu": 1})
    assert not result.request.asks_devices
    assert "slices whose size it does not say" in result.warnings[0]
