"""Annotations that narrow a pod: ours strictly, those of other planes by tables."""

from __future__ import annotations

import msgspec
import pytest

from terrazzo.dialects.normalise import Normalised, normalise
from terrazzo.model.errors import RequestError
from terrazzo.model.request import Pattern
from terrazzo.wire.kubernetes import Pod

DEVICES = {
    "nvidia": "nvidia.com/gpu",
    "cambricon": "cambricon.com/vmlu",
    "hygon": "hygon.com/dcunum",
    "ascend": "huawei.com/Ascend910B3",
    "mthreads": "mthreads.com/vgpu",
    "amd": "amd.com/gpu",
    "": "terrazzo.io/gpu",
}


def of(annotations: dict[str, str], vendor: str = "nvidia") -> Normalised:
    container = {"name": "c", "resources": {"limits": {DEVICES[vendor]: 1}}}
    return normalise(
        msgspec.convert(
            {"metadata": {"name": "p", "annotations": annotations}, "spec": {"containers": [container]}}, Pod
        )
    )


def ours(key: str, text: str) -> Normalised:
    return of({f"terrazzo.io/{key}": text})


def test_patterns_of_ours() -> None:
    request = of(
        {
            "terrazzo.io/vendor": "nvidia, !ascend",
            "terrazzo.io/model": "A100*,!A100-40",
            "terrazzo.io/device": "GPU-1,GPU-2",
        }
    ).request
    assert request.vendor == Pattern(("nvidia",), ("ascend",))
    assert request.model == Pattern(("A100*",), ("A100-40",))
    assert request.device == Pattern(("GPU-1", "GPU-2"))


def test_choices_of_ours() -> None:
    request = of(
        {
            "terrazzo.io/strategy": "Pack",
            "terrazzo.io/isolation": "mig",
            "terrazzo.io/compute": "hard",
            "terrazzo.io/exclusive": "true",
        }
    ).request
    assert (request.strategy, request.isolation, request.compute, request.exclusive) == ("pack", "mig", "hard", True)


def test_what_nobody_says_is_the_default() -> None:
    request = of({}).request
    assert (request.strategy, request.isolation, request.compute, request.exclusive) == ("", "", "burst", False)
    assert not ours("exclusive", "false").request.exclusive


@pytest.mark.parametrize(
    ("key", "text", "remedy"),
    [
        ("strategy", "packed", "fragmentation, pack, spread or topology"),
        ("isolation", "vm", "mig, mps, interposer, native or none"),
        ("compute", "soft", "burst or hard"),
        ("exclusive", "yes", "true or false"),
        ("vendor", "nvdia", "mthreads or nvidia"),
        ("vendor", "!", "a name behind the !"),
        ("model", "A100,!", "a name behind the !"),
    ],
)
def test_an_unknown_value_names_the_allowed_ones(key: str, text: str, remedy: str) -> None:
    with pytest.raises(RequestError) as caught:
        ours(key, text)
    assert remedy in str(caught.value)
    assert f"metadata.annotations[terrazzo.io/{key}]" in str(caught.value)


def test_a_vendor_may_be_a_glob() -> None:
    assert ours("vendor", "nv*").request.vendor.matches("nvidia")


def test_a_misspelt_annotation_is_told() -> None:
    assert "write terrazzo.io/strategy" in ours("stategy", "pack").warnings[0]
    assert ours("team", "vision").warnings == ()


@pytest.mark.parametrize(
    ("word", "name", "wanted"),
    [
        ("A100", "NVIDIA-A100-SXM4-80GB", True),
        ("a100", "A100-80", True),
        ("H20", "NVIDIA-H20", True),
        ("H20", "NVIDIA-H200", False),
        ("H20", "H200", False),
        ("4090", "NVIDIA-GeForce-RTX-4090", True),
        ("Tesla V100", "Tesla-V100-SXM2-32GB", True),
        ("Tesla V100", "NVIDIA-Tesla V100-SXM2-32GB", True),
        ("V100-SXM2", "Tesla-V100-SXM2-32GB", True),
        ("A10", "NVIDIA-A100-SXM4-80GB", False),
        ("A*", "NVIDIA-A100-SXM4-80GB", False),
        ("A[1]00", "A100", False),
    ],
)
def test_hami_types_match_whole_words_only(word: str, name: str, wanted: bool) -> None:
    assert of({"nvidia.com/use-gputype": word}).request.model.matches(name) is wanted
    assert of({"nvidia.com/nouse-gputype": word}).request.model.matches(name) is not wanted


