"""The harness itself: parts come up, obey, die with their parent, and leave nothing."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from terrazzo.dialects.inventory import read_nodes
from terrazzo.kube.errors import ApiError, Forbidden, Unreachable
from terrazzo.kube.kinds import CONFIG_MAP, NAMESPACE, NODE, POD, SECRET, VALIDATING
from terrazzo.model.errors import TerrazzoError
from terrazzo.testing.builders import SHARED, Kind, make_node
from terrazzo.testing.cluster import ControlPlane, Process, Run, to_loopback, wait_until
from terrazzo.testing.cluster.kwok import COMPLETES, ENDS, FAILS, STARTS
from terrazzo.testing.cluster.runs import started_at
from terrazzo.wire import kubernetes as k8s

LONG = "3600s"
GATE = "DRAConsumableCapacity"
"""On by default in the version that these tests start."""


def pod(name: str, **annotations: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "initContainers": [{"name": "before", "image": "app:1"}],
            "containers": [{"name": "main", "image": "app:1"}],
        },
    }


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def phase(plane: ControlPlane, name: str, namespace: str) -> str:
    return str(plane.admin.get(POD, name, namespace)["status"]["phase"])


def reaches(plane: ControlPlane, name: str, namespace: str, wanted: str) -> None:
    wait_until(lambda: phase(plane, name, namespace) == wanted, f"pod {name} is {wanted}")


@pytest.mark.parametrize("kind", SHARED, ids=str)
def test_a_node_of_every_vendor_lives_and_says_its_devices(
    control_plane: ControlPlane, add_nodes: Any, kind: Kind
) -> None:
    node = make_node(f"lives-{kind.vendor}", kind, devices=4)
    add_nodes([node])

    def ready() -> bool:
        read = control_plane.admin.get(NODE, node.name)
        return not [taint for taint in read["spec"].get("taints", ()) if "not-ready" in taint["key"]]

    wait_until(ready, f"node {node.name} is ready")
    raw = control_plane.admin.run(control_plane.admin.client.get(NODE, k8s.Node, node.name))
    assert read_nodes([raw])[0].devices == node.devices


def test_pods_meet_the_fate_that_they_ask_for(control_plane: ControlPlane, namespace: str, add_nodes: Any) -> None:
    add_nodes([make_node("fates")])
    fates = {
        "runs": {},
        "waits": {STARTS: LONG},
        "completes": {COMPLETES: "100ms"},
        "fails": {FAILS: "100ms"},
        "lingers": {ENDS: LONG},
    }
    for name, fate in fates.items():
        control_plane.admin.create(POD, pod(name, **fate), namespace)
    for name, wanted in {"runs": "Running", "lingers": "Running", "completes": "Succeeded", "fails": "Failed"}.items():
        reaches(control_plane, name, namespace, wanted)
    for name in ("runs", "lingers"):
        control_plane.admin.delete(POD, name, namespace)
    wait_until(lambda: control_plane.admin.find(POD, "runs", namespace) is None, "pod runs is gone")
    assert control_plane.admin.get(POD, "lingers", namespace)["metadata"]["deletionTimestamp"]
    assert phase(control_plane, "waits", namespace) == "Pending"
    assert control_plane.admin.get(POD, "waits", namespace)["spec"]["nodeName"] == "fates"
    control_plane.admin.delete(POD, "lingers", namespace, grace_s=0)


def test_a_service_account_has_its_rights_and_no_others(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.kubectl("create", "serviceaccount", "reader", "-n", namespace)
    control_plane.kubectl("create", "role", "reader", "--verb=get,list", "--resource=configmaps", "-n", namespace)
    control_plane.kubectl(
        "create", "rolebinding", "reader", "--role=reader", f"--serviceaccount={namespace}:reader", "-n", namespace
    )
    with control_plane.api_as(control_plane.account_kubeconfig("reader", namespace)) as reader:
        wait_until(lambda: reader.list(CONFIG_MAP, namespace), "the role is known and the namespace has its authority")
        with pytest.raises(Forbidden, match=f"system:serviceaccount:{namespace}:reader"):
            reader.list(POD, namespace)


def test_users_are_who_their_certificates_say(control_plane: ControlPlane) -> None:
    config = control_plane.kubeconfig("system:node:somebody", ["system:nodes", "extra"])
    said = control_plane.kubectl(
        "auth", "whoami", "-o", "jsonpath={.status.userInfo.username} {.status.userInfo.groups}", user=config
    )
    assert said.startswith("system:node:somebody ")
    assert "system:nodes" in said
    assert "extra" in said


def test_apply_takes_text_files_and_objects(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    (tmp_path / "map.yaml").write_text("{apiVersion: v1, kind: ConfigMap, metadata: {name: file}}", "utf-8")
    for given in ("{apiVersion: v1, kind: ConfigMap, metadata: {name: text}}", tmp_path, [config_map("object")]):
        assert "created" in control_plane.apply(given, namespace=namespace)
    assert {"text", "file", "object"} <= {
        m["metadata"]["name"] for m in control_plane.admin.list(CONFIG_MAP, namespace)
    }
    with pytest.raises(TerrazzoError, match="kubectl apply"):
        control_plane.apply("{apiVersion: v1, kind: Nonsense, metadata: {name: text}}", namespace=namespace)


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """Give a control plane whose parts may be hurt: without controllers and scheduler, so in a few seconds."""
    with ControlPlane(scheduler=False, controllers=False, history=True, gates={GATE: False}) as plane:
        yield plane


def test_without_controllers_nodes_are_created_ready_and_pods_at_once(plane: ControlPlane) -> None:
    plane.add_nodes(make_node(f"still-{i}") for i in range(200))
    nodes = plane.admin.list(NODE)
    assert len(nodes) == 200
    assert not any(node["spec"].get("taints") for node in nodes)
    assert {c["status"] for n in nodes for c in n["status"]["conditions"] if c["type"] == "Ready"} == {"True"}
    plane.admin.create(POD, pod("waits"), plane.new_namespace())


def test_gates_are_as_they_were_asked_for(plane: ControlPlane) -> None:
    said = plane.kubectl("get", "--raw", "/metrics")
    assert re.search(rf'^kubernetes_feature_enabled{{name="{GATE}",stage="[A-Z]*"}} 0$', said, re.MULTILINE)


@pytest.mark.parametrize("which", ["etcd", "api"])
@pytest.mark.parametrize("how", ["kill", "stop"])
def test_parts_come_back_with_what_they_held(plane: ControlPlane, which: str, how: str) -> None:
    part: Process = getattr(plane, which)
    namespace = plane.new_namespace()
    before = part.pid
    getattr(part, how)()
    assert not part.alive
    assert part.code == (-signal.SIGKILL if how == "kill" else part.code)
    part.start()
    assert part.pid != before
    wait_until(lambda: plane.admin.find(NAMESPACE, namespace), "what was written is there")


def test_a_paused_part_is_silent_until_it_may_go_on(plane: ControlPlane) -> None:
    plane.etcd.pause()
    try:
        with pytest.raises(Unreachable):
            plane.admin.run(
                plane.admin.client.call(
                    "POST", NAMESPACE.path(), body={"metadata": {"name": "late"}}, once=True, deadline_s=1
                )
            )
        assert plane.etcd.alive
    finally:
        plane.etcd.resume()
    wait_until(lambda: plane.admin.list(NAMESPACE), "etcd answers again")


def test_what_does_not_come_up_says_why(plane: ControlPlane) -> None:
    with pytest.raises(TerrazzoError, match=r"ended with 3(?s:.)*no luck today"):
        plane.spawn("luckless", ["sh", "-c", "echo no luck today; exit 3"], ready=lambda: False)


def test_any_scheduler_configuration_is_taken(plane: ControlPlane) -> None:
    config = {"profiles": [{"schedulerName": "other"}], "percentageOfNodesToScore": 100}
    scheduler = plane.make_scheduler("other", config, plane.kubeconfig("system:kube-scheduler")).start()
    namespace = plane.new_namespace()
    plane.add_nodes([make_node("chosen")])
    for name in ("other", "default-scheduler"):
        body = pod(name)
        body["spec"]["schedulerName"] = name
        plane.admin.create(POD, body, namespace)
    wait_until(lambda: plane.admin.get(POD, "other", namespace)["spec"].get("nodeName"), "pod other is bound")
    assert "nodeName" not in plane.admin.get(POD, "default-scheduler", namespace)["spec"]
    scheduler.stop()
    assert not scheduler.alive


def test_history_has_every_version_also_what_no_watch_saw(plane: ControlPlane) -> None:
    namespace = plane.new_namespace()
    plane.admin.create(CONFIG_MAP, config_map("a", step="1"), namespace)
    plane.api.kill()
    plane.api.start()
    for step in "23":
        plane.admin.patch(CONFIG_MAP, {"data": {"step": step}}, "a", namespace)
    plane.admin.delete(CONFIG_MAP, "a", namespace)
    versions = [v for v in plane.store.history("configmaps", "pods") if v.name == f"{namespace}/a"]
    assert [v.body and v.body["data"]["step"] for v in versions] == ["1", "2", "3", None]
    assert [v.revision for v in versions] == sorted({v.revision for v in versions})
    later = list(plane.store.history("configmaps", since=versions[1].revision))
    assert [v.revision for v in later if v.name == f"{namespace}/a"] == [v.revision for v in versions[2:]]


def test_what_etcd_forgot_is_gone_for_watches_and_history(plane: ControlPlane) -> None:
    namespace = plane.new_namespace()
    old = plane.admin.create(CONFIG_MAP, config_map("old"), namespace)["metadata"]["resourceVersion"]
    plane.admin.patch(CONFIG_MAP, {"data": {"new": "yes"}}, "old", namespace)
    plane.store.compact()
    plane.api.restart()  # its cache of recent changes goes with it
    path = CONFIG_MAP.path(namespace)

    def watch() -> bytes:
        query = {"watch": "1", "resourceVersion": old, "timeoutSeconds": "2"}
        return plane.admin.run(plane.admin.client.call("GET", path, query=query))

    try:
        assert b'"code":410' in watch()
    except ApiError as error:
        assert error.status == 410  # noqa: PT017 - the server says it in either way
    with pytest.raises(TerrazzoError, match="cannot tell its history"):
        list(plane.store.history("configmaps"))


def test_a_wire_can_be_silent_and_cut(plane: ControlPlane) -> None:
    with plane.relay() as relay, plane.api_as(plane.kubeconfig(port=relay.port)) as through:
        namespace = plane.new_namespace()
        path = CONFIG_MAP.path(namespace)

        def unanswered(name: str) -> None:
            with pytest.raises(Unreachable):
                through.run(through.client.call("POST", path, body=config_map(name), once=True, deadline_s=2))

        through.create(CONFIG_MAP, config_map("before"), namespace)
        assert relay.open == 1
        relay.hold(requests=False)
        unanswered("unheard")
        assert plane.admin.find(CONFIG_MAP, "unheard", namespace)
        relay.release()
        relay.hold(answers=False)
        unanswered("unsaid")
        relay.cut()
        relay.release()
        assert through.find(CONFIG_MAP, "before", namespace)
        assert not plane.admin.find(CONFIG_MAP, "unsaid", namespace)


def test_webhooks_of_services_are_called_on_loopback(plane: ControlPlane) -> None:
    hook = {
        "name": "refuse.example.test",
        "clientConfig": {"service": {"name": "refuse", "namespace": "default", "path": "/refuse"}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    configuration = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "refuse"},
        "webhooks": [hook],
    }
    port = plane.run.port()
    (redirected,) = to_loopback([configuration], {"refuse": port})
    plane.admin.create(VALIDATING, redirected)
    called = re.escape(f"https://127.0.0.1:{port}/refuse")

    def refused() -> bool:
        # Nobody listens, and a webhook that cannot be asked refuses: the error says whom the server called.
        try:
            plane.admin.create(SECRET, {"metadata": {"generateName": "s-"}}, "default")
        except ApiError as error:
            return re.search(called, str(error)) is not None
        return False

    try:
        wait_until(refused, "the webhook is called")
    finally:
        plane.admin.delete(VALIDATING, "refuse")


KILLED = """
import os, signal, sys
from pathlib import Path
from terrazzo.testing.cluster import ControlPlane, Run
plane = ControlPlane(scheduler=False, controllers=False, run=Run(Path(sys.argv[1]))).start()
print(plane.etcd.pid, plane.api.pid, plane.run.folder, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_run_takes_its_parts_along_and_the_next_clears_its_folder(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, tmp_path], capture_output=True, text=True, check=False)  # noqa: S603 - the program above
    assert done.returncode == -signal.SIGKILL, done.stderr
    etcd, api, folder = done.stdout.split()
    wait_until(lambda: started_at(int(etcd)) is None and started_at(int(api)) is None, "the parts are dead")
    assert Path(folder).exists()
    with Run(tmp_path) as run:
        assert not Path(folder).exists()
        assert run.folder.exists()
    assert not run.folder.exists()
