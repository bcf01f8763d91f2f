"""Pods as the control service keeps them: the request, and where the pod stands on its way to a node."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from terrazzo.model.request import PodRequest
from terrazzo.wire import kubernetes as k8s

GATE = "terrazzo.io/devices"
"""Scheduling gate of a pod that fits nowhere now, in a crowd."""


class Standing(StrEnum):
    """Where a pod stands."""

    QUEUED = "queued"
    """Nobody has looked at it yet."""
    REJECTED = "rejected"
    """A scheduler looked and found no node."""
    GATED = "gated"
    """Only our gate keeps it from being looked at."""
    HELD = "held"
    """Somebody else's gate keeps it."""
    BOUND = "bound"


class PodRow(Struct, frozen=True):
    """A pod that asks for devices, as it was last seen.

    Attributes:
        request: as normalised, vendors not decided yet.
        version: resourceVersion.
        node: where it is bound, empty before.
        standing: see ``Standing``.
        scheduler: ``spec.schedulerName``.
        nominated: ``status.nominatedNodeName``.
        soft: preferences that only Kubernetes' own scores know: all feasible nodes must be shown to it.
        preempts: it may have others evicted.
        claim: claim of its extended resources, empty when none.
        message: of its PodScheduled condition.
        leaving: it is being deleted.
    """

    request: PodRequest
    version: int
    node: str = ""
    standing: Standing = Standing.QUEUED
    scheduler: str = ""
    nominated: str = ""
    soft: bool = False
    preempts: bool = True
    claim: str = ""
    message: str = ""
    leaving: bool = False

    @property
    def uid(self) -> str:
        """UID of the pod."""
        return self.request.key

    @property
    def waits(self) -> bool:
        """Whether a scheduler, or our gate, keeps it waiting for what it asked for."""
        return self.standing in {Standing.REJECTED, Standing.GATED} and not self.leaving


def row_of(pod: k8s.Pod, request: PodRequest) -> PodRow:
    """Return the row of a pod."""
    claim = pod.status.extended_resource_claim_status
    scheduled = next((c for c in pod.status.conditions or () if c.type == "PodScheduled"), None)
    return PodRow(
        request=request,
        version=version_of(pod.metadata),
        node=pod.spec.node_name,
        standing=_standing(pod, scheduled),
        scheduler=pod.spec.scheduler_name,
        nominated=pod.status.nominated_node_name,
        soft=is_soft(pod.spec),
        preempts=pod.spec.preemption_policy != "Never",
        claim=claim.resource_claim_name if claim is not None else "",
        message=scheduled.message if scheduled is not None else "",
        leaving=pod.metadata.deletion_timestamp is not None,
    )


def _standing(pod: k8s.Pod, scheduled: k8s.Condition | None) -> Standing:
    if pod.spec.node_name:
        return Standing.BOUND
    gates = {gate.name for gate in pod.spec.scheduling_gates or ()}
    if gates:
        return Standing.GATED if gates == {GATE} else Standing.HELD
    rejected = scheduled is not None and scheduled.status == "False"
    return Standing.REJECTED if rejected else Standing.QUEUED


def is_soft(spec: k8s.PodSpec) -> bool:
    """Return whether a pod has preferences that Kubernetes' own scores weigh."""
    affinity = spec.affinity or k8s.Affinity()
    preferred = (
        affinity.node_affinity.preferred if affinity.node_affinity else None,
        affinity.pod_affinity.preferred if affinity.pod_affinity else None,
        affinity.pod_anti_affinity.preferred if affinity.pod_anti_affinity else None,
    )
    spread = any(each.when_unsatisfiable == "ScheduleAnyway" for each in spec.topology_spread_constraints or ())
    return spread or any(preferred)


def version_of(meta: k8s.ObjectMeta) -> int:
    """Return a resourceVersion as a number (KEP-5504: comparable since 1.35, and etcd's revision before)."""
    return int(meta.resource_version) if meta.resource_version.isdecimal() else 0
