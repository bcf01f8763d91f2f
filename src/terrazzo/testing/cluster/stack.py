"""A cluster with Terrazzo in it: real control plane, kube-scheduler with our extender, our service as a process."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import yaml

from terrazzo.dialects.inventory import publish_slices
from terrazzo.kube.kinds import CONFIG_MAP, EVENT, NAMESPACE, NODE, POD, SLICE
from terrazzo.model.errors import TerrazzoError
from terrazzo.model.node import Node
from terrazzo.testing.cluster.control_plane import ControlPlane
from terrazzo.testing.cluster.nodes import node_object
from terrazzo.testing.cluster.parts import part
from terrazzo.testing.cluster.process import Process
from terrazzo.testing.cluster.waiting import wait_until

NAMESPACE_NAME = "terrazzo-system"


CHART = Path(__file__).parents[4] / "deploy" / "chart"
LEFT_OUT = ("Deployment", "Service", "NetworkPolicy", "PodDisruptionBudget")
"""What needs nodes of its own: here the services run as processes beside the control plane."""
ROLES = {"scheduler": ("extender",), "controller": ("webhook", "reconciler")}
"""Which roles run under which service account, as in the chart."""


def chart(version: str, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what the chart renders for a version of Kubernetes."""
    helm = part("helm") / "helm"
    command = [
        str(helm), "template", "terrazzo", str(CHART), "--namespace", NAMESPACE_NAME, "--kube-version", f"{version}.0",
        "--values", "-",
    ]  # fmt: skip
    text = yaml.safe_dump(dict(values))
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)  # noqa: S603 - helm
    if done.returncode:
        raise TerrazzoError(done.stderr.strip(), where="helm template")
    return [each for each in yaml.safe_load_all(done.stdout) if each]


