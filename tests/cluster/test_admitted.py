"""Admission on a real API server: who depends on the webhook, what it changes, refuses and warns of, and what guards
hold while it is down."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec
import pytest
import uvicorn
import yaml

from terrazzo.admission import FleetSummary
from terrazzo.admission.served import ours_alone, vendors_too
from terrazzo.control import certificates, serving
from terrazzo.control.certificates import AUTHORITY_LIFE, AUTHORITY_RENEW, OVERLAP
from terrazzo.control.keeping import Keeper, server_context
from terrazzo.control.observed import Figures
from terrazzo.control.reviews import Reviews
from terrazzo.control.settings import Address
from terrazzo.control.webhook import Webhook
from terrazzo.dialects import names
from terrazzo.kube.errors import ApiError
from terrazzo.kube.kinds import CLAIM, MUTATING, NAMESPACE, NODE, POD, SECRET, SLICE, Kind
from terrazzo.model.policy import Policy
from terrazzo.testing.builders import SHARED, make_node
from terrazzo.testing.cluster import VERSIONS, Admin, wait_until
from terrazzo.testing.cluster.stack import NAMESPACE_NAME, Stack, pod_object

GROUP = "admissionregistration.k8s.io"
POLICY_KIND = Kind(GROUP, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False)
ACCOUNT = Kind("", "v1", "serviceaccounts", "ServiceAccount")
ROLE_BINDING = Kind("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
TLS = "terrazzo-webhook-tls"
FRACTION = {"terrazzo.io/gpu-memory": "4Gi", "terrazzo.io/gpu-cores": 10}
OWN_WORDS: dict[str, dict[str, Any]] = {
    "nvidia": {"nvidia.com/gpumem": 8000, "nvidia.com/gpucores": 25},
    "ascend": {"huawei.com/Ascend910B3-memory": 8000},
    "cambricon": {"cambricon.com/mlu.smlu.vmemory": 30, "cambricon.com/mlu.smlu.vcore": 25},
    "hygon": {"hygon.com/dcumem": 8000, "hygon.com/dcucores": 25},
    "mthreads": {"mthreads.com/sgpu-memory": 16, "mthreads.com/sgpu-core": 4},
}
UNANSWERED = "failed calling webhook"


@pytest.fixture(scope="module", params=VERSIONS)
def stack(request: pytest.FixtureRequest) -> Iterator[Stack]:
    with Stack(request.param, webhook=True) as made:
        made.plane.add_nodes([make_node(f"{kind.vendor}-node", kind) for kind in SHARED])
        wait_until(lambda: told(made), "the API server is told whom to trust", deadline_s=30)
        yield made


@pytest.fixture
def namespace(stack: Stack, ann: Admin) -> str:
    name = stack.plane.new_namespace()
    bind(stack, "ann", "edit", name)
    wait_until(lambda: dry(ann, name, pod_object("p", {})), "ann may create pods")
    return name


def bind(stack: Stack, user: str, role: str, namespace: str) -> None:
    """Give a user a role in a namespace."""
    group = "rbac.authorization.k8s.io"
    body = {
        "metadata": {"name": user},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }
    stack.plane.admin.create(ROLE_BINDING, body, namespace)


@pytest.fixture(scope="module")
def ann(stack: Stack) -> Iterator[Admin]:
    """Give the API as somebody with role ``edit`` in the test's namespace."""
    with stack.plane.api_as(stack.plane.kubeconfig("ann")) as api:
        yield api


@contextmanager
def killed(stack: Stack) -> Iterator[None]:
    """Have the webhook's process killed meanwhile."""
    stack.controller.kill()
    try:
        yield
    finally:
        stack.start_service("controller")


def told(stack: Stack) -> bytes:
    hooks = stack.plane.admin.get(MUTATING, "terrazzo")["webhooks"]
    return base64.b64decode(hooks[0]["clientConfig"].get("caBundle", ""))


def dry(api: Admin, namespace: str, pod: dict[str, Any]) -> Any:
    """Return the pod as it would be created; tried once, because here a failure is an answer."""
    return msgspec.json.decode(
        api.run(api.client.call("POST", POD.path(namespace), query={"dryRun": "All"}, body=pod, once=True))
    )


