"""The decision of admission: what the pod asks for, what to change in it, what to tell its author, or why not."""

from __future__ import annotations

from msgspec import Struct

from terrazzo.admission import guard, vendors
from terrazzo.admission.patch import Operation, patch_for
from terrazzo.admission.summary import FleetSummary, shortfalls
from terrazzo.dialects.normalise import normalise
from terrazzo.model.errors import RequestError
from terrazzo.model.policy import Policy
from terrazzo.model.request import PodRequest
from terrazzo.wire import kubernetes as wire

MIRROR = "kubernetes.io/config.mirror"
"""Annotation of a pod that stands for one that a node runs from a file (Kubernetes, "Create static Pods")."""
STATIC = "a static pod gets no device, its node starts it without asking anybody"


class Admitted(Struct, frozen=True):
    """The pod may be created.

    Attributes:
        request: what it asks for, vendors decided as far as anybody says.
        warnings: sentences for its author.
        patch: JSON patch operations; empty when nothing changes.
    """

    request: PodRequest
    warnings: tuple[str, ...] = ()
    patch: tuple[Operation, ...] = ()


class Refused(Struct, frozen=True):
    """The pod may not be created; the sentence says why and what to write."""

    sentence: str


def decide(pod: wire.Pod, policy: Policy, fleet: FleetSummary, *, user_is_system: bool = False) -> Admitted | Refused:
    """Decide about a pod that is about to be created.

    Args:
        pod: as the API server sends it.
        policy: the cluster's.
        fleet: what the cluster has.
        user_is_system: one of our own components makes the pod and may write our annotations.
    """
    meta = pod.metadata
    try:
        if not user_is_system:
            guard.check_annotations(
                pod, f"{meta.namespace or 'default'}/{meta.name or meta.generate_name or 'unnamed'}"
            )
        return _admitted(pod, policy, fleet)
    except RequestError as error:
        return Refused(str(error))


def _admitted(pod: wire.Pod, policy: Policy, fleet: FleetSummary) -> Admitted:
    request, told = normalise(pod)
    if not request.asks_devices:
        return Admitted(request, told)
    if MIRROR in (pod.metadata.annotations or {}):
        # The node reports what it runs already. Refused, it would only be hidden, with the CPU and memory that it uses.
        return Admitted(request, (f"pod {request.title}: {STATIC}.",))
    guard.check(pod, request, policy)
    request = vendors.resolve(request, policy, fleet.vendors)
    place = f"pod {request.title}"
    warnings = [*told, *(f"{place}: {clause}." for clause in shortfalls(request, fleet))]
    for container in vendors.undecided(request, fleet.vendors):
        present = " and ".join(fleet.vendors)
        warnings.append(
            f"{place}: container {container.name} waits, nobody says whether its image runs on {present}; "
            f"{vendors.REMEDY}."
        )
    return Admitted(request, tuple(warnings), patch_for(pod, request, policy))