class Stack:
    """A control plane and Terrazzo, rendered from the chart: our services run under exactly its accounts and rights.

    Args:
        version: of Kubernetes.
        ledger: ``auto``, ``dra`` or ``classic``.
        webhook: whether pods go through our admission webhook; without it they name their scheduler themselves.
        settings: more settings of the service.
        controllers: whether the controller-manager runs.
        scheduler: changes to the rendered KubeSchedulerConfiguration.
        **more: for ``ControlPlane``.

    Attributes:
        extender, controller: our two processes.
        scheduler: kube-scheduler.
    """

    def __init__(
        self, version: str = "1.37", *, ledger: str = "auto", webhook: bool = False,
        settings: Mapping[str, Any] | None = None, controllers: bool = True,
        scheduler: Mapping[str, Any] | None = None, **more: Any,
    ) -> None:  # fmt: skip
        self._webhook = webhook
        self._settings = dict(settings or {})
        self.plane = ControlPlane(version, scheduler=False, controllers=controllers, **more)
        self.ports = {name: self.plane.run.port() for name in ("extender", "webhook", "scheduler", "controller")}
        url = f"https://127.0.0.1:{self.ports['webhook']}"
        self._ledger = ledger
        self._rendered = chart(version, {"ledger": ledger, "webhook": {"url": url}})
        self._scheduler_config = self._configured(scheduler or {})

    extender: Process
    controller: Process
    scheduler: Process

    def __enter__(self) -> Self:
        """Start everything."""
        try:
            self.plane.start()
            self.prepare()
            self.start_service("scheduler")
            self.start_service("controller")
            access = self.plane.account_kubeconfig("terrazzo-scheduler", NAMESPACE_NAME)
            self.scheduler = self.plane.make_scheduler("kube-scheduler", self._scheduler_config, access).start()
        except BaseException:
            self.plane.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Stop everything."""
        self.plane.stop()

    def prepare(self) -> None:
        """Apply what the chart renders, as ``helm template | kubectl apply`` would."""
        self.plane.admin.create(NAMESPACE, {"metadata": {"name": NAMESPACE_NAME}})
        kinds = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
        left_out = LEFT_OUT if self._webhook else (*LEFT_OUT, *kinds)
        wanted = [each for each in self._rendered if each["kind"] not in left_out]
        self.plane.kubectl("apply", "-f", "-", given=yaml.safe_dump_all(wanted))

    def _map(self, name: str, key: str) -> Any:
        """Return what a ConfigMap of the chart holds."""
        found = next(
            each for each in self._rendered if each["kind"] == "ConfigMap" and each["metadata"]["name"] == name
        )
        return yaml.safe_load(found["data"][key])

    def _configured(self, more: Mapping[str, Any], port: int = 0) -> dict[str, Any]:
        config = self._map("terrazzo-kube-scheduler", "scheduler.yaml")
        profiles = [*config["profiles"], {"schedulerName": "default-scheduler"}]
        config["extenders"][0]["urlPrefix"] = f"http://127.0.0.1:{port or self.ports['extender']}"
        config["extenders"][0] |= more.get("extender", {})
        return {**config, "profiles": profiles, **{key: value for key, value in more.items() if key != "extender"}}

    def config(self, name: str, extender: int, probes: int) -> Path:
        """Return a file with settings of a service: the chart's, with addresses on loopback."""
        body = self._map("terrazzo-settings", "control.yaml")
        body["extender"] = {"host": "127.0.0.1", "port": extender}
        body["webhook"] = {"host": "127.0.0.1", "port": self.ports["webhook"]}
        body["probes"] = {"host": "127.0.0.1", "port": probes}
        body["tls"]["names"] = ["127.0.0.1"]
        path = self.plane.run.make("terrazzo") / f"{name}-{probes}.yaml"
        path.write_text(yaml.safe_dump({**body, **self._settings}), "utf-8")
        return path

    def start_service(self, name: str, *, port: int = 0, env: Mapping[str, str] | None = None) -> Process:
        """Start ``scheduler`` (the extender) or ``controller`` (webhook and reconciler) as a process of its own.

        Args:
            name: which.
            port: of a relay to the API server; the server's own by default.
            env: more of its environment.
        """
        config = self.config(name, self.ports["extender"], self.ports[name])
        made = self._spawn(name, f"terrazzo-{name}", config, self.ports[name], port, env)
        if name == "scheduler":
            self.extender = made
        else:
            self.controller = made
        return made

    def _spawn(
        self, name: str, process: str, config: Path, probes: int, port: int = 0, env: Mapping[str, str] | None = None
    ) -> Process:
        roles = [role for role in ROLES[name] if role != "webhook" or self._webhook]
        access = self.plane.account_kubeconfig(f"terrazzo-{name}", NAMESPACE_NAME, port=port)
        command = [
            sys.executable, "-m", "terrazzo", "control", "--config", str(config), "--kubeconfig", str(access),
            *(f"--role={role}" for role in roles),
        ]  # fmt: skip
        return self.plane.spawn(process, command, ready=lambda: is_ready(probes), env=env)

    def restart_scheduler(self, more: Mapping[str, Any]) -> None:
        """Start kube-scheduler anew with changes to its configuration."""
        self.scheduler.stop()
        access = self.plane.account_kubeconfig("terrazzo-scheduler", NAMESPACE_NAME)
        self.scheduler = self.plane.make_scheduler("kube-scheduler", self._configured(more), access).start()

    def rival(self) -> Process:
        """Start a second kube-scheduler with a second extender, as nobody should; return the scheduler."""
        port, probes = self.plane.run.port(), self.plane.run.port()
        self._spawn("scheduler", "terrazzo-rival", self.config("rival", port, probes), probes)
        access = self.plane.account_kubeconfig("terrazzo-scheduler", NAMESPACE_NAME)
        return self.plane.make_scheduler("kube-scheduler-rival", self._configured({}, port), access).start()

    def metrics(self, name: str = "controller") -> str:
        """Return the figures of a service."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[name]}/metrics", timeout=5) as answer:
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
        dra = slices and self.ledger == "dra"
        self.plane.admin.create_all(NODE, [node_object(node, ledger="dra" if dra else "classic") for node in made])
        if dra:
            bodies = [body for node in made for body in publish_slices(node)]
            self.plane.admin.create_all(SLICE, bodies)

    def pod(self, name: str, namespace: str = "default") -> dict[str, Any] | None:
        """Return a pod."""
        return self.plane.admin.find(POD, name, namespace)

    def all_event_text(self, namespace: str) -> str:
        """Return what events say in a namespace, one a line."""
        return "\n".join(f"{e.get('reason')}: {e.get('note')}" for e in self.plane.admin.list(EVENT, namespace))

    def add_node_objects(self, bodies: Iterable[dict[str, Any]]) -> None:
        """Create Node objects as they are, with inventories in their annotations."""
        self.plane.admin.create_all(NODE, bodies)

    @property
    def ledger(self) -> str:
        """The ledger that the service uses here."""
        asked = self._ledger
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

        # Looking at thousands of pods again and again would keep the API server from anything else.
        step_s = 0.05 if len(wanted) < 100 else 1.0
        found = wait_until(bound, f"{len(wanted)} pods are bound", deadline_s=seconds, step_s=step_s)
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
