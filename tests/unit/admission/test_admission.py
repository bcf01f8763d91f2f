"""What admission decides: vendors, patch, warnings, refusals; twice is once."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from terrazzo.admission import Admitted, Refused, decide, summarise
from terrazzo.admission.vendors import resolve, undecided
from terrazzo.dialects.normalise import normalise
from terrazzo.model.errors import RequestError
from terrazzo.model.policy import ImageRule, NamespacePolicy, Policy
from terrazzo.testing.builders import CUT, SHARED, make_node, make_pod
from terrazzo.wire import kubernetes as k8s

ONE = summarise([make_node()])
FIVE = summarise([make_node(f"node-{i}", kind) for i, kind in enumerate(SHARED)])
FRACTION: dict[str, k8s.Quantity] = {"terrazzo.io/gpu-memory": "8Gi", "terrazzo.io/gpu-cores": 30}


def patched(pod: k8s.Pod, admitted: Admitted) -> k8s.Pod:
    """Apply a patch of add operations."""
    body: Any = msgspec.to_builtins(pod)
    for operation in admitted.patch:
        assert operation["op"] == "add"
        *path, last = [word.replace("~1", "/").replace("~0", "~") for word in operation["path"].split("/")[1:]]
        place = body
        for word in path:
            place = place[int(word)] if isinstance(place, list) else place[word]
        place[last] = operation["value"]
    return msgspec.convert(body, k8s.Pod)


def asked(admitted: Admitted) -> list[object]:
    """What containers ask for; the words that say it may have grown by the count."""
    asks = [ask for container in admitted.request.containers for ask in container.asks]
    return [msgspec.structs.replace(ask, words=()) for ask in asks]


def admit(pod: k8s.Pod, policy: Policy | None = None, fleet: Any = ONE) -> Admitted:
    found = decide(pod, policy or Policy(), fleet)
    assert isinstance(found, Admitted), found
    return found


@given(
    st.dictionaries(
        st.sampled_from(
            ["terrazzo.io/gpu", "terrazzo.io/gpu-memory", "terrazzo.io/gpu-cores", "nvidia.com/gpu",
             "nvidia.com/gpumem", "cambricon.com/vmlu", "huawei.com/Ascend910B3",
             "huawei.com/Ascend910B3-memory", "hygon.com/dcumem", "cpu"]
        ),
        st.sampled_from(["1", "2", "8Gi", "30", "0", 4096]),
    ),
    st.sampled_from(["", "terrazzo-scheduler"]),
)  # fmt: skip
def test_admitting_an_admitted_pod_changes_nothing(limits: dict[str, k8s.Quantity], scheduler: str) -> None:
    policy = Policy(scheduler=scheduler)
    pod = make_pod(limits=limits)
    first = decide(pod, policy, FIVE)
    if isinstance(first, Refused):
        assert str(first.sentence).endswith(".")
        return
    again = admit(patched(pod, first), policy, FIVE)
    assert again.patch == ()
    assert asked(again) == asked(first)


def test_a_count_left_out_is_written_and_a_scheduler_given() -> None:
    admitted = admit(make_pod(limits=FRACTION), Policy(scheduler="terrazzo-scheduler"))
    pod = patched(make_pod(limits=FRACTION), admitted)
    assert pod.spec.scheduler_name == "terrazzo-scheduler"
    resources = (pod.spec.containers or [])[0].resources
    assert resources is not None
    assert (resources.limits or {})["terrazzo.io/gpu"] == "1"


def test_pods_that_ask_for_nothing_are_left_alone() -> None:
    admitted = admit(make_pod(limits={"cpu": "1"}), Policy(scheduler="terrazzo-scheduler"))
    assert (admitted.patch, admitted.warnings) == ((), ())
    assert not admitted.request.asks_devices


class TestVendors:
    def vendors(self, policy: Policy, annotations: dict[str, str] | None = None, fleet: Any = FIVE) -> tuple[str, ...]:
        pod = make_pod(limits=FRACTION, annotations=annotations)
        request = resolve(normalise(pod).request, policy, fleet.vendors)
        return request.containers[0].asks[0].vendors

    def test_the_only_one_there_is(self) -> None:
        assert self.vendors(Policy(), fleet=ONE) == ("nvidia",)

    def test_nobody_says(self) -> None:
        assert self.vendors(Policy()) == ()
        admitted = admit(make_pod(limits=FRACTION), fleet=FIVE)
        assert undecided(admitted.request, FIVE.vendors)
        assert "terrazzo.io/vendor" in " ".join(admitted.warnings)

    def test_image_rule_before_annotation_before_namespace_before_cluster(self) -> None:
        cluster = Policy(vendors=("hygon",))
        space = Policy(vendors=("hygon",), namespaces={"default": NamespacePolicy(vendors=("ascend",))})
        image = msgspec.structs.replace(space, images=(ImageRule("app:*", ("cambricon", "nvidia")),))
        assert self.vendors(cluster) == ("hygon",)
        assert self.vendors(space) == ("ascend",)
        assert self.vendors(space, {"terrazzo.io/vendor": "mthreads"}) == ("mthreads",)
        assert self.vendors(image) == ("cambricon", "nvidia")
        assert self.vendors(image, {"terrazzo.io/vendor": "!nvidia"}) == ("cambricon",)
        with pytest.raises(RequestError, match="leaves none of them"):
            self.vendors(image, {"terrazzo.io/vendor": "hygon"})

    @pytest.mark.parametrize("kind", SHARED, ids=str)
    def test_words_of_a_vendor_decide_by_themselves(self, kind: Any) -> None:
        names = {"nvidia": "nvidia.com/gpu", "ascend": "huawei.com/Ascend910", "cambricon": "cambricon.com/mlu",
                 "hygon": "hygon.com/dcu", "mthreads": "mthreads.com/gpu"}  # fmt: skip
        admitted = admit(make_pod(limits={names[kind.vendor]: "1"}), fleet=FIVE)
        assert admitted.request.containers[0].asks[0].vendors == (kind.vendor,)
        assert not undecided(admitted.request, FIVE.vendors)


class TestWarnings:
    def test_memory_that_no_device_has(self) -> None:
        admitted = admit(make_pod(limits={"terrazzo.io/gpu-memory": "96Gi"}))
        assert any("96Gi" in warning for warning in admitted.warnings)

    def test_a_slice_that_exists_nowhere(self) -> None:
        fleet = summarise([make_node(kind=CUT[0])])
        admitted = admit(make_pod(limits={"nvidia.com/mig-9g.99gb": "1"}), fleet=fleet)
        assert any("9g.99gb" in warning for warning in admitted.warnings)
        assert not admit(make_pod(limits={"nvidia.com/mig-1g.10gb": "1"}), fleet=fleet).warnings


class TestRefusals:
    def refused(self, pod: k8s.Pod, policy: Policy | None = None) -> str:
        found = decide(pod, policy or Policy(), ONE)
        assert isinstance(found, Refused), found
        return found.sentence

    @pytest.mark.parametrize("key", ["terrazzo.io/allocation", "terrazzo.io/inventory", "hami.io/bind-phase"])
    def test_forged_annotations(self, key: str) -> None:
        pod = make_pod(limits=FRACTION, annotations={key: "{}"})
        assert key in self.refused(pod)
        assert isinstance(decide(pod, Policy(), ONE, user_is_system=True), Admitted)

    @pytest.mark.parametrize(("name", "value"), [("CUDA_DISABLE_CONTROL", "true"), ("LD_PRELOAD", "/opt/x.so")])
    def test_variables_that_switch_enforcement_off(self, name: str, value: str) -> None:
        pod = make_pod(limits=FRACTION)
        (pod.spec.containers or [])[0].env = [k8s.EnvVar(name, value)]
        assert name in self.refused(pod)
        allowed = Policy(namespaces={"default": NamespacePolicy(allow_device_env=True)})
        assert isinstance(decide(pod, allowed, ONE), Admitted)

    def test_a_preset_node(self) -> None:
        assert "nodeName" in self.refused(make_pod(limits=FRACTION, node="node-0"))

    def test_what_can_never_be_valid(self) -> None:
        assert "120" in self.refused(make_pod(limits={"terrazzo.io/gpu-cores": 120}))


@pytest.mark.parametrize("count", [32, 33])
def test_no_pod_asks_for_more_devices_than_a_claim_holds(count: int) -> None:
    pod = make_pod(limits={"terrazzo.io/gpu": count, "terrazzo.io/gpu-memory": "1Gi"})
    found = decide(pod, Policy(), summarise([]))
    said = found.sentence if isinstance(found, Refused) else ""
    assert ("33 devices" in said) is (count > 32)
