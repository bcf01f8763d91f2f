"""``make demo-cluster``: a real Kubernetes with Terrazzo in it, the examples applied, and where everything went."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import yaml

from terrazzo.dialects import holdings, inventory
from terrazzo.kube.kinds import NODE, POD, Kind
from terrazzo.model.errors import TerrazzoError
from terrazzo.model.node import Node
from terrazzo.model.quantity import format_mib
from terrazzo.testing.cluster.kwok import Kwok
from terrazzo.testing.cluster.stack import NAMESPACE_NAME, Stack
from terrazzo.testing.cluster.waiting import wait_until
from terrazzo.wire import kubernetes as k8s

STATEFUL_SET = Kind("apps", "v1", "statefulsets", "StatefulSet")
EXAMPLES = Path(__file__).parents[4] / "examples"
NODES = ("one-card/node.yaml", "five-vendors/nodes.yaml", "notebooks/nodes.yaml", "inference/nodes.yaml")
SHOWN = {
    "one-card": ("one-card/pods.yaml", "one-card/more.yaml"),
    "five-vendors": ("five-vendors/inference.yaml", "five-vendors/own-words.yaml"),
    "notebooks": ("notebooks/notebooks.yaml",),
    "inference": ("inference/deployment.yaml",),
    "burst": ("burst/jobs.yaml",),
}
"""Namespace, and what is applied in it."""


def nodes() -> list[Node]:
    """Return the nodes of the examples, with their devices."""
    raw = [each for file in NODES for each in yaml.safe_load_all((EXAMPLES / file).read_text("utf-8")) if each]
    made = msgspec.convert([each for each in raw if each["kind"] == "Node"], list[k8s.Node])
    return inventory.read_nodes(made)


def apply(stack: Stack) -> None:
    """Apply the examples as they are, each in a namespace of its own."""
    policy = yaml.safe_load((EXAMPLES / "five-vendors" / "policy.yaml").read_text("utf-8"))
    stack.policy("vendors: [nvidia]\n" + policy["data"]["policy.yaml"])
    for namespace, files in SHOWN.items():
        stack.plane.kubectl("create", "namespace", namespace)
        for file in files:
            said = stack.plane.apply(EXAMPLES / file, namespace=namespace)
            sys.stdout.write("".join(f"  {line}\n" for line in said.splitlines()))


def settled(stack: Stack) -> bool:
    """Return whether every pod of the examples is bound or was told why not."""
    pods = [pod for namespace in SHOWN for pod in stack.plane.admin.list(POD, namespace)]
    sets = stack.plane.admin.list(STATEFUL_SET)
    complete = all(each["status"].get("replicas", 0) == each["spec"]["replicas"] for each in sets)
    return (
        complete
        and bool(pods)
        and all(
            pod["spec"].get("nodeName") or any(c["type"] == "PodScheduled" for c in pod["status"].get("conditions", ()))
            for pod in pods
        )
    )


def lines(stack: Stack) -> list[str]:
    """Return a table of where everything went."""
    raw = msgspec.convert(stack.plane.admin.list(NODE), list[k8s.Node])
    known = {node.name: node for node in inventory.read_nodes(raw)}
    rows: list[tuple[str, ...]] = [("NAMESPACE", "POD", "NODE", "CONTAINER", "DEVICE", "MEMORY", "COMPUTE")]
    for namespace in SHOWN:
        pods = stack.plane.admin.list(POD, namespace)
        for pod in sorted(pods, key=lambda each: each["metadata"]["name"])[:8]:
            rows += _rows(namespace, pod, known)
        if len(pods) > 8:
            bound = sum(bool(pod["spec"].get("nodeName")) for pod in pods)
            rows.append((namespace, f"… {bound} of {len(pods)} pods have a node", "", "", "", "", ""))
    widths = [max(len(row[i]) for row in rows) for i in range(7)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _rows(namespace: str, pod: dict[str, Any], known: dict[str, Node]) -> list[tuple[str, ...]]:
    name = pod["metadata"]["name"]
    held = holdings.read(msgspec.convert(pod, k8s.Pod), known) if pod["spec"].get("nodeName") else None
    if held is None:
        return [(namespace, name, "waits", "", "", "", "")]
    devices = {device.uuid: device for device in known[held.node].devices}
    found: list[tuple[str, ...]] = []
    for container in held.containers:
        for grant in container.devices:
            device = devices[grant.uuid]
            share = "all" if grant.whole else f"{grant.units * 100 // device.units}%" if grant.units else "idle only"
            what = f"{device.vendor} {device.model} #{device.index}"
            found.append((namespace, name, held.node, container.container, what, format_mib(grant.memory_mib), share))
    return found


def main() -> int:
    """Start, apply, print, wait for Ctrl-C."""
    say = sys.stdout.write
    say("Starting etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok and Terrazzo …\n")
    with Stack(webhook=True) as stack:
        Kwok(stack.plane).start()
        stack.add_nodes(nodes())
        say("Applying the examples, as they are:\n")
        apply(stack)
        wait_until(lambda: settled(stack), "every pod of the examples has a node or a reason", deadline_s=180)
        say("\n" + "\n".join(lines(stack)) + "\n\n")
        config = stack.plane.kubeconfig()
        say(f"The cluster lives until Ctrl-C. In another shell:\n\n  export KUBECONFIG={config}\n")
        say(f"  export PATH={stack.plane.binaries}:$PATH\n")
        for words in ("get pods -A -o wide", "get resourceclaims -A", "describe pod -n one-card llama-7b"):
            say(f"  kubectl {words}\n")
        say(f"  kubectl -n {NAMESPACE_NAME} get leases\n")
        sys.stdout.flush()
        _wait()
    return 0


def _wait() -> None:
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    stop.wait()
    sys.stdout.write("\nStopping.\n")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TerrazzoError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
