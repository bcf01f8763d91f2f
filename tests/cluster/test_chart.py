"""The chart on a real API server: installed, upgraded and removed by helm, with pods that run meanwhile."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from terrazzo.kube.kinds import CLAIM, NAMESPACE, POD, Kind
from terrazzo.testing.builders import SHARED, make_node
from terrazzo.testing.cluster import VERSIONS, ControlPlane, Kwok, part
from terrazzo.testing.cluster.stack import pod_object
from terrazzo.testing.cluster.waiting import wait_until

CHART = Path(__file__).parents[2] / "deploy" / "chart"
HOME = "terrazzo-system"
DEPLOYMENT = Kind("apps", "v1", "deployments", "Deployment")


@pytest.fixture(scope="module", params=VERSIONS)
def plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    with ControlPlane(request.param) as made:
        Kwok(made).start()
        made.add_nodes([make_node(f"n{i}", SHARED[0], 0) for i in range(3)], managed=False)
        yield made


def helm(plane: ControlPlane, *arguments: str) -> str:
    command = [str(part("helm") / "helm"), "--kubeconfig", str(plane.kubeconfig()), "--namespace", HOME, *arguments]
    env = {"HOME": str(plane.run.make("home")), "PATH": ""}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)  # noqa: S603 - helm
    assert not done.returncode, done.stderr
    return done.stdout


def ready(plane: ControlPlane) -> bool:
    found = plane.admin.list(DEPLOYMENT, HOME)
    return len(found) == 2 and all(
        each["status"].get("readyReplicas") == each["spec"]["replicas"] == each["status"].get("updatedReplicas")
        for each in found
    )


def left_over(plane: ControlPlane) -> list[str]:
    """Return every object in the cluster, of whatever kind, that bears our name."""
    kinds = plane.kubectl("api-resources", "--verbs=list", "-o", "name").split()
    wanted = [kind for kind in kinds if not kind.startswith(("events", "nodes.metrics", "pods.metrics"))]
    listed = plane.kubectl("get", ",".join(wanted), "-A", "-o", "name", "--ignore-not-found").split()
    return [name for name in listed if "terrazzo" in name]


@pytest.mark.parametrize("mode", ["sidecar", "service"])
def test_installed_upgraded_and_removed_without_a_trace(plane: ControlPlane, mode: str) -> None:
    before = left_over(plane)
    helm(plane, "install", "terrazzo", str(CHART), "--create-namespace", "--set", f"extender.mode={mode}")
    wait_until(lambda: ready(plane), "both deployments are ready", deadline_s=90)
    plane.admin.create(POD, pod_object("runs", {"cpu": "1"}, scheduler="default-scheduler"), "default")
    wait_until(lambda: (plane.admin.find(POD, "runs", "default") or {})["status"]["phase"] == "Running", "it runs")
    helm(plane, "upgrade", "terrazzo", str(CHART), "--set", f"extender.mode={mode},image.tag=9.9.9,crowd=7")
    wait_until(lambda: ready(plane), "the upgrade is rolled out", deadline_s=90)
    pods = plane.admin.list(POD, HOME)
    images = {c["image"] for pod in pods for c in pod["spec"]["containers"] if "kube-scheduler" not in c["image"]}
    wait_until(lambda: len(plane.admin.list(POD, HOME)) == 4, "old replicas are gone")
    assert "terrazzo:9.9.9" in images
    plane.kubectl(
        "delete", "mutatingwebhookconfiguration,validatingwebhookconfiguration",
        "-l", "app.kubernetes.io/instance=terrazzo",
    )  # fmt: skip
    helm(plane, "uninstall", "terrazzo", "--wait")
    assert (plane.admin.find(POD, "runs", "default") or {})["status"]["phase"] == "Running"
    plane.admin.delete(POD, "runs", "default", grace_s=0)
    plane.admin.delete(NAMESPACE, HOME)
    wait_until(lambda: plane.admin.find(NAMESPACE, HOME) is None, "the namespace is gone", deadline_s=60)
    wait_until(lambda: left_over(plane) == before, f"nothing stays behind: {left_over(plane)}", deadline_s=30)
    assert plane.version == "1.35" or not plane.admin.list(CLAIM)


def test_every_object_is_what_the_api_server_takes(plane: ControlPlane) -> None:
    """Both ways of installing: what helm renders can be applied by kubectl, strictly, as it is."""
    for values in ("extender.mode=sidecar", "extender.mode=service,ledger=classic,priorityClass.create=false"):
        text = helm(plane, "template", "terrazzo", str(CHART), "--kube-version", plane.version, "--set", values)
        plane.kubectl("create", "namespace", HOME)
        said = plane.kubectl("apply", "--validate=strict", "-n", HOME, "-f", "-", given=_without_kube_system(text))
        assert "Warning" not in said
        again = plane.kubectl("apply", "--validate=strict", "-n", HOME, "-f", "-", given=_without_kube_system(text))
        assert not [line for line in again.splitlines() if line.endswith("created")]
        plane.kubectl(
            "delete", "-n", HOME, "--wait=false", "--ignore-not-found", "-f", "-", given=_without_kube_system(text)
        )
        plane.admin.delete(NAMESPACE, HOME)
        wait_until(lambda: plane.admin.find(NAMESPACE, HOME) is None, "the namespace is gone", deadline_s=60)


def _without_kube_system(text: str) -> str:
    """Leave out the one object that lives in kube-system: ``kubectl -n`` takes objects of one namespace."""
    return "\n---\n".join(part for part in text.split("\n---\n") if "namespace: kube-system" not in part)
