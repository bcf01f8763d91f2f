"""What is refused although it could be placed: forged grants, switched-off enforcement, ways around the scheduler."""

from __future__ import annotations

import tomllib
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib import resources

import msgspec
from msgspec import Struct

from terrazzo.model.errors import RequestError
from terrazzo.model.policy import Policy
from terrazzo.model.request import ContainerRequest, PodRequest
from terrazzo.wire import kubernetes as wire

MOST_REQUESTS = 32
"""A ResourceClaim holds no more requests (resource.k8s.io/v1, ``spec.devices.requests``)."""


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
    env: tuple[GuardedEnv, ...]


@lru_cache(maxsize=1)
def _table() -> _Guarded:
    text = (resources.files("terrazzo.admission") / "guarded.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), _Guarded)


def check_annotations(pod: wire.Pod, title: str) -> None:
    """Refuse annotations that only the ledger and its agents write.

    Raises:
        RequestError: the pod has one.
    """
    for key in sorted(pod.metadata.annotations or {}):
        if any(fnmatchcase(key, glob) for glob in _table().annotations):
            raise RequestError(
                "is written by the scheduler alone",
                where=f"pod {title}: metadata.annotations[{key}]",
                remedy="take it out",
            )


def check(pod: wire.Pod, request: PodRequest, policy: Policy) -> None:
    """Refuse what would let a pod that asks for devices take more than it asks for.

    Raises:
        RequestError: with the field and what to do.
    """
    where = f"pod {request.title}: spec"
    if pod.spec.node_name:
        what = f"nodeName is preset to {pod.spec.node_name}, so nobody would choose its devices"
        raise RequestError(what, where=where, remedy="use a nodeSelector for kubernetes.io/hostname instead")
    number = sum(len(container.asks) for container in request.containers)
    if number > MOST_REQUESTS:
        raise RequestError(f"makes {number} requests, the most is {MOST_REQUESTS}", where=where, remedy="split the pod")
    for (path, container), asked in zip(_containers(pod.spec), request.containers, strict=True):
        if asked.asks:
            _check_container(container, asked, request, policy, f"{where}.{path}")


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
        for guarded in _table().env:
            if (shared or not guarded.shared) and guarded.harms(variable):
                raise RequestError(
                    f"{variable.name} {guarded.does}",
                    where=f"{where}.env[{variable.name}]",
                    remedy="take it out, or have the policy set allowDeviceEnv for this namespace",
                )
