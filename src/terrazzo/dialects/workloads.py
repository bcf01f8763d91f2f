"""From objects as people write them to the pods they would make.

Kinds of Kubernetes are expanded by their own rules. In kinds nobody here knows (Ray, Kubeflow, Volcano, …) every pod
template is found wherever it lies, with the number of replicas written beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from terrazzo.model.errors import InputError
from terrazzo.wire.convert import convert
from terrazzo.wire.kubernetes import Pod

Object = dict[str, Any]

MOST = 100_000
"""Pods that one object may make; more is a slip of the pen."""
_DEEP = 64
_WORKLOADS = frozenset({
    "Pod", "PodTemplate", "CronJob", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet",
    "ReplicationController", "Job",
})  # fmt: skip
_LEADERS_AND_WORKERS = "leaderWorkerTemplate"
_GROUP_SIZE = "numOfHosts"
_TITLES = re.compile(r"(?:(?:Group|Replica|Pod)?(?:Spec|Template)s?)$|^(?:spec|template)$")
"""Endings of field names that say nothing of who the pods are: headGroupSpec, pytorchReplicaSpecs, leaderTemplate."""


class Made(NamedTuple):
    """A pod that an object makes.

    Attributes:
        pod: the pod.
        per_node: one on every eligible node (DaemonSet): the pod stands for all of them.
    """

    pod: Pod
    per_node: bool = False


def pods_of(thing: Object, where: str) -> list[Made]:
    """Return the pods that ``thing`` makes; none for objects that make none.

    Args:
        thing: a decoded object.
        where: where it was read, for messages.

    Raises:
        InputError: the object is a workload but damaged.
    """
    kind = thing.get("kind")
    meta = thing.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    name = str(meta.get("name") or meta.get("generateName") or "unnamed")
    namespace = str(meta.get("namespace") or "default")
    title = f"{where}: {kind or 'object'} {namespace}/{name}"
    spec = thing.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    match kind:
        case "Pod":
            return [Made(_pod(thing, title))]
        case "PodTemplate":
            return [Made(_from_template(thing.get("template"), name, namespace, title, f"PodTemplate/{name}"))]
        case "CronJob":
            job = spec.get("jobTemplate")
            job = job if isinstance(job, dict) else {}
            return pods_of({"kind": "Job", "metadata": meta, "spec": job.get("spec")}, where)
        case "DaemonSet":
            pod = _from_template(spec.get("template"), name, namespace, title, f"DaemonSet/{name}")
            return [Made(pod, per_node=True)]
        case "Deployment" | "ReplicaSet" | "StatefulSet" | "ReplicationController" | "Job":
            count = (
                _job_count(spec, title) if kind == "Job" else _count(spec.get("replicas"), f"{title}: spec.replicas")
            )
            return _copies(spec.get("template"), name, namespace, count, title, f"{kind}/{name}")
    return list(_found(thing, name, namespace, title, f"{kind}/{name}"))


def is_workload(thing: Object) -> bool:
    """Return whether ``thing`` is a workload, although it may make no pod now (``replicas: 0``)."""
    return thing.get("kind") in _WORKLOADS or next(_templates(_body(thing), (), 1, ""), None) is not None


def _body(thing: Object) -> Object:
    return {"spec": thing.get("spec")}


def _count(value: Any, where: str) -> int:
    if value is None:
        return 1
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST:
        raise InputError(f"{value!r} is not a number of pods", where=where, remedy=f"write a whole number up to {MOST}")
    return value


def _job_count(spec: Object, where: str) -> int:
    parallel = _count(spec.get("parallelism"), f"{where}: spec.parallelism")
    completions = spec.get("completions")
    return parallel if completions is None else min(parallel, _count(completions, f"{where}: spec.completions"))


def _copies(template: Any, name: str, namespace: str, count: int, where: str, owner: str) -> list[Made]:
    if count == 0:
        return []
    made = _from_template(template, name, namespace, where, owner)
    return [Made(msgspec.structs.replace(made, metadata=_renamed(made, f"{name}-{i}"))) for i in range(count)]


def _renamed(pod: Pod, name: str) -> Any:
    return msgspec.structs.replace(pod.metadata, name=name)


def _from_template(template: Any, name: str, namespace: str, where: str, owner: str) -> Pod:
    if not isinstance(template, dict):
        raise InputError("has no pod template", where=where, remedy="write spec.template")
    kind, _, owner_name = owner.partition("/")
    meta = template.get("metadata")
    meta = dict(meta) if isinstance(meta, dict) else {}
    meta.update(name=name, namespace=namespace)
    meta["ownerReferences"] = [{"kind": kind, "name": owner_name, "controller": True}]
    return _pod({"metadata": meta, "spec": template.get("spec")}, where)


def _pod(thing: Object, where: str) -> Pod:
    if not isinstance(thing.get("spec"), dict) or not thing["spec"].get("containers"):
        raise InputError("has no containers", where=where, remedy="write spec.containers")
    shape = {key: value for key, value in thing.items() if key in {"metadata", "spec", "status"} and value is not None}
    return convert(shape, Pod, where)


def _found(thing: Object, name: str, namespace: str, where: str, owner: str) -> Iterator[Made]:
    """Yield the pods of every template inside an object of a kind nobody here knows."""
    total = 0
    for path, template, count in _templates(_body(thing), (), 1, where):
        full = "-".join([name, *(word.casefold() for word in path)])
        total += count
        if total > MOST:
            raise InputError(f"makes more than {MOST} pods", where=where, remedy="write fewer replicas")
        if not count:
            continue
        pod = _from_template(template, full, namespace, where, owner)
        for i in range(count):
            label = f"{full}-{i}" if count > 1 else full
            yield Made(msgspec.structs.replace(pod, metadata=_renamed(pod, label)))


def _templates(
    part: Any, path: tuple[str, ...], count: int, where: str
) -> Iterator[tuple[tuple[str, ...], Object, int]]:
    """Yield every pod template with the words that tell it from its neighbours and the number of its pods."""
    if len(path) > _DEEP:
        raise InputError("is nested too deeply", where=where)
    if not isinstance(part, dict):
        return
    if _is_template(part):
        yield path, part, count
        return
    here = count * _multiplicity(part, where)
    for key in sorted(part):
        value = part[key]
        if isinstance(value, list):
            for index, each in enumerate(value):
                named = (each.get("name") or each.get("groupName")) if isinstance(each, dict) else None
                yield from _templates(each, (*path, str(named or f"{key}-{index}")), here, where)
        elif isinstance(value, dict):
            yield from _templates(value, _words(path, key), here * _members(part, key, where), where)


def _words(path: tuple[str, ...], key: str) -> tuple[str, ...]:
    word = _TITLES.sub("", key)
    # leaderWorkerTemplate, pytorchReplicaSpecs and their like hold the parts, whose own names follow.
    holds_parts = key.endswith("Specs") or key == _LEADERS_AND_WORKERS
    return path if not word or holds_parts else (*path, word)


def _multiplicity(part: Object, where: str) -> int:
    """Return how many pods each template below ``part`` makes, by the counts that stand beside it."""
    times = 1
    stated = next((key for key in ("replicas", "minReplicas") if part.get(key) is not None), None)
    if stated is not None:
        times *= _count(part[stated], f"{where}: {stated}")
    if part.get("parallelism") is not None:
        times *= _job_count(part, where)
    return times * _count(part.get(_GROUP_SIZE), f"{where}: {_GROUP_SIZE}")


def _members(part: Object, key: str, where: str) -> int:
    """Return how many pods of one group come from this template: a group of ``size`` has one leader."""
    if key not in {"leaderTemplate", "workerTemplate"} or part.get("size") is None:
        return 1
    size = _count(part["size"], f"{where}: size")
    if key == "leaderTemplate":
        return min(size, 1)
    return max(0, size - 1) if isinstance(part.get("leaderTemplate"), dict) else size


def _is_template(part: Object) -> bool:
    spec = part.get("spec")
    containers = spec.get("containers") if isinstance(spec, dict) else None
    return isinstance(containers, list) and bool(containers) and all(isinstance(c, dict) for c in containers)