def refusal(call: Callable[..., object], *arguments: Any, **more: Any) -> str:
    with pytest.raises(ApiError) as caught:
        call(*arguments, **more)
    return str(caught.value)


# -- who depends on whom -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vendor", OWN_WORDS)
def test_a_part_of_a_device_is_patched(ann: Admin, namespace: str, vendor: str) -> None:
    made = dry(ann, namespace, pod_object("p", OWN_WORDS[vendor], scheduler=""))
    assert made["spec"]["schedulerName"] == "terrazzo"
    resources = made["spec"]["containers"][0]["resources"]
    (count,) = set(resources["limits"]) - set(OWN_WORDS[vendor])
    assert resources["limits"] == resources["requests"]
    assert resources["limits"][count] == "1"


def test_our_own_words_are_patched_and_a_patched_pod_stays_as_it_is(ann: Admin, namespace: str) -> None:
    made = dry(ann, namespace, pod_object("p", FRACTION, scheduler=""))
    assert made["spec"]["containers"][0]["resources"]["requests"]["terrazzo.io/gpu"] == "1"
    again = dry(ann, namespace, {"metadata": {"name": "p"}, "spec": made["spec"]})
    assert again["spec"] == made["spec"]


def test_every_whole_device_of_every_vendor_gets_our_scheduler(ann: Admin, namespace: str) -> None:
    for name in (*vendors_too(), *(f"{prefix}x" for prefix in names.prefixes())):
        made = dry(ann, namespace, pod_object("p", {name: 2}, scheduler=""))
        assert made["spec"]["schedulerName"] == "terrazzo", name


