"""The ``dra`` ledger's objects: a ResourceClaim that says what a pod was granted, and how its containers refer to it.

Pure. Shapes: Kubernetes API reference, ``resource.k8s.io/v1`` ResourceClaim; KEP-5004 (extended resources by DRA) for
the pod's ``extendedResourceClaimStatus``; KEP-5075 for consumed capacity and share ids. Kubelet asks the driver for the
claim that the pod's status names; nothing else looks at it.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from terrazzo.dialects.readers.slices import CLASS, DRIVER
from terrazzo.model.allocation import Allocation, DeviceGrant
from terrazzo.model.errors import LedgerError
from terrazzo.model.request import PodRequest

EXTENDED = "resource.kubernetes.io/extended-resource-claim"
"""Annotation of a claim that stands for extended resources."""
PROTECTED = "resource.kubernetes.io/delete-protection"
OURS = "app.kubernetes.io/managed-by"
MANAGER = "terrazzo"
MOST_RESULTS = 32

DeviceNames = Mapping[str, tuple[str, str]]
"""Per UUID: pool and name of the device in its node's ResourceSlices."""


class Slot(Struct, frozen=True):
    """One request of a claim: all devices of one container."""

    request: str
    container: str
    words: tuple[str, ...]
    grants: tuple[DeviceGrant, ...]


def claim_name(pod: str, uid: str, attempt: str) -> str:
    """Return the name of a claim: readable, and new for each attempt, so that rivals never touch each other's."""
    mark = hashlib.sha256(f"{uid}/{attempt}".encode()).hexdigest()[:10]
    return f"{pod[:200].rstrip('-.')}-{mark}"


def slots(request: PodRequest, allocation: Allocation) -> tuple[Slot, ...]:
    """Return the requests of the claim, container by container in the pod's order.

    Raises:
        LedgerError: more devices than a claim holds.
    """
    granted = {held.container: held.devices for held in allocation.containers}
    found = []
    for index, container in enumerate(request.containers):
        words = tuple(dict.fromkeys(word for ask in container.asks for word in ask.words))
        if granted.get(container.name):
            found.append(Slot(f"container-{index}-request-0", container.name, words, granted[container.name]))
    number = sum(len(slot.grants) for slot in found)
    if number > MOST_RESULTS:
        raise LedgerError(f"needs {number} devices, a claim holds {MOST_RESULTS}", where=f"pod {request.title}")
    return tuple(found)


def claim(name: str, request: PodRequest, allocation: Allocation, written: str, note: str) -> dict[str, Any]:
    """Return the claim to create.

    Args:
        name: see ``claim_name``.
        request: of the pod.
        allocation: what it was granted.
        written: text of the pod's allocation annotation, kept on the claim for whoever reads it.
        note: the grant in words, for ``kubectl get``.
    """
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": name,
            "namespace": request.namespace,
            "annotations": {EXTENDED: "true", "terrazzo.io/allocation": written, "terrazzo.io/granted": note},
            "labels": {OURS: MANAGER},
            "finalizers": [PROTECTED],
            "ownerReferences": [
                {
                    "apiVersion": "v1", "kind": "Pod", "name": request.name, "uid": request.key,
                    "controller": True, "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {"devices": {"requests": [_request(slot) for slot in slots(request, allocation)]}},
    }  # fmt: skip


def _request(slot: Slot) -> dict[str, Any]:
    exactly = {"deviceClassName": CLASS, "allocationMode": "ExactCount", "count": len(slot.grants)}
    least = min(slot.grants, key=lambda grant: (grant.memory_mib, grant.units))
    return {"name": slot.request, "exactly": {**exactly, "capacity": {"requests": _capacity(least)}}}


def _capacity(grant: DeviceGrant) -> dict[str, str]:
    return {"memory": f"{grant.memory_mib}Mi", "cores": str(grant.units)}


def status(request: PodRequest, allocation: Allocation, names: DeviceNames) -> dict[str, Any]:
    """Return the status that allocates the claim to the pod.

    Raises:
        LedgerError: a device is not in the node's ResourceSlices.
    """
    return {
        "allocation": {
            "devices": {
                "results": [
                    _result(request, allocation, slot.request, grant, names)
                    for slot in slots(request, allocation)
                    for grant in slot.grants
                ]
            },
            # Exactly this selector lets the node's agent write the status of the devices.
            "nodeSelector": {
                "nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [allocation.node]}]}
                ]
            },
        },
        "reservedFor": [{"resource": "pods", "name": request.name, "uid": request.key}],
    }


def _result(
    request: PodRequest, allocation: Allocation, name: str, grant: DeviceGrant, names: DeviceNames
) -> dict[str, Any]:
    if grant.uuid not in names:
        what = f"device {grant.uuid} is not in the ResourceSlices of {allocation.node}"
        raise LedgerError(what, where=f"pod {request.title}")
    pool, device = names[grant.uuid]
    return {
        "request": name,
        "driver": DRIVER,
        "pool": pool,
        "device": device,
        "shareID": str(uuid.uuid5(uuid.NAMESPACE_OID, f"{request.key}/{name}/{grant.uuid}")),
        "consumedCapacity": _capacity(grant),
    }


def pod_status(name: str, request: PodRequest, allocation: Allocation) -> dict[str, Any]:
    """Return what the pod's status says of the claim: each resource name of a container, to each of its requests."""
    mappings = [
        {"containerName": slot.container, "resourceName": word, "requestName": slot.request}
        for slot in slots(request, allocation)
        for word in slot.words
    ]
    return {"extendedResourceClaimStatus": {"resourceClaimName": name, "requestMappings": mappings}}
