"""The webhooks as functions: every vendor, every refusal, what is patched once and never twice, what cannot be read."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from terrazzo.admission import summarise
from terrazzo.control.webhook import WARNING_BYTES, WARNINGS_BYTES, Reviewed, Webhook
from terrazzo.dialects import names
from terrazzo.model.policy import Policy
from terrazzo.model.request import PodRequest
from terrazzo.testing.builders import SHARED, Kind, make_node

FIVE = summarise([make_node(f"node-{i}", kind) for i, kind in enumerate(SHARED)])
POLICY = Policy(scheduler="terrazzo", vendors=("nvidia",))
FRACTION: dict[str, Any] = {"terrazzo.io/gpu-memory": "8Gi", "terrazzo.io/gpu-cores": 30}
OWN_WORDS: dict[str, dict[str, Any]] = {
    "nvidia": {"nvidia.com/gpumem": 8000, "nvidia.com/gpucores": 25},
    "ascend": {"huawei.com/Ascend910B3-memory": 8000},
    "cambricon": {"cambricon.com/mlu.smlu.vmemory": 30, "cambricon.com/mlu.smlu.vcore": 25},
    "hygon": {"hygon.com/dcumem": 8000, "hygon.com/dcucores": 25},
    "mthreads": {"mthreads.com/sgpu-memory": 16, "mthreads.com/sgpu-core": 4},
}
COUNTS = {
    "nvidia": "nvidia.com/gpu", "ascend": "huawei.com/Ascend910B3", "cambricon": "cambricon.com/vmlu",
    "hygon": "hygon.com/dcunum", "mthreads": "mthreads.com/vgpu",
}  # fmt: skip


def webhook(crowded: Callable[[PodRequest], bool] | None = None, policy: Policy = POLICY) -> Webhook:
    return Webhook(lambda: policy, lambda: FIVE, crowded, frozenset({"terrazzo-controller"}))


def pod(limits: dict[str, Any], *, meta: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "app", "resources": {"limits": limits, "requests": dict(limits)}}
    defaults = {"schedulerName": "default-scheduler", "containers": [container]}
    return {"kind": "Pod", "metadata": meta or {"name": "train"}, "spec": {**defaults, **spec}}


def review(thing: Any, *, kind: str = "Pod", user: str = "ann", **more: Any) -> bytes:
    group = {"Pod": "", "Job": "batch", "CronJob": "batch"}.get(kind, "apps")
    request = {
        "uid": "u-1", "kind": {"group": group, "version": "v1", "kind": kind}, "namespace": "team",
        "operation": "CREATE", "userInfo": {"username": user}, "object": thing, **more,
    }  # fmt: skip
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return msgspec.json.encode(body)


def response(answer: Reviewed) -> Any:
    assert answer.status == 200
    body = msgspec.json.decode(answer.body)
    assert (body["apiVersion"], body["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert body["response"]["uid"] == "u-1" == answer.decision.uid
    assert body["response"]["allowed"] == answer.decision.allowed
    return body["response"]


def operations(answer: Reviewed) -> list[dict[str, Any]]:
    said = response(answer)
    assert said["allowed"], said
    if "patch" not in said:
        return []
    assert said["patchType"] == "JSONPatch"
    found: list[dict[str, Any]] = msgspec.json.decode(base64.b64decode(said["patch"]))
    assert len(found) == answer.decision.operations
    return found


def patched(thing: Any, found: list[dict[str, Any]]) -> Any:
    thing = msgspec.json.decode(msgspec.json.encode(thing))
    for operation in found:
        *path, last = [word.replace("~1", "/").replace("~0", "~") for word in operation["path"].split("/")[1:]]
        place = thing
        for word in path:
            place = place[int(word)] if isinstance(place, list) else place[word]
        if last == "-":
            place.append(operation["value"])
        else:
            place[last] = operation["value"]
    return thing


def refusal(answer: Reviewed, code: int = 403) -> str:
    said = response(answer)
    assert not said["allowed"]
    assert said["status"]["code"] == code
    assert said["status"]["message"] == answer.decision.sentence
    return str(said["status"]["message"])


@pytest.mark.parametrize("kind", SHARED, ids=str)
def test_a_part_of_a_device_in_every_vendors_words_is_patched_once(kind: Kind) -> None:
    thing = pod(OWN_WORDS[kind.vendor])
    after = patched(thing, operations(webhook().admit(review(thing))))
    assert after["spec"]["schedulerName"] == "terrazzo"
    for section in ("limits", "requests"):
        assert after["spec"]["containers"][0]["resources"][section][COUNTS[kind.vendor]] == "1"
    assert operations(webhook().admit(review(after))) == []


def test_our_own_words_are_patched_once() -> None:
    thing = pod(FRACTION)
    after = patched(thing, operations(webhook().admit(review(thing))))
    assert after["spec"]["containers"][0]["resources"]["limits"]["terrazzo.io/gpu"] == "1"
    assert operations(webhook().admit(review(after))) == []


@pytest.mark.parametrize("vendor", names.vendors())
def test_whole_devices_of_every_vendor_get_our_scheduler_unless_they_chose_one(vendor: str) -> None:
    names_of = [name for name in names.all_names() if _is_count_of(name, vendor)]
    assert names_of
    for name in names_of:
        thing = pod({name: 2})
        (operation, *more) = operations(webhook().admit_whole(review(thing)))
        assert operation == {"op": "add", "path": "/spec/schedulerName", "value": "terrazzo"}
        assert not more
        chosen = pod({name: 2}, schedulerName="volcano")
        assert operations(webhook().admit_whole(review(chosen))) == []


def _is_count_of(name: str, vendor: str) -> bool:
    word = names.lookup(name)
    assert word is not None
    return word.phrase.vendor == vendor and word.role in (names.Role.COUNT, names.Role.PROFILE)


@pytest.mark.parametrize(
    "limits", [FRACTION, {"terrazzo.io/gpu": 1}, *OWN_WORDS.values()], ids=lambda it: next(iter(it))
)
def test_another_scheduler_is_refused_for_what_only_we_place(limits: dict[str, Any]) -> None:
    said = refusal(webhook().admit(review(pod(limits, schedulerName="volcano"))))
    assert "schedulerName volcano does not place" in said
    assert "write terrazzo" in said
    elsewhere = Policy(vendors=("nvidia",))
    left_alone = webhook(policy=elsewhere).admit(review(pod(limits, schedulerName="volcano")))
    assert all(operation["path"] != "/spec/schedulerName" for operation in operations(left_alone))


@pytest.mark.parametrize(
    ("thing", "words"),
    [
        (pod(FRACTION, nodeName="node-0"), "nodeName is preset to node-0"),
        (pod({"nvidia.com/gpu": 1}, nodeName="node-0"), "nodeName is preset to node-0"),
        (pod(FRACTION, os={"name": "windows"}), "asks for devices on Windows"),
        (pod(FRACTION, meta={"annotations": {"terrazzo.io/allocation": "{}"}}), "is written by the scheduler alone"),
        (pod({}, meta={"annotations": {"hami.io/vgpu-devices-allocated": "x"}}), "is written by the scheduler alone"),
        (pod({"terrazzo.io/gpu-cores": 120}), "120"),
        (pod({"terrazzo.io/gpu-mem": 1}), "terrazzo.io/gpu-mem does not exist"),
    ],
)  # fmt: skip
def test_refused_in_one_sentence(thing: dict[str, Any], words: str) -> None:
    said = refusal(webhook().admit(review(thing)))
    assert words in said
    assert "\n" not in said
    refusal(webhook().admit_whole(review(thing)))


def test_the_pod_is_named_by_the_namespace_of_the_request_and_by_its_prefix() -> None:
    thing = pod({"terrazzo.io/gpu-cores": 120}, meta={"generateName": "web-7f9-"})
    answer = webhook().admit(review(thing))
    assert refusal(answer).startswith("pod team/web-7f9-: ")
    assert answer.decision.object == "Pod team/web-7f9-"
    assert answer.decision.user == "ann"


def test_the_namespace_of_the_request_decides_the_policy() -> None:
    policy = msgspec.convert({"namespaces": {"team": {"vendors": ["cambricon"]}}}, Policy)
    answer = webhook(policy=policy).admit(review(pod({"terrazzo.io/gpu-memory": "200Gi"})))
    assert any("the largest has" in warning for warning in response(answer)["warnings"])


def test_our_services_may_write_what_is_ours() -> None:
    thing = pod(FRACTION, meta={"name": "p", "annotations": {"terrazzo.io/allocation": "{}"}})
    assert operations(webhook().admit(review(thing, user="terrazzo-controller")))


def test_host_network_daemon_sets_and_pods_that_ask_for_nothing_pass() -> None:
    owner = [{"kind": "DaemonSet", "name": "d", "uid": "1", "controller": True}]
    owned = pod({"nvidia.com/gpu": 1}, meta={"generateName": "d-", "ownerReferences": owner}, hostNetwork=True)
    assert len(operations(webhook().admit_whole(review(owned)))) == 1
    assert operations(webhook(lambda _: True).admit(review(pod({"cpu": 1})))) == []
    windows = pod({"cpu": 1}, os={"name": "windows"})
    assert operations(webhook().admit(review(windows))) == []


def test_a_mirror_of_a_static_pod_is_left_as_it_is_and_said_to_have_no_device() -> None:
    meta = {"name": "p-node-0", "annotations": {"kubernetes.io/config.mirror": "h"}}
    answer = webhook(lambda _: True).admit(review(pod(FRACTION, meta=meta, nodeName="node-0")))
    assert operations(answer) == []
    assert "a static pod gets no device" in answer.decision.warnings[0]


@pytest.mark.parametrize(("operation", "sub"), [("UPDATE", ""), ("DELETE", ""), ("CONNECT", ""), ("CREATE", "binding")])
def test_only_the_creation_of_a_pod_is_decided(operation: str, sub: str) -> None:
    body = review(pod({"terrazzo.io/gpu-cores": 120}), operation=operation, subResource=sub)
    assert operations(webhook(lambda _: True).admit(body)) == []


# -- the gate --------------------------------------------------------------------------------------------------------


def test_a_pod_that_joins_a_crowd_waits_behind_a_gate() -> None:
    hook = webhook(lambda _: True)
    answer = hook.admit(review(pod(FRACTION)))
    after = patched(pod(FRACTION), operations(answer))
    assert answer.decision.gated
    assert after["spec"]["schedulingGates"] == [{"name": "terrazzo.io/devices"}]
    assert operations(hook.admit(review(after))) == []


def test_the_gate_stands_beside_those_of_others() -> None:
    thing = pod(FRACTION, schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])
    after = patched(thing, operations(webhook(lambda _: True).admit(review(thing))))
    assert [gate["name"] for gate in after["spec"]["schedulingGates"]] == [
        "kueue.x-k8s.io/admission",
        "terrazzo.io/devices",
    ]


def test_no_gate_where_it_fits_or_where_another_scheduler_decides() -> None:
    assert not webhook(lambda _: False).admit(review(pod(FRACTION))).decision.gated
    assert not webhook(lambda _: True).admit_whole(review(pod({"nvidia.com/gpu": 1}, schedulerName="x"))).decision.gated


# -- warnings --------------------------------------------------------------------------------------------------------


def workload(kind: str, template: dict[str, Any], replicas: int = 3) -> dict[str, Any]:
    spec: dict[str, Any] = {"replicas": replicas, "template": {"spec": template["spec"]}}
    if kind == "CronJob":
        spec = {"jobTemplate": {"spec": spec}}
    return {"kind": kind, "metadata": {"name": "web"}, "spec": spec}


KINDS = ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("replicas", [0, 3, 100_000_000])
def test_workloads_are_warned_about_once_whatever_their_number(kind: str, replicas: int) -> None:
    thing = workload(kind, pod({"terrazzo.io/gpu-memory": "900Gi"}), replicas)
    answer = webhook().warn(review(thing, kind=kind))
    (warning,) = response(answer)["warnings"]
    assert warning == "no device in this cluster has 900Gi, the largest has 79.3Gi."
    assert len(warning) <= 120


@pytest.mark.parametrize("kind", KINDS)
def test_workloads_whose_pods_will_be_refused_are_told_and_let_pass(kind: str) -> None:
    answer = webhook().warn(review(workload(kind, pod({"terrazzo.io/gpu-cores": 120})), kind=kind))
    (warning,) = response(answer)["warnings"]
    assert warning.startswith("its pods will be refused: spec.containers[0].resources.limits[terrazzo.io/gpu-cores]")
    assert response(answer)["allowed"]


def test_a_workload_without_a_template_passes_with_a_word() -> None:
    answer = webhook().warn(review({"kind": "Deployment", "spec": {}}, kind="Deployment"))
    (warning,) = response(answer)["warnings"]
    assert warning.startswith("not checked: Deployment team/")
    assert warning.endswith("has no pod template; write spec.template.")


def test_warnings_have_the_length_that_an_api_server_passes_on() -> None:
    thing = pod({})
    thing["spec"]["containers"] = [
        {"name": f"c{i}-{'é' * 300}", "resources": {"limits": {f"nvidia.com/gpumen{i}{'x' * i}": 1}}} for i in range(99)
    ] + [{"name": f"d{i}", "resources": {"requests": {"nvidia.com/gpu": 1}}} for i in range(30)]
    said = response(webhook().admit(review(thing)))["warnings"]
    assert said[-1].startswith("… and ")
    assert all(len(each.encode()) <= WARNING_BYTES for each in said)
    assert sum(len(each.encode()) for each in said) <= WARNINGS_BYTES + 40


# -- what cannot be read ---------------------------------------------------------------------------------------------

BROKEN = {
    "not JSON": (b"<html>", "cannot be read"),
    "nothing": (b"", "cannot be read"),
    "invalid UTF-8": (b'{"kind":"\xff"}', "cannot be read"),
    "deep": (b"[" * 100_000, "cannot be read"),
    "no request": (b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}', "has no request.uid"),
    "no uid": (b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{}}', "has no request.uid"),
    "another kind": (b'{"apiVersion":"v1","kind":"Pod"}', "is Pod of v1, not AdmissionReview"),
}


@pytest.mark.parametrize(("body", "words"), BROKEN.values(), ids=BROKEN)
def test_what_is_no_review_is_an_http_error_with_a_sentence(body: bytes, words: str) -> None:
    for path in ("admit", "admit_whole", "warn"):
        answer = getattr(webhook(), path)(body)
        assert answer.status == 400
        assert words in msgspec.json.decode(answer.body)["error"]
        assert answer.decision.sentence


def test_another_version_is_answered_by_its_uid() -> None:
    body = review(pod(FRACTION)).replace(b"admission.k8s.io/v1", b"admission.k8s.io/v1beta1")
    assert "v1beta1, not AdmissionReview of admission.k8s.io/v1" in refusal(webhook().admit(body), 400)
    assert response(webhook().admit_whole(body))["allowed"]


@pytest.mark.parametrize("thing", [None, 3, [], {"spec": {"containers": 3}}, {"metadata": {"labels": {"a": 1}}}])
def test_an_object_that_is_no_pod_is_refused_only_where_we_are_needed(thing: Any) -> None:
    assert "cannot be read" in refusal(webhook().admit(review(thing)), 400)
    assert response(webhook().admit_whole(review(thing)))["allowed"]
    assert webhook().admit_whole(review(thing)).decision.sentence


def test_a_path_asked_about_something_else_says_so() -> None:
    assert "answers about pods" in refusal(webhook().admit(review({}, kind="Deployment")), 400)


def test_invalid_utf8_within_the_pod_is_found() -> None:
    body = review(pod(FRACTION, meta={"name": "QQ"})).replace(b"QQ", b"\xff\xfe")
    answer = webhook().admit(body)
    assert not answer.decision.allowed


def test_a_fault_of_ours_refuses_what_needs_us_and_nothing_else() -> None:
    def broken() -> Policy:
        raise ZeroDivisionError

    hook = Webhook(broken, lambda: FIVE)
    answer = hook.admit(review(pod(FRACTION)))
    assert "terrazzo failed" in refusal(answer, 500)
    assert answer.decision.fault
    assert response(hook.admit_whole(review(pod({"nvidia.com/gpu": 1}))))["allowed"]
    assert response(hook.warn(review(workload("Job", pod(FRACTION)), kind="Job")))["allowed"]


def test_pods_of_three_megabytes_are_decided() -> None:
    thing = pod(FRACTION)
    env = [{"name": f"V{i}", "value": "x" * 64} for i in range(32_000)]
    thing["spec"]["containers"][0]["env"] = env
    body = review(thing)
    assert len(body) > 2_900_000
    assert operations(webhook().admit(body))
    env.append({"name": "LD_PRELOAD", "value": "x"})
    assert "LD_PRELOAD takes the place" in refusal(webhook().admit(review(thing)))
