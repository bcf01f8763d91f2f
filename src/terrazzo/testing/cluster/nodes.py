"""Node objects with devices, for nodes that exist only in the API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from terrazzo.dialects.inventory import publish
from terrazzo.model.node import Node
from terrazzo.wire import state

MANAGED = "terrazzo.io/managed"
"""Label of a node whose devices are ours to give (DESIGN §4)."""
FAKE = "kwok.x-k8s.io/node"
"""Annotation by which kwok knows the nodes that it keeps alive."""
CPU_MILLI, MEMORY_MIB, MOST_PODS = 128_000, 1 << 20, 250
CONDITIONS = (
    ("Ready", "True", "KubeletReady"),
    ("MemoryPressure", "False", "KubeletHasSufficientMemory"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID"),
)


def node_object(
    node: Node,
    *,
    ledger: str = "",
    managed: bool = True,
    labels: Mapping[str, str] | None = None,
    extended: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Return the Node object of a node.

    Args:
        node: with its devices, taints, labels and sizes.
        ledger: ``dra`` or ``classic``, written into the inventory.
        managed: whether its devices are ours; only then it has an inventory.
        labels: more labels.
        extended: extended resources by name, as a vendor's device plugin would register.
    """
    amounts = {
        "cpu": f"{node.cpu_milli or CPU_MILLI}m",
        "memory": f"{node.memory_mib or MEMORY_MIB}Mi",
        "pods": str(node.max_pods or MOST_PODS),
        "ephemeral-storage": "1Ti",
        **{name: str(count) for name, count in {**node.other, **(extended or {})}.items()},
    }
    standard = {"kubernetes.io/hostname": node.name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node.name,
            "labels": {**standard, **({MANAGED: "true"} if managed else {}), **node.labels, **(labels or {})},
            "annotations": {FAKE: "fake", **({state.INVENTORY: publish(node, ledger=ledger)} if managed else {})},
        },
        "spec": {
            "taints": [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in node.taints],
            "unschedulable": node.unschedulable,
        },
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "phase": "Running",
            "conditions": [
                {"type": kind, "status": value, "reason": reason, "message": ""} for kind, value, reason in CONDITIONS
            ],
        },
    }