def test_with_the_webhook_killed_only_pods_that_need_us_are_refused(stack: Stack, ann: Admin, namespace: str) -> None:
    with killed(stack):
        for name in (*vendors_too(), *(f"{prefix}x" for prefix in names.prefixes())):
            made = dry(ann, namespace, pod_object("p", {name: 2}, scheduler=""))
            assert made["spec"]["schedulerName"] == "default-scheduler", name
        for name in (*ours_alone(), *names.our_names(), "terrazzo.io/unheard-of"):
            pod = pod_object("p", {"cpu": 1, name: 2}, scheduler="")
            assert UNANSWERED in refusal(dry, ann, namespace, pod), name
        ordinary = pod_object("p", {"cpu": 1, "memory": "1Gi", "example.test/fpga": 1}, scheduler="")
        assert dry(ann, namespace, ordinary)["spec"]["schedulerName"] == "default-scheduler"
        bare = {"metadata": {"generateName": "p-"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        assert dry(ann, namespace, bare)["spec"]["schedulerName"] == "default-scheduler"


def test_init_containers_count_and_whole_devices_beside_parts_need_us(stack: Stack, ann: Admin, namespace: str) -> None:
    main = {"name": "c", "image": "i"}
    first = {"name": "f", "image": "i", "resources": {"limits": FRACTION}}
    beside = {"name": "b", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    with killed(stack):
        for spec in ({"containers": [main], "initContainers": [first]}, {"containers": [beside, first]}):
            pod = {"metadata": {"generateName": "p-"}, "spec": spec}
            assert UNANSWERED in refusal(dry, ann, namespace, pod)


def test_a_large_ordinary_pod_costs_the_conditions_little(stack: Stack, ann: Admin, namespace: str) -> None:
    amounts = {"cpu": "1m", "memory": "1Mi", "ephemeral-storage": "1Mi", "example.test/fpga": 1}
    containers = [
        {"name": f"c{i}", "image": "i", "resources": {"limits": amounts, "requests": amounts}} for i in range(500)
    ]
    with killed(stack):
        dry(ann, namespace, {"metadata": {"generateName": "p-"}, "spec": {"containers": containers}})


def test_a_namespace_can_be_taken_out_by_who_may_label_it(stack: Stack, ann: Admin) -> None:
    name = f"elsewhere-{stack.plane.version.replace('.', '-')}"
    label = {"terrazzo.io/admission": "ignore"}
    stack.plane.admin.create(NAMESPACE, {"metadata": {"name": name, "labels": label}})
    bind(stack, "ann", "edit", name)
    made = wait_until(lambda: dry(ann, name, pod_object("p", FRACTION, scheduler="")), "ann may create pods")
    assert made["spec"]["schedulerName"] == "default-scheduler"
    assert "cannot patch" in refusal(ann.patch, NAMESPACE, {"metadata": {"labels": label}}, name)


# -- refused -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        (pod_object("p", FRACTION, nodeName="nvidia-node"), "nodeName is preset to nvidia-node"),
        (pod_object("p", {"nvidia.com/gpu": 1}, nodeName="nvidia-node"), "nodeName is preset to nvidia-node"),
        (pod_object("p", FRACTION, scheduler="volcano"), "schedulerName volcano does not place"),
        (pod_object("p", FRACTION, os={"name": "windows"}), "asks for devices on Windows"),
        (pod_object("p", {"terrazzo.io/gpu-cores": 120}), "terrazzo.io/gpu-cores"),
        (pod_object("p", {"terrazzo.io/gpu-mem": 1}), "does not exist"),
    ],
    ids=["node", "whole-node", "scheduler", "windows", "cores", "unknown"],
)
def test_refused_in_a_sentence(ann: Admin, namespace: str, pod: dict[str, Any], words: str) -> None:
    said = refusal(dry, ann, namespace, pod)
    assert words in said
    assert 'admission webhook "admit' in said


def test_whole_devices_may_go_by_another_scheduler(ann: Admin, namespace: str) -> None:
    made = dry(ann, namespace, pod_object("p", {"nvidia.com/gpu": 1}, scheduler="volcano"))
    assert made["spec"]["schedulerName"] == "volcano"


def test_a_controller_tells_why_its_pods_are_refused(stack: Stack, namespace: str) -> None:
    text = stack.plane.apply([_deployment("stuck", {"terrazzo.io/gpu-cores": 120})], namespace=namespace)
    assert "deployment.apps/stuck created" in text
    wait_until(lambda: "gpu-cores" in stack.all_event_text(namespace), "an event says why")


# -- warned of ---------------------------------------------------------------------------------------------------------


def _deployment(name: str, limits: dict[str, Any]) -> dict[str, Any]:
    pod = pod_object(name, limits, scheduler="")
    template = {"metadata": {"labels": {"app": name}}, "spec": pod["spec"]}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def _jobs(name: str, limits: dict[str, Any]) -> list[dict[str, Any]]:
    template = pod_object(name, limits, scheduler="", restartPolicy="Never")
    job = {"suspend": True, "template": {"spec": template["spec"]}}
    cron = {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": job}}
    return [
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": job},
        {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name}, "spec": cron},
    ]


def test_workloads_are_warned_about_when_they_are_applied(stack: Stack, namespace: str) -> None:
    limits = {"nvidia.com/gpumem": 900 * 1024}
    user = stack.plane.kubeconfig("ann")
    for thing in (_deployment("large", limits), *_jobs("large", limits)):
        text = stack.plane.apply([thing], namespace=namespace, user=user)
        assert text.count("Warning:") == 1, text
        assert "no device in this cluster has 900Gi" in text
        assert "Warning:" not in stack.plane.apply([thing], namespace=namespace, user=user)
    for thing in (_deployment("plain", {"cpu": "1m"}), *_jobs("plain", {"cpu": "1m"})):
        assert "Warning" not in stack.plane.apply([thing], namespace=namespace, user=user)


def test_workloads_can_be_applied_without_us(stack: Stack, namespace: str) -> None:
    with killed(stack):
        assert "created" in stack.plane.apply([_deployment("d", FRACTION)], namespace=namespace)


def test_quotas_count_what_admission_writes(stack: Stack, ann: Admin, namespace: str) -> None:
    hard = {"requests.terrazzo.io/gpu": "2", "requests.nvidia.com/gpu": "1"}
    quota = Kind("", "v1", "resourcequotas", "ResourceQuota")
    stack.plane.admin.create(quota, {"metadata": {"name": "q"}, "spec": {"hard": hard}}, namespace)
    wait_until(lambda: stack.plane.admin.get(quota, "q", namespace).get("status", {}).get("used"), "it is counted")
    for name in ("a", "b"):
        ann.create(POD, pod_object(name, FRACTION), namespace)
    assert "exceeded quota: q, requested: requests.terrazzo.io/gpu=1" in refusal(
        ann.create, POD, pod_object("c", FRACTION), namespace
    )
    ann.create(POD, pod_object("d", {"nvidia.com/gpumem": 1000}), namespace)
    assert "requests.nvidia.com/gpu=1" in refusal(
        ann.create, POD, pod_object("e", {"nvidia.com/gpumem": 1000}), namespace
    )


def test_defaults_of_a_limit_range_are_admitted_like_what_is_written(stack: Stack, ann: Admin, namespace: str) -> None:
    default = {"terrazzo.io/gpu": "1", "terrazzo.io/gpu-memory": "2Gi"}
    limits = [{"type": "Container", "default": default, "defaultRequest": default}]
    body = {"metadata": {"name": "r"}, "spec": {"limits": limits}}
    stack.plane.admin.create(Kind("", "v1", "limitranges", "LimitRange"), body, namespace)
    defaulted = wait_until(partial(_defaulted, ann, namespace), "the API server knows the limits")
    assert defaulted == ("terrazzo", default)


def _defaulted(api: Admin, namespace: str) -> tuple[str, dict[str, str]] | None:
    spec = dry(api, namespace, pod_object("p", {}, scheduler=""))["spec"]
    limits = spec["containers"][0]["resources"].get("limits")
    return (spec["schedulerName"], limits) if limits else None


# -- guarded, with nobody of ours at work ------------------------------------------------------------------------------


@pytest.fixture
def unattended(stack: Stack) -> Iterator[None]:
    with killed(stack):
        yield


def test_policies_are_without_faults(stack: Stack) -> None:
    for policy in stack.plane.admin.list(POLICY_KIND):
        if policy["metadata"]["name"].startswith("terrazzo-"):
            seen = wait_until(partial(_checked, stack, policy["metadata"]["name"]), "its types are checked")
            assert seen == [()]


def _checked(stack: Stack, name: str) -> list[Any] | None:
    found = stack.plane.admin.get(POLICY_KIND, name).get("status", {})
    said = found.get("typeChecking", {}).get("expressionWarnings", ())
    return [said] if "observedGeneration" in found else None


@pytest.mark.usefixtures("unattended")
@pytest.mark.parametrize("key", ["terrazzo.io/allocation", "terrazzo.io/granted", "hami.io/vgpu-devices-allocated"])
def test_forged_annotations_are_refused(stack: Stack, ann: Admin, namespace: str, key: str) -> None:
    forged = pod_object("p", {}, annotations={key: "{}"})
    if key.startswith("terrazzo.io/"):
        assert "is written by the scheduler alone" in refusal(ann.create, POD, forged, namespace)
    ann.create(POD, pod_object("p", {}, annotations={"note": "mine"}), namespace)
    change = {"metadata": {"annotations": {key: "{}"}}}
    assert "alone" in refusal(ann.patch, POD, change, "p", namespace)
    ann.patch(POD, {"metadata": {"annotations": {"note": "changed"}, "labels": {"a": "b"}}}, "p", namespace)
    stack.plane.admin.patch(POD, change, "p", namespace)
    for value in ('{"v":1}', None):
        again = {"metadata": {"annotations": {key: value}}}
        assert "alone" in refusal(ann.patch, POD, again, "p", namespace)
    ann.patch(POD, {"metadata": {"annotations": {"note": None}}}, "p", namespace)
    ann.delete(POD, "p", namespace, grace_s=0)


@pytest.mark.usefixtures("unattended")
def test_a_status_or_a_binding_carries_no_forged_annotation(stack: Stack, namespace: str) -> None:
    bind(stack, "bob", "cluster-admin", namespace)
    with stack.plane.api_as(stack.plane.kubeconfig("bob")) as api:
        wait_until(lambda: api.create(POD, pod_object("p", {}), namespace), "bob may create pods")
        change = {"metadata": {"annotations": {"terrazzo.io/allocation": "{}"}}}
        assert "alone" in refusal(api.patch, POD, change, "p", namespace, subresource="status")
        binding = {
            "metadata": {"name": "p", **change["metadata"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "nvidia-node"},
        }
        path = POD.path(namespace, "p", "binding")
        assert "alone" in refusal(api.call, "POST", path, {"apiVersion": "v1", "kind": "Binding", **binding})
        api.patch(POD, {"status": {"message": "seen"}}, "p", namespace, subresource="status")


@pytest.mark.usefixtures("unattended")
def test_our_claims_can_be_changed_and_deleted_by_nobody_else(stack: Stack, ann: Admin, namespace: str) -> None:
    mine: dict[str, Any] = {"metadata": {"name": "mine"}, "spec": {"devices": {"requests": []}}}
    forged: dict[str, Any] = {
        "metadata": {"name": "x", "annotations": {"terrazzo.io/allocation": "{}"}},
        "spec": mine["spec"],
    }
    assert "is the receipt" in refusal(ann.create, CLAIM, forged, namespace)
    ann.create(CLAIM, mine, namespace)
    mark = {"metadata": {"annotations": forged["metadata"]["annotations"]}}
    assert "is the receipt" in refusal(ann.patch, CLAIM, mark, "mine", namespace)
    assert ann.delete(CLAIM, "mine", namespace)
    pod = ann.create(POD, pod_object("p", {}), namespace)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod["metadata"]["uid"], "controller": True}
    metadata = {**forged["metadata"], "ownerReferences": [owner]}
    stack.plane.admin.create(CLAIM, {**forged, "metadata": metadata}, namespace)
    assert "is the receipt" in refusal(ann.delete, CLAIM, "x", namespace)
    assert "is the receipt" in refusal(ann.call, "DELETE", CLAIM.path(namespace))
    for field in ("finalizers", "annotations", "ownerReferences"):
        change = {"metadata": {field: None}}
        assert "is the receipt" in refusal(ann.patch, CLAIM, change, "x", namespace)
    ann.delete(POD, "p", namespace, grace_s=0)
    wait_until(lambda: stack.plane.admin.find(CLAIM, "x", namespace) is None, "the claim goes with its pod")


@pytest.mark.usefixtures("unattended")
def test_an_inventory_is_written_by_the_nodes_own_agent(stack: Stack) -> None:
    forged = {"metadata": {"annotations": {"terrazzo.io/inventory": "{}"}}}
    kubelet = stack.plane.kubeconfig("system:node:nvidia-node", ["system:nodes"])
    with stack.plane.api_as(kubelet) as api:
        for subresource in ("", "status"):
            said = refusal(api.patch, NODE, forged, "nvidia-node", subresource=subresource)
            assert "is written by the agent of node nvidia-node alone" in said
        api.patch(NODE, {"metadata": {"annotations": {"note": "kubelet"}}}, "nvidia-node")


@pytest.mark.usefixtures("unattended")
def test_an_agent_speaks_of_the_node_that_its_token_is_bound_to(stack: Stack) -> None:
    admin, group = stack.plane.admin, "rbac.authorization.k8s.io"
    if admin.find(ACCOUNT, "terrazzo-agent", NAMESPACE_NAME) is None:
        admin.create(ACCOUNT, {"metadata": {"name": "terrazzo-agent"}}, NAMESPACE_NAME)
    rights = {
        "metadata": {"name": "agent-of-a-test"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "terrazzo-agent", "namespace": NAMESPACE_NAME}],
    }
    admin.create(Kind(group, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False), rights)
    node = admin.get(NODE, "nvidia-node")["metadata"]
    said = node["annotations"]["terrazzo.io/inventory"]
    bound = {"kind": "Node", "apiVersion": "v1", "name": node["name"], "uid": node["uid"]}
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"boundObjectRef": bound}}
    anywhere = stack.plane.account_kubeconfig("terrazzo-agent", NAMESPACE_NAME)
    body = yaml.safe_load(anywhere.read_text("utf-8"))
    token = admin.call("POST", ACCOUNT.path(NAMESPACE_NAME, "terrazzo-agent", "token"), asked)["status"]["token"]
    body["users"][0]["user"] = {"token": token}
    on_node = stack.plane.run.make("agent") / "kubeconfig.yaml"
    on_node.write_text(yaml.safe_dump(body), "utf-8")
    change = {"metadata": {"annotations": {"terrazzo.io/inventory": f"{said} "}}}
    with stack.plane.api_as(on_node) as agent:
        wait_until(lambda: agent.patch(NODE, change, "nvidia-node"), "the agent has its rights")
        assert "by the agent of node hygon-node alone" in refusal(agent.patch, NODE, change, "hygon-node")
        slice_of = partial(_slice, name="by-the-agent")
        agent.create(SLICE, slice_of("nvidia-node"))
        assert "are written by its agent alone" in refusal(agent.create, SLICE, slice_of("hygon-node"))
    with stack.plane.api_as(anywhere) as agent:
        gone = {"metadata": {"annotations": {"terrazzo.io/inventory": None}}}
        assert "by the agent of node nvidia-node alone" in refusal(agent.patch, NODE, gone, "nvidia-node")


