"""A cluster with Terrazzo in it: real control plane, kube-scheduler with our extender, our service as a process."""

from __future__ import annotations

import sys
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import yaml

from terrazzo.dialects.inventory import publish_slices
from terrazzo.dialects.names import all_names
from terrazzo.kube.kinds import CONFIG_MAP, DEVICE_CLASS, EVENT, NAMESPACE, NODE, POD, SLICE
from terrazzo.model.node import Node
from terrazzo.testing.cluster.control_plane import ControlPlane
from terrazzo.testing.cluster.nodes import node_object
from terrazzo.testing.cluster.process import Process
from terrazzo.testing.cluster.waiting import wait_until

NAMESPACE_NAME = "terrazzo-system"


def scheduler_config(
    port: int, *, percentage: int = 100, name: str = "terrazzo", http_timeout_s: int = 30
) -> dict[str, Any]:
    """Return a KubeSchedulerConfiguration that asks our extender on loopback."""
    extender = {
        "urlPrefix": f"http://127.0.0.1:{port}",
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "bindVerb": "bind",
        "preemptVerb": "preempt",
        "weight": 1,
        "nodeCacheCapable": True,
        "httpTimeout": f"{http_timeout_s}s",
        "managedResources": [{"name": each, "ignoredByScheduler": True} for each in all_names()],
    }
    return {
        "percentageOfNodesToScore": percentage,
        "profiles": [{"schedulerName": name}, {"schedulerName": "default-scheduler"}],
        "extenders": [extender],
    }


