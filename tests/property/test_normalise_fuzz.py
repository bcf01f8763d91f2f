"""Whatever stands in a pod, the normaliser answers with a request or with one sentence."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from terrazzo.dialects import names
from terrazzo.dialects.normalise import normalise
from terrazzo.model.errors import RequestError
from terrazzo.model.request import Ask
from terrazzo.wire.kubernetes import Pod

KNOWN = [*sorted(names._load().words), "nvidia.com/mig-1g.10gb", "cpu", "memory", "rdma/hca", "terrazzo.io/gpu-mem"]
OURS = ("vendor", "model", "device", "strategy", "isolation", "compute", "exclusive")
TABLES = [names.annotations_of(vendor) for vendor in names.vendors()]
KEYS = [
    *(row.key for row in names.pod_annotations()),
    *(f"terrazzo.io/{key}" for key in OURS),
    *(key for table in TABLES for field in msgspec.structs.astuple(table) for key in field),
]
quantities = st.one_of(
    st.integers(-5, 200),
    st.integers(),
    st.floats(),
    st.sampled_from(
        ["8Gi", "8GB", "1.5", "0", "100", "1e3", "1e999", "16Mi", "-1", "", "９", "1" * 5000, "3k", "0x10"]
    ),
    st.text(max_size=8),
)
amounts = st.dictionaries(st.one_of(st.sampled_from(KNOWN), st.text(max_size=12)), quantities, max_size=5)
texts = st.one_of(
    st.sampled_from(["true", "pack", "binpack,mutex", "A100,!H20", "!", "[", "*", "nvidia", "hami-core", ",,", " "]),
    st.text(max_size=12),
)
containers = st.lists(
    st.fixed_dictionaries(
        {"name": st.text(max_size=4), "resources": st.fixed_dictionaries({"limits": amounts, "requests": amounts})},
        optional={"restartPolicy": st.sampled_from(["Always", "Never"])},
    ),
    max_size=3,
)
pods = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {
                "annotations": st.dictionaries(
                    st.one_of(st.sampled_from(KEYS), st.text(max_size=8)), texts, max_size=4
                ),
                "creationTimestamp": st.one_of(st.none(), st.text(max_size=25)),
            }
        ),
        "spec": st.fixed_dictionaries(
            {"containers": containers, "initContainers": containers, "overhead": st.one_of(st.none(), amounts)}
        ),
    }
)


def well_formed(ask: Ask) -> bool:
    """Exactly one of three forms, with amounts that a device may have."""
    forms = [ask.whole, bool(ask.profile), bool(ask.memory_mib or ask.memory_percent)]
    return (
        forms.count(True) == 1
        and ask.count >= 1
        and not (ask.memory_mib and ask.memory_percent)
        and 0 <= ask.memory_percent <= 100
        and 0 <= ask.cores_percent <= 100
        and 0 <= ask.memory_mib < 1 << 24
        and bool(ask.words)
    )


@settings(max_examples=300, deadline=None)
@given(pods)
def test_any_pod_becomes_a_request_or_a_sentence(manifest: dict[str, Any]) -> None:
    try:
        result = normalise(msgspec.convert(manifest, Pod), where="fuzz.yaml:1")
    except RequestError as error:
        sentence = str(error)
        assert sentence.startswith("fuzz.yaml:1: pod default/unnamed")
        assert "\n" not in sentence
        return
    for container in result.request.containers:
        assert all(well_formed(ask) for ask in container.asks)
    for model in (result.request.model, result.request.vendor, result.request.device):
        model.matches("A100-80")


@settings(max_examples=200, deadline=None)
@given(st.text("H20123 -_", min_size=1, max_size=6), st.sampled_from(["NVIDIA-H200", "H20", "NVIDIA H200 141GB"]))
def test_a_type_never_matches_inside_a_word(word: str, name: str) -> None:
    pod = msgspec.convert(
        {
            "metadata": {"name": "p", "annotations": {"nvidia.com/use-gputype": word}},
            "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 1}}}]},
        },
        Pod,
    )
    pattern = normalise(pod).request.model
    wanted, have = pieces(word), pieces(name)
    runs = [have[i : i + len(wanted)] for i in range(len(have))]
    assert (bool(pattern.include) and pattern.matches(name)) is (bool(wanted) and wanted in runs)


def pieces(text: str) -> list[str]:
    """The pieces of a name between separators."""
    return [piece for piece in text.replace(" ", "-").replace("_", "-").split("-") if piece]
