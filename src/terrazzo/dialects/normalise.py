"""The one normaliser: a pod, in whatever dialect, becomes a request. Nobody else reads limits.

Admission, planning, scheduling, the agent and quota all call ``normalise``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from terrazzo.dialects import hostrules, names, selectors
from terrazzo.dialects.amounts import exact
from terrazzo.dialects.asks import Asked, Spoken, asks_of
from terrazzo.dialects.notes import Notes
from terrazzo.model.request import ContainerRequest, PodRequest
from terrazzo.wire import kubernetes as wire


class Normalised(NamedTuple):
    """A pod's request, and what its author should know about how it was read."""

    request: PodRequest
    warnings: tuple[str, ...]


def normalise(pod: wire.Pod, *, where: str = "") -> Normalised:
    """Return what a pod asks for, in any dialect.

    Args:
        pod: the pod, or the pod that a template would make.
        where: where it was read, such as ``pods.yaml:12``; precedes the object in every message.

    Raises:
        RequestError: the pod asks for what can never be valid, whatever the cluster.
    """
    meta, spec = pod.metadata, pod.spec
    namespace = meta.namespace or "default"
    name = meta.name or meta.generate_name or "unnamed"
    thing = f"pod {namespace}/{name}"
    notes = Notes(f"{where}: {thing}" if where else thing, "", [])
    annotations = meta.annotations or {}
    read = [_container(*row, annotations, notes) for row in _containers(spec)]
    containers = tuple(container for container, _ in read)
    asks = [ask for container in containers for ask in container.asks]
    chosen = selectors.Selectors()
    if asks:
        vendors = frozenset(vendor for ask in asks for vendor in ask.vendors or ("",))
        chosen = selectors.read(annotations, vendors, notes)
    alone = [asked.exclusive for _, asked in read if asked.asks]
    if any(alone) and not (all(alone) and len(asks) == len(alone)) and not chosen.exclusive:
        notes.warn("one container asks for all of a device's compute, so none of the pod's devices is shared")
    cpu_milli, memory_mib, other = hostrules.host_needs(spec, notes)
    request = PodRequest(
        namespace=namespace,
        name=name,
        uid=meta.uid,
        labels=dict(meta.labels or {}),
        containers=containers,
        vendor=chosen.vendor,
        model=chosen.model,
        device=chosen.device,
        strategy=chosen.strategy,
        isolation=chosen.isolation,
        compute=chosen.compute,
        exclusive=chosen.exclusive or any(alone),
        numa_bind=chosen.numa_bind,
        priority=spec.priority or 0,
        cpu_milli=cpu_milli,
        memory_mib=memory_mib,
        other=other,
        rules=hostrules.node_rules(spec),
        phase=pod.status.phase,
        created_s=hostrules.created_s(meta.creation_timestamp),
        owner=hostrules.owner_of(meta),
    )
    return Normalised(request, tuple(notes.warnings))


def _containers(spec: wire.PodSpec) -> list[tuple[wire.Container, bool, str]]:
    """Init containers first, in the order Kubernetes starts them, each with its path."""
    inits = [(c, True, f"spec.initContainers[{i}]") for i, c in enumerate(spec.init_containers or [])]
    return [*inits, *((c, False, f"spec.containers[{i}]") for i, c in enumerate(spec.containers or []))]


def _container(
    container: wire.Container, init: bool, path: str, annotations: Mapping[str, str], notes: Notes
) -> tuple[ContainerRequest, Asked]:
    place = notes.at(f"{path}.resources")
    spoken = _spoken(container.resources, place) if container.resources is not None else []
    asked = asks_of(spoken, annotations, place)
    kind = hostrules.kind_of(container, init=init)
    return ContainerRequest(container.name, kind, asked.asks, container.image), asked


def _spoken(resources: wire.Resources, place: Notes) -> list[Spoken]:
    limits, requests = resources.limits or {}, resources.requests or {}
    spoken = []
    for name in {**limits, **requests}:
        section = "limits" if name in limits else "requests"
        at = place.at(f"{section}[{name}]")
        word = names.lookup(name)
        if word is None:
            _stranger(name, at)
            continue
        value = limits[name] if name in limits else requests[name]
        if name in limits and name in requests:
            if exact(requests[name], place.at(f"requests[{name}]")) != exact(value, at):
                raise at.refusal(
                    f"the limit {value} and the request {requests[name]} differ", "leave the line under requests out"
                )
        elif name not in limits:
            at.warn("stands under requests alone, which Kubernetes refuses", "write it under limits")
        spoken.append(Spoken(word, value, at))
    return spoken


def _stranger(name: str, at: Notes) -> None:
    """A name that no table has: an error among ours, worth a word where it is close to one that exists."""
    near = names.nearest(name) if "/" in name else ""
    if name.startswith(names.OURS):
        known = ", ".join(names.our_names())
        raise at.refusal(f"{name} does not exist", f"write {near}" if near else f"the names are {known}")
    reason = names.untranslated(name)
    if reason:
        at.warn(f"{name} {reason}, so it is left to Kubernetes")
    elif near:
        at.warn(
            f"{name} is not a name that Terrazzo knows and is left to Kubernetes", f"write {near} if you meant that"
        )
