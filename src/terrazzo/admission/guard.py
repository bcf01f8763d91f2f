"""What is refused although it could be placed: forged grants, switched-off enforcement, ways around the scheduler."""

from __future__ import annotations

import re
import tomllib
from fnmatch import fnmatchcase, translate
from functools import lru_cache
from importlib import resources

import msgspec
from msgspec import Struct

from terrazzo.admission.served import served_by_vendors
from terrazzo.model.errors import RequestError
from terrazzo.model.policy import Policy
from terrazzo.model.request import ContainerRequest, PodRequest
from terrazzo.wire import kubernetes as wire

MOST_RESULTS = 32
"""Devices that one ResourceClaim can hold (resource.k8s.io/v1, ``status.allocation.devices.results``)."""

UNCHOSEN = ("", "default-scheduler")
"""Kubernetes writes its default before it asks a webhook, so the default tells nothing of what the author wants."""


class GuardedEnv(Struct, frozen=True, forbid_unknown_fields=True):
    """A variable that a container may not set; ``guarded.toml`` explains the fields."""

    name: str
    does: str
    values: tuple[str, ...] = ()
    shared: bool = False

    def harms(self, variable: wire.EnvVar) -> bool:
        """Return whether the variable does what it must not. A value by reference is not known, so it does."""
        if not fnmatchcase(variable.name, self.name):
            return False
        if not self.values or variable.value is None:
            return True
        return any(fnmatchcase(variable.value.strip().casefold(), glob) for glob in self.values)


class _Guarded(Struct, frozen=True, forbid_unknown_fields=True):
    annotations: tuple[str, ...]
    foreign: tuple[str, ...]
    env: tuple[GuardedEnv, ...]


@lru_cache(maxsize=1)
def _table() -> _Guarded:
    text = (resources.files("terrazzo.admission") / "guarded.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), _Guarded)


@lru_cache(maxsize=1)
def _suspects() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Guarded annotations and guarded variables, each as one pattern: a pod of 3 MB has ten thousands of variables."""
    table = _table()
    annotations = "|".join(map(translate, (*table.annotations, *table.foreign)))
    return re.compile(annotations), re.compile("|".join(translate(guarded.name) for guarded in table.env))


def our_annotations() -> tuple[str, ...]:
    """Return the annotations that only our services write."""
    return _table().annotations


def foreign_annotations() -> tuple[str, ...]:
    """Return, as globs, the annotations by which other planes write grants onto pods."""
    return _table().foreign


def check_annotations(pod: wire.Pod, title: str) -> None:
    """Refuse annotations that only the ledger and its agents write.

    Raises:
        RequestError: the pod has one.
    """
    forged = sorted(key for key in pod.metadata.annotations or {} if _suspects()[0].match(key))
    if forged:
        where = f"pod {title}: metadata.annotations[{forged[0]}]"
        raise RequestError("is written by the scheduler alone", where=where, remedy="take it out")


def check(pod: wire.Pod, request: PodRequest, policy: Policy) -> None:
    """Refuse what would let a pod that asks for devices take more than it asks for.

    Raises:
        RequestError: with the field and what to do.
    """
    where = f"pod {request.title}: spec"
    if pod.spec.os is not None and pod.spec.os.name == "windows":
        remedy = "take its device resources out, or write os.name: linux"
        raise RequestError("asks for devices on Windows, where none are shared", where=f"{where}.os", remedy=remedy)
    _check_scheduler(pod, request, policy, where)
    if pod.spec.node_name:
        what = f"nodeName is preset to {pod.spec.node_name}, so nobody would choose its devices"
        raise RequestError(what, where=where, remedy="use a nodeSelector for kubernetes.io/hostname instead")
    number = sum(ask.count for container in request.containers for ask in container.asks)
    if number > MOST_RESULTS:
        raise RequestError(
            f"asks for {number} devices, a claim holds {MOST_RESULTS}", where=where, remedy="split the pod"
        )
    for (path, container), asked in zip(_containers(pod.spec), request.containers, strict=True):
        if asked.asks:
            _check_container(container, asked, request, policy, f"{where}.{path}")


def _check_scheduler(pod: wire.Pod, request: PodRequest, policy: Policy, where: str) -> None:
    """Refuse what another scheduler would start without devices: it knows nothing of what only we account for."""
    chosen = pod.spec.scheduler_name
    if not policy.scheduler or chosen in UNCHOSEN or chosen == policy.scheduler:
        return
    for ask in (ask for container in request.containers for ask in container.asks):
        ours = [name for name in ask.words if not served_by_vendors(name)]
        if ours:
            raise RequestError(
                f"schedulerName {chosen} does not place {ours[0]}",
                where=where,
                remedy=f"leave schedulerName out or write {policy.scheduler}",
            )


def _containers(spec: wire.PodSpec) -> list[tuple[str, wire.Container]]:
    """In the order of ``PodRequest.containers``."""
    inits = [(f"initContainers[{i}]", c) for i, c in enumerate(spec.init_containers or [])]
    return inits + [(f"containers[{i}]", c) for i, c in enumerate(spec.containers or [])]


def _check_container(
    container: wire.Container, asked: ContainerRequest, request: PodRequest, policy: Policy, where: str
) -> None:
    shared = any(not ask.whole for ask in asked.asks)
    if shared and container.security_context is not None and container.security_context.privileged:
        raise RequestError(
            "is privileged and sees every device, so a part of one cannot be enforced",
            where=where,
            remedy="take privileged out, or ask for whole devices",
        )
    if policy.namespace(request.namespace).allow_device_env:
        return
    for variable in container.env or []:
        if not _suspects()[1].match(variable.name):
            continue
        for guarded in _table().env:
            if (shared or not guarded.shared) and guarded.harms(variable):
                raise RequestError(
                    f"{variable.name} {guarded.does}",
                    where=f"{where}.env[{variable.name}]",
                    remedy="take it out, or have the policy set allowDeviceEnv for this namespace",
                )
