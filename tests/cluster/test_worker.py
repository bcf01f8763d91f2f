"""Real kubelets: pods are processes, several nodes share a machine, and nothing of a killed run stays."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from terrazzo.kube.kinds import POD
from terrazzo.testing.cluster import VERSIONS, ControlPlane, Worker, sweep, wait_until
from terrazzo.testing.cluster.cgroups import hierarchies
from terrazzo.testing.cluster.runs import started_at
from terrazzo.testing.cluster.worker import IMAGE, lacks

pytestmark = pytest.mark.skipif(bool(lacks()), reason=lacks())


def pod(name: str, node: str, *arguments: str) -> dict[str, Any]:
    container = {
        "name": "main", "image": IMAGE, "imagePullPolicy": "Never", "args": [*arguments],
        "env": [{"name": "GIVEN", "value": "this"}],
    }  # fmt: skip
    spec = {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 5}
    return {"metadata": {"name": name}, "spec": {**spec, "nodeSelector": {"kubernetes.io/hostname": node}}}


@pytest.fixture(scope="module", params=VERSIONS)
def plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    with ControlPlane(request.param) as plane:
        yield plane


def test_two_nodes_run_pods_each_in_places_of_its_own(plane: ControlPlane) -> None:
    workers = [Worker(plane, name, labels={"terrazzo.io/managed": "true"}) for name in ("left", "right")]
    for worker in workers:
        worker.start(wait=False)
    for worker in workers:
        wait_until(worker.ready, f"node {worker.name} is ready")
    namespace = plane.new_namespace()
    for worker in workers:
        plane.admin.create(POD, pod(f"tells-{worker.name}", worker.name, "tell"), namespace)
        plane.admin.create(POD, pod(f"fails-{worker.name}", worker.name, "exit", "3"), namespace)

    for worker in workers:
        reaches(plane, f"tells-{worker.name}", namespace, "Running")
        assert "GIVEN=this" in plane.kubectl("logs", f"tells-{worker.name}", "-n", namespace)
        ended = reaches(plane, f"fails-{worker.name}", namespace, "Failed")
        assert ended["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
        kubelet = worker.folder / "var-lib-kubelet"
        assert (kubelet / "device-plugins" / "kubelet.sock").is_socket()
        assert (kubelet / "pod-resources" / "kubelet.sock").is_socket()
        assert (kubelet / "plugins_registry").is_dir()
        assert "kubelet.sock" in listing(worker, "/var/lib/kubelet/device-plugins")
    plane.admin.delete(POD, "tells-left", namespace)
    wait_until(lambda: plane.admin.find(POD, "tells-left", namespace) is None, "the pod is gone")
    left, right = workers
    left.stop()
    assert traces(left.bridge, left.group) == []
    left.start(wait=False).kubelet.kill()
    left.kubelet.start()
    plane.admin.create(POD, pod("again", "left", "tell"), namespace)
    reaches(plane, "again", namespace, "Running")
    for worker in workers:
        worker.stop()
        worker.stop()
    assert traces(left.bridge, left.group) + traces(right.bridge, right.group) == []


def listing(worker: Worker, folder: str) -> str:
    """Return what is in a folder as the node's own processes see it."""
    process = worker.process("ls", ["ls", folder]).start(wait=False)
    wait_until(lambda: not process.alive, "ls has ended")
    return process.tail()


def reaches(plane: ControlPlane, name: str, namespace: str, phase: str) -> dict[str, Any]:
    """Wait until a pod is in a phase and return its status."""

    def status() -> dict[str, Any] | None:
        found: dict[str, Any] = plane.admin.get(POD, name, namespace)["status"]
        return found if found["phase"] == phase else None

    return wait_until(status, f"pod {name} is {phase}") or {}


def traces(bridge: str, group: str) -> list[str]:
    """Return what is left of a node in the kernel."""
    left = [str(root / group) for root in hierarchies() if (root / group).exists()]
    return left + [str(path) for path in Path("/sys/class/net").glob(bridge)]


KILLED = f"""
import os, signal, sys
from pathlib import Path
from terrazzo.kube.kinds import POD
from terrazzo.testing.cluster import ControlPlane, Run, Worker, wait_until
plane = ControlPlane(run=Run(Path(sys.argv[1]))).start()
worker = Worker(plane, "killed").start()
container = {{"name": "main", "image": "{IMAGE}", "imagePullPolicy": "Never"}}
plane.admin.create(POD, {{"metadata": {{"name": "stays"}}, "spec": {{"containers": [container]}}}}, "default")
wait_until(lambda: plane.admin.get(POD, "stays", "default")["status"]["phase"] == "Running", "the pod runs")
print(worker.bridge, worker.group, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_containers_of_a_killed_run_are_ended_by_the_next(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, tmp_path], capture_output=True, text=True, check=False)  # noqa: S603 - the program above
    assert done.returncode == -signal.SIGKILL, done.stderr
    bridge, group = done.stdout.split()
    pids = [
        pid
        for root in hierarchies()
        for file in (root / group).rglob("cgroup.procs")
        for pid in file.read_text("utf-8").split()
    ]
    assert pids, "containers outlive whoever started them"
    assert traces(bridge, group)
    sweep(tmp_path)
    assert not [pid for pid in pids if started_at(int(pid))], "those that nobody asked how they ended may be zombies"
    assert traces(bridge, group) == []
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text("utf-8")
