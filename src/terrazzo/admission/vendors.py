"""Which vendors a neutral request may land on: a CUDA image is no use on an NPU, so somebody has to say.

In this order: a rule about the container's image, the pod's own ``terrazzo.io/vendor``, the namespace's default, the
cluster's default, the only vendor there is. What the pod excludes is taken out of each. When nobody says, the ask
keeps no vendor and the pod waits.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from terrazzo.dialects import names
from terrazzo.model.errors import RequestError
from terrazzo.model.policy import Policy
from terrazzo.model.request import Ask, ContainerRequest, PodRequest

REMEDY = "write the pod annotation terrazzo.io/vendor, or an image rule in the policy"


def resolve(request: PodRequest, policy: Policy, present_vendors: Collection[str]) -> PodRequest:
    """Return the request with the vendors of its neutral asks decided, as far as anybody says.

    Args:
        request: as normalised.
        policy: the cluster's.
        present_vendors: vendors that have devices in the cluster.

    Raises:
        RequestError: the pod excludes every vendor that the rule about its image allows.
    """
    if all(ask.vendors for container in request.containers for ask in container.asks):
        return request
    containers = tuple(_decided(container, request, policy, present_vendors) for container in request.containers)
    return msgspec.structs.replace(request, containers=containers)


def undecided(request: PodRequest, present_vendors: Collection[str]) -> tuple[ContainerRequest, ...]:
    """Return the containers of a resolved request whose vendor nobody decides, so that the pod waits.

    Where the cluster has devices of one vendor or none, nothing needs deciding.
    """
    if len(set(present_vendors)) < 2:
        return ()
    return tuple(c for c in request.containers if any(not ask.vendors for ask in c.asks))


def _decided(
    container: ContainerRequest, request: PodRequest, policy: Policy, present: Collection[str]
) -> ContainerRequest:
    if all(ask.vendors for ask in container.asks):
        return container
    vendors = _allowed(container, request, policy, present)
    asks = tuple(ask if ask.vendors else _with(ask, vendors) for ask in container.asks)
    return msgspec.structs.replace(container, asks=asks)


def _with(ask: Ask, vendors: tuple[str, ...]) -> Ask:
    return msgspec.structs.replace(ask, vendors=vendors)


def _allowed(
    container: ContainerRequest, request: PodRequest, policy: Policy, present: Collection[str]
) -> tuple[str, ...]:
    rule = policy.image_rule(container.image)
    if rule is not None:
        allowed = _passing(request, rule.vendors)
        if not allowed:
            raise RequestError(
                f"the policy runs image {container.image} on {' and '.join(rule.vendors)}, "
                "and terrazzo.io/vendor leaves none of them",
                where=f"pod {request.title}: container {container.name}",
                remedy="change the annotation or the image",
            )
        return allowed
    if request.vendor.include:
        return _passing(request, names.vendors())
    for default in (policy.namespace(request.namespace).vendors, policy.vendors):
        if default:
            return _passing(request, default)
    only = _passing(request, sorted(set(present)))
    return only if len(only) == 1 else ()


def _passing(request: PodRequest, vendors: Collection[str]) -> tuple[str, ...]:
    return tuple(vendor for vendor in vendors if request.vendor.matches(vendor))