def _slice(node: str, name: str, driver: str = "gpu.terrazzo.io") -> dict[str, Any]:
    pool = {"name": f"{node}-{name}", "generation": 1, "resourceSliceCount": 1}
    return {"metadata": {"name": name}, "spec": {"driver": driver, "nodeName": node, "pool": pool, "devices": []}}


@pytest.mark.usefixtures("unattended")
def test_slices_of_our_driver_are_written_by_nobody_else(stack: Stack) -> None:
    kubelet = stack.plane.kubeconfig("system:node:nvidia-node", ["system:nodes"])
    with stack.plane.api_as(kubelet) as api:
        said = refusal(api.create, SLICE, _slice("nvidia-node", "forged"))
        assert "are written by its agent alone" in said
        api.create(SLICE, _slice("nvidia-node", "other", "other.example.test"))
        stack.plane.admin.create(SLICE, _slice("nvidia-node", "ours"))
        # Kubelet takes its node's slices back when it starts.
        assert api.delete(SLICE, "ours")
        assert api.delete(SLICE, "other")


# -- certificates ------------------------------------------------------------------------------------------------------


class _Silent:
    def info(self, *_: object, **__: object) -> None:
        """Say nothing."""

    warning = error = info


def test_certificates_and_authorities_change_while_pods_are_created(stack: Stack, ann: Admin, namespace: str) -> None:
    """A server of ours in this process, whose clock is four years behind at first and then catches up."""
    now = dt.datetime.now(dt.UTC)
    clock = [now - (AUTHORITY_LIFE - AUTHORITY_RENEW) - dt.timedelta(days=1)]
    admin, context = stack.plane.admin, server_context()
    webhook = Webhook(lambda: Policy(scheduler="terrazzo"), FleetSummary)
    app = serving.posts({"/admit": Reviews(Figures(), _Silent()).of(webhook.admit)})
    server = serving.server(app, tls=context)
    shown = set()
    with killed(stack):
        admin.delete(SECRET, TLS, NAMESPACE_NAME)
        keeper = Keeper(
            admin.client, NAMESPACE_NAME, TLS, ["127.0.0.1"], context, _Silent(), now=lambda: clock[0]
        )  # fmt: skip
        port = stack.ports["webhook"]
        served = admin.run(_serve(server, port))
        try:
            for moment in (clock[0], now - 2 * OVERLAP - dt.timedelta(minutes=1), now - OVERLAP, now):
                clock[0] = moment
                admin.run(keeper.round())
                if moment < now - AUTHORITY_RENEW:
                    continue  # what was served then has ended by now
                wait_until(lambda: dry(ann, namespace, pod_object("p", FRACTION)), "the API server trusts it")
                for _ in range(20):
                    assert dry(ann, namespace, pod_object("p", FRACTION))["spec"]["schedulerName"] == "terrazzo"
                shown.add(_shown(port, told(stack)))
        finally:
            server.should_exit = True
            admin.run(_ended(served))
        secret = admin.get(SECRET, TLS, NAMESPACE_NAME)["data"]
        held = certificates.read({name: base64.b64decode(text) for name, text in secret.items()}, TLS)
        assert len(shown) == 2
        assert held.bundle == told(stack)
        assert len(held.authorities) == 1


async def _serve(server: uvicorn.Server, port: int) -> asyncio.Task[None]:
    task = asyncio.create_task(server.serve(sockets=[serving.listen(Address("127.0.0.1", port), "webhook")]))
    for _ in range(1000):
        if server.started:
            break
        await asyncio.sleep(0.01)
    return task


async def _ended(task: asyncio.Task[None]) -> None:
    await task


def _shown(port: int, bundle: bytes) -> bytes:
    """Return the certificate that a caller is shown who trusts what the API server is told."""
    context = ssl.create_default_context(cadata=bundle.decode())
    plain = socket.create_connection(("127.0.0.1", port))
    with context.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
        return connection.getpeercert(binary_form=True) or b""
