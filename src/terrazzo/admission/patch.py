"""The JSON patch (RFC 6902) that admission makes: a scheduler, and counts that were left out.

Whoever counts a container's devices later (kubelet, a device plugin, a claim's request mapping) reads the count, so a
container that gave memory or compute alone gets it written. Patching a patched pod changes nothing.
"""

from __future__ import annotations

from typing import Any

from terrazzo.admission.guard import UNCHOSEN
from terrazzo.dialects.names import Role, lookup
from terrazzo.model.policy import Policy
from terrazzo.model.quantity import parse_quantity
from terrazzo.model.request import Ask, PodRequest
from terrazzo.wire import kubernetes as wire

Operation = dict[str, Any]


def patch_for(pod: wire.Pod, request: PodRequest, policy: Policy) -> tuple[Operation, ...]:
    """Return the operations that bring a pod into the form that the rest of its life expects."""
    operations: list[Operation] = []
    if policy.scheduler and pod.spec.scheduler_name in UNCHOSEN and pod.spec.scheduler_name != policy.scheduler:
        operations.append({"op": "add", "path": "/spec/schedulerName", "value": policy.scheduler})
    rows = [("initContainers", i, c) for i, c in enumerate(pod.spec.init_containers or [])]
    rows += [("containers", i, c) for i, c in enumerate(pod.spec.containers or [])]
    for (section, index, container), asked in zip(rows, request.containers, strict=True):
        for ask in asked.asks:
            operations += _counted(container, ask, f"/spec/{section}/{index}/resources")
    return tuple(operations)


def gate_for(pod: wire.Pod, policy: Policy, gate: str) -> tuple[Operation, ...]:
    """Return the operation that makes the pod wait behind a scheduling gate until there is something for it.

    Only a pod that our scheduler places gets one: nobody else's is ours to hold up.
    """
    chosen, gates = pod.spec.scheduler_name, pod.spec.scheduling_gates or []
    ours = chosen in UNCHOSEN or chosen == policy.scheduler
    if not ours or any(each.name == gate for each in gates):
        return ()
    if gates:
        return ({"op": "add", "path": "/spec/schedulingGates/-", "value": {"name": gate}},)
    return ({"op": "add", "path": "/spec/schedulingGates", "value": [{"name": gate}]},)


def _counted(container: wire.Container, ask: Ask, path: str) -> list[Operation]:
    """Operations that make the count of one ask stand in limits and in requests."""
    name = _count_name(ask)
    if not name or container.resources is None:
        return []
    limits, requests = container.resources.limits or {}, container.resources.requests or {}
    if _says(limits, name, ask.count) and (name not in requests or _says(requests, name, ask.count)):
        return []  # Kubernetes copies a limit into an absent request itself
    return [
        _set(f"{path}/{section}", amounts, name, str(ask.count))
        for section, amounts in (("limits", limits), ("requests", requests))
    ]


def _set(path: str, amounts: dict[str, wire.Quantity], name: str, value: str) -> Operation:
    """Write one entry; "add" also replaces one, but needs the mapping around it to exist."""
    if amounts:
        return {"op": "add", "path": f"{path}/{_escaped(name)}", "value": value}
    return {"op": "add", "path": path, "value": {name: value}}


def _says(amounts: dict[str, wire.Quantity], name: str, count: int) -> bool:
    return name in amounts and parse_quantity(amounts[name]) == count


def _count_name(ask: Ask) -> str:
    words = [word for name in ask.words if (word := lookup(name)) is not None]
    if any(word.role is Role.PROFILE for word in words):
        return ""
    return words[0].phrase.count if words else ""


def _escaped(name: str) -> str:
    """A name as one step of a JSON pointer (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")