class Stack:
    """A control plane and Terrazzo's service.

    Args:
        version: of Kubernetes.
        ledger: ``auto``, ``dra`` or ``classic``.
        roles: of the service.
        settings: more settings of the service.
        controllers: whether the controller-manager runs.
        **more: for ``ControlPlane``.
    """

    def __init__(
        self, version: str = "1.37", *, ledger: str = "auto", roles: Sequence[str] = ("extender", "reconciler"),
        settings: Mapping[str, Any] | None = None, controllers: bool = True, percentage: int = 100, **more: Any,
    ) -> None:  # fmt: skip
        self._roles = roles
        self._settings = {"ledger": ledger, **(settings or {})}
        self.plane = ControlPlane(version, scheduler=False, controllers=controllers, **more)
        self.port = self.plane.run.port()
        self.probes = self.plane.run.port()
        config = scheduler_config(self.port, percentage=percentage)
        self.scheduler = self.plane.make_scheduler(
            "kube-scheduler", config, self.plane.kubeconfig("system:kube-scheduler")
        )

    service: Process

    def __enter__(self) -> Self:
        """Start everything."""
        try:
            self.plane.start()
            self.prepare()
            self.start_service()
            self.scheduler.start()
        except BaseException:
            self.plane.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Stop everything."""
        self.plane.stop()

    def prepare(self) -> None:
        """Make what the chart would make."""
        admin = self.plane.admin
        admin.create(NAMESPACE, {"metadata": {"name": NAMESPACE_NAME}})
        if self.plane.version != "1.35":
            admin.create(DEVICE_CLASS, {"metadata": {"name": "gpu.terrazzo.io"}, "spec": {}})

    def config(self, port: int, probes: int) -> Path:
        """Return a file with settings of the service."""
        body = {
            "namespace": NAMESPACE_NAME,
            "extender": {"host": "127.0.0.1", "port": port},
            "probes": {"host": "127.0.0.1", "port": probes},
            **self._settings,
        }
        path = self.plane.run.make("terrazzo") / f"control-{port}.yaml"
        path.write_text(yaml.safe_dump(body), "utf-8")
        return path

    def start_service(
        self, name: str = "terrazzo", kubeconfig: Path | None = None, env: Mapping[str, str] | None = None
    ) -> Process:
        """Start the service as a process of its own."""
        command = self._command(self.config(self.port, self.probes), kubeconfig)
        self.service = self.plane.spawn(name, command, ready=lambda: is_ready(self.probes), env=env)
        return self.service

    def _command(self, config: Path, kubeconfig: Path | None = None) -> list[str]:
        access = str(kubeconfig or self.plane.kubeconfig())
        roles = [f"--role={role}" for role in self._roles]
        return [sys.executable, "-m", "terrazzo", "control", "--config", str(config), "--kubeconfig", access, *roles]

    def restart_scheduler(self, **more: Any) -> None:
        """Start kube-scheduler anew with another configuration; see ``scheduler_config``."""
        self.scheduler.stop()
        config = scheduler_config(self.port, **more)
        self.scheduler = self.plane.make_scheduler(
            "kube-scheduler", config, self.plane.kubeconfig("system:kube-scheduler")
        ).start()

    def rival(self) -> Process:
        """Start a second kube-scheduler with a second service of ours, as nobody should; return the scheduler."""
        port, probes = self.plane.run.port(), self.plane.run.port()
        command = self._command(self.config(port, probes))
        self.plane.spawn("terrazzo-rival", command, ready=lambda: is_ready(probes))
        access = self.plane.kubeconfig("system:kube-scheduler")
        return self.plane.make_scheduler("kube-scheduler-rival", scheduler_config(port), access).start()

    def metrics(self) -> str:
        """Return the service's figures."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.probes}/metrics", timeout=5) as answer:
            return str(answer.read().decode())

    def policy(self, text: str) -> None:
        """Write the policy."""
        body = {"metadata": {"name": "terrazzo-policy"}, "data": {"policy.yaml": text}}
        admin = self.plane.admin
        if admin.find(CONFIG_MAP, "terrazzo-policy", NAMESPACE_NAME) is None:
            admin.create(CONFIG_MAP, body, NAMESPACE_NAME)
        else:
            admin.patch(CONFIG_MAP, body, "terrazzo-policy", NAMESPACE_NAME)

    def add_nodes(self, nodes: Iterable[Node], *, slices: bool = True) -> None:
        """Create Node objects with devices, and ResourceSlices where the cluster's ledger is ``dra``."""
        made = list(nodes)
        dra = slices and self._settings["ledger"] != "classic" and self.plane.version != "1.35"
        self.plane.admin.create_all(NODE, [node_object(node, ledger="dra" if dra else "classic") for node in made])
        if dra:
            bodies = [body for node in made for body in publish_slices(node)]
            self.plane.admin.create_all(SLICE, bodies)

    def pod(self, name: str, namespace: str = "default") -> dict[str, Any] | None:
        """Return a pod."""
        return self.plane.admin.find(POD, name, namespace)

    @property
    def ledger(self) -> str:
        """The ledger that the service uses here."""
        asked = str(self._settings["ledger"])
        return ("classic" if self.plane.version == "1.35" else "dra") if asked == "auto" else asked

    def event_text(self, name: str, namespace: str = "default") -> str:
        """Return what events say of a pod, one a line."""
        events = self.plane.admin.list(EVENT, namespace)
        return "\n".join(f"{e.get('reason')}: {e.get('note')}" for e in events if e["regarding"].get("name") == name)

    def node_of(self, name: str, namespace: str = "default") -> str:
        """Return where a pod is bound, empty when it is not."""
        pod = self.pod(name, namespace)
        return str((pod or {}).get("spec", {}).get("nodeName", ""))

    def wait_bound(self, names: Iterable[str], namespace: str = "default", seconds: float = 60) -> dict[str, str]:
        """Return where pods are bound, once all are."""
        wanted = set(names)

        def bound() -> dict[str, str] | None:
            pods = self.plane.admin.list(POD, namespace)
            found = {p["metadata"]["name"]: p["spec"].get("nodeName", "") for p in pods}
            return {n: found[n] for n in wanted} if all(found.get(n) for n in wanted) else None

        found = wait_until(bound, f"{len(wanted)} pods are bound", deadline_s=seconds)
        assert found is not None  # noqa: S101 - wait_until returns what is true
        return found


def is_ready(port: int) -> bool:
    """Return whether the service whose probes are at this port says that it is ready."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def pod_object(
    name: str,
    limits: Mapping[str, Any],
    *,
    scheduler: str = "terrazzo",
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """Return a pod of one container.

    Args:
        name: of the pod.
        limits: of its container.
        scheduler: who places it.
        annotations: of the pod.
        labels: of the pod.
        **spec: more of its spec.
    """
    container = {"name": "main", "image": "example.test/app:1", "resources": {"limits": dict(limits)}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": dict(annotations or {}), "labels": dict(labels or {})},
        "spec": {"schedulerName": scheduler, "containers": [container], **spec},
    }
