"""What Kubernetes itself checks: host CPU and memory, other extended resources, node selectors, tolerations.

Sources: Kubernetes documentation, "Resource Management for Pods and Containers", "Init Containers" (resource sharing),
"Sidecar Containers", "Pod Overhead", "Assigning Pods to Nodes", "Taints and Tolerations".
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from terrazzo.dialects.amounts import exact
from terrazzo.dialects.names import is_device_name
from terrazzo.dialects.notes import Notes
from terrazzo.model.quantity import bytes_to_mib
from terrazzo.model.request import ContainerKind, LabelTest, NodeRules, Preference, Toleration
from terrazzo.wire import kubernetes as wire

_MOST = 1 << 50
"""Amounts beyond this are as good as infinite, and columns of 64 bits still hold sums of them."""


def kind_of(container: wire.Container, *, init: bool) -> ContainerKind:
    """Return when a container runs."""
    if not init:
        return ContainerKind.APP
    return ContainerKind.SIDECAR if container.restart_policy == "Always" else ContainerKind.INIT


def effective(inits: list[tuple[ContainerKind, int]], apps: list[int]) -> int:
    """Return what a pod needs of a resource, as Kubernetes counts it.

    Args:
        inits: init containers and sidecars in their order, each with its amount.
        apps: app containers.
    """
    sidecars = peak = 0
    for kind, amount in inits:
        if kind is ContainerKind.SIDECAR:
            sidecars += amount
        peak = max(peak, sidecars if kind is ContainerKind.SIDECAR else sidecars + amount)
    return max(peak, sum(apps) + sidecars)


def host_needs(spec: wire.PodSpec, notes: Notes) -> tuple[int, int, dict[str, int]]:
    """Return host CPU in thousandths, host memory in MiB, and other extended resources by name.

    Raises:
        RequestError: a quantity that cannot be read, or is negative.
    """
    cpu = _needed(spec, "cpu", _milli, notes)
    memory = _needed(spec, "memory", _bytes, notes)
    overhead = spec.overhead or {}
    over = notes.at("spec.overhead")
    if "cpu" in overhead:
        cpu += _milli(overhead["cpu"], over.at("[cpu]"))
    if "memory" in overhead:
        memory += _bytes(overhead["memory"], over.at("[memory]"))
    other = {name: _needed(spec, name, _count, notes) for name in sorted(_other_names(spec))}
    return min(cpu, _MOST), min(bytes_to_mib(memory), _MOST), {name: n for name, n in other.items() if n}


def _other_names(spec: wire.PodSpec) -> set[str]:
    """Extended resources have a domain that is not Kubernetes' own."""
    names = {
        name
        for container in [*(spec.init_containers or []), *(spec.containers or [])]
        if container.resources is not None
        for amounts in (container.resources.limits, container.resources.requests)
        for name in amounts or {}
    }
    return {name for name in names if "/" in name and ".kubernetes.io/" not in f".{name}" and not is_device_name(name)}


def _needed(spec: wire.PodSpec, name: str, read: Callable[[str | float, Notes], int], notes: Notes) -> int:
    inits = [
        (kind_of(container, init=True), _asked(container, name, read, notes.at(f"spec.initContainers[{i}]")))
        for i, container in enumerate(spec.init_containers or [])
    ]
    apps = [
        _asked(container, name, read, notes.at(f"spec.containers[{i}]"))
        for i, container in enumerate(spec.containers or [])
    ]
    return effective(inits, apps)


def _asked(container: wire.Container, name: str, read: Callable[[str | float, Notes], int], notes: Notes) -> int:
    """A container's request; a limit without a request is a request."""
    if container.resources is None:
        return 0
    for section in ("requests", "limits"):
        amounts = getattr(container.resources, section) or {}
        if name in amounts:
            return read(amounts[name], notes.at(f"resources.{section}[{name}]"))
    return 0


def _milli(value: str | float, notes: Notes) -> int:
    return -int(-(exact(value, notes) * 1000) // 1)


def _bytes(value: str | float, notes: Notes) -> int:
    return -int(-exact(value, notes) // 1)


def _count(value: str | float, notes: Notes) -> int:
    return min(-int(-exact(value, notes) // 1), _MOST)


def node_rules(spec: wire.PodSpec) -> NodeRules:
    """Return the node selector, node affinity and tolerations of a pod."""
    terms: tuple[tuple[LabelTest, ...], ...] = ()
    preferences: tuple[Preference, ...] = ()
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if affinity is not None and affinity.required is not None:
        # A required affinity without terms matches no node; one term without tests says so.
        terms = tuple(_tests(term) for term in affinity.required.node_selector_terms or []) or ((),)
    if affinity is not None:
        preferences = tuple(
            Preference(term.weight, _tests(term.preference))
            for term in affinity.preferred or []
            if term.preference is not None
        )
    return NodeRules(
        node_name=spec.node_name,
        selector=dict(spec.node_selector or {}),
        terms=terms,
        preferences=preferences,
        tolerations=tuple(Toleration(t.key, t.operator or "Equal", t.value, t.effect) for t in spec.tolerations or []),
    )


def _tests(term: wire.NodeSelectorTerm) -> tuple[LabelTest, ...]:
    rows = [*(term.match_expressions or []), *(term.match_fields or [])]
    return tuple(LabelTest(row.key, row.operator, tuple(row.values or ())) for row in rows)


def created_s(timestamp: str | None) -> int:
    """Return an RFC 3339 time in seconds since the epoch; 0 when there is none or it cannot be read."""
    if not timestamp:
        return 0
    try:
        moment = datetime.fromisoformat(timestamp)
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        return 0


def owner_of(meta: wire.ObjectMeta) -> str:
    """Return ``Kind/name`` of the controlling owner, or an empty string."""
    for owner in meta.owner_references or []:
        if owner.controller:
            return f"{owner.kind}/{owner.name}"
    return ""