@pytest.mark.parametrize(
    ("vendor", "use", "avoid"),
    [
        ("nvidia", "nvidia.com/use-gpuuuid", "nvidia.com/nouse-gpuuuid"),
        ("ascend", "hami.io/use-Ascend910B3-uuid", "hami.io/no-use-Ascend910B3-uuid"),
        ("mthreads", "mthreads.ai/use-gpuuuid", "mthreads.ai/nouse-gpuuuid"),
        ("amd", "amd.com/use-gpu-uuid", "amd.com/nouse-gpu-uuid"),
    ],
)
def test_hami_uuids_of_each_vendor(vendor: str, use: str, avoid: str) -> None:
    request = of({use: "D-1, D-2", avoid: "D-3"}, vendor).request
    assert request.device == Pattern(("D-1", "D-2"), ("D-3",))


@pytest.mark.parametrize(
    ("vendor", "use", "name"),
    [
        ("nvidia", "nvidia.com/use-gputype", "A100-80"),
        ("cambricon", "cambricon.com/use-mlutype", "MLU370-X8"),
        ("hygon", "hygon.com/use-dcutype", "Z100"),
        ("amd", "amd.com/use-gputype", "MI300X"),
    ],
)
def test_hami_types_of_each_vendor(vendor: str, use: str, name: str) -> None:
    assert of({use: name.partition("-")[0]}, vendor).request.model.matches(name)
    assert not of({use: "other"}, vendor).request.model.matches(name)


def test_a_selector_of_another_vendor_is_left_out_with_a_word() -> None:
    result = of({"cambricon.com/use-mlutype": "MLU370"}, "nvidia")
    assert result.request.model == Pattern()
    assert "asks for no device of cambricon" in result.warnings[0]


def test_a_neutral_pod_is_narrowed_by_a_vendors_selector() -> None:
    assert of({"nvidia.com/use-gputype": "A100"}, "").request.model.matches("A100-80")


def test_ours_beats_theirs() -> None:
    result = of({"terrazzo.io/model": "H100*", "nvidia.com/use-gputype": "A100", "terrazzo.io/strategy": "pack",
                 "hami.io/gpu-scheduler-policy": "spread"})  # fmt: skip
    assert result.request.model == Pattern(("H100*",))
    assert result.request.strategy == "pack"
    assert "terrazzo.io/model" in result.warnings[0]


@pytest.mark.parametrize(
    ("text", "strategy", "exclusive", "numa"),
    [
        ("binpack", "pack", False, False),
        ("spread", "spread", False, False),
        ("topology-aware", "topology", False, False),
        ("mutex", "", True, False),
        ("numa", "", False, True),
        ("binpack, numa,mutex", "pack", True, True),
        ("spread,binpack", "spread", False, False),
    ],
)
def test_hami_gpu_scheduler_policy(text: str, strategy: str, exclusive: bool, numa: bool) -> None:
    request = of({"hami.io/gpu-scheduler-policy": text}).request
    assert (request.strategy, request.exclusive, request.numa_bind) == (strategy, exclusive, numa)


def test_hami_policies_that_contradict_or_do_not_exist_are_told() -> None:
    assert "strategy is spread already" in of({"hami.io/gpu-scheduler-policy": "spread,binpack"}).warnings[0]
    assert "write binpack or spread" in of({"hami.io/node-scheduler-policy": "best"}).warnings[0]
    assert "is not used" in of({"hami.io/device-scoring-weights": "slot=1,core=1,memory=3"}).warnings[0]


def test_hami_node_policy_counts_where_the_device_policy_is_silent() -> None:
    assert of({"hami.io/node-scheduler-policy": "binpack"}).request.strategy == "pack"
    both = of({"hami.io/node-scheduler-policy": "binpack", "hami.io/gpu-scheduler-policy": "spread"}).request
    assert both.strategy == "spread"


@pytest.mark.parametrize(("mode", "isolation"), [("hami-core", "interposer"), ("mig", "mig"), ("mps", "mps")])
def test_hami_vgpu_mode_is_an_isolation(mode: str, isolation: str) -> None:
    assert of({"nvidia.com/vgpu-mode": mode}).request.isolation == isolation


def test_numa_bind_and_metax_qos() -> None:
    assert of({"nvidia.com/numa-bind": "true"}).request.numa_bind
    assert not of({"nvidia.com/numa-bind": "false"}).request.numa_bind
    assert of({"metax-tech.com/sgpu-qos-policy": "fixed-share"}).request.compute == "hard"
