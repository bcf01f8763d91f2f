"""The plan: pods placed one after the other on the fleet, as kube-scheduler would have them come."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from terrazzo.admission.vendors import REMEDY
from terrazzo.cli.cluster import Cluster
from terrazzo.cli.manifests import Manifests, Wanted
from terrazzo.model.allocation import Allocation, DeviceGrant
from terrazzo.model.device import Device
from terrazzo.model.reason import Reason
from terrazzo.model.request import PodRequest
from terrazzo.placement import sentences


class Placed(NamedTuple):
    """A pod that found a place.

    Attributes:
        request: what it asks for.
        allocation: what it gets.
        left: what each of its devices had left just afterwards, by UUID: MiB and units.
    """

    request: PodRequest
    allocation: Allocation
    left: dict[str, tuple[int, int]]


class Unplaced(NamedTuple):
    """A pod that found none.

    Attributes:
        request: what it asks for.
        why: one line.
        remedy: the nearest change that would help now; empty when none is known.
        reasons: why not, with the number of nodes each.
    """

    request: PodRequest
    why: str
    remedy: str
    reasons: tuple[tuple[Reason, int], ...] = ()


@dataclass(slots=True)
class Plan:
    """The outcome.

    Attributes:
        cluster: with everything placed that could be.
        placed, unplaced: in the order of placing.
        left_alone: pods that ask for no device.
        running: titles of pods that run already.
        ended: pods that have run.
        waiting: titles of pods that wait in the dump and are not in the plan.
        others: objects that make no pod, by kind.
        warnings: what admission would tell the authors.
    """

    cluster: Cluster
    placed: list[Placed] = field(default_factory=list)
    unplaced: list[Unplaced] = field(default_factory=list)
    left_alone: int = 0
    running: list[str] = field(default_factory=list)
    ended: int = 0
    waiting: list[str] = field(default_factory=list)
    others: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def devices(self) -> dict[tuple[str, str], Device]:
        """Return the devices of the cluster by node and UUID."""
        return {(node.name, device.uuid): device for node in self.cluster.fleet.nodes() for device in node.devices}


def make(cluster: Cluster, manifests: Manifests) -> Plan:
    """Return the plan: by priority, then age, then the order given. The cluster's fleet takes what is placed."""
    plan = Plan(cluster, running=list(manifests.running), ended=manifests.ended, others=dict(manifests.others))
    held = {request.title for request in cluster.requests.values()}
    given = {wanted.request.title for wanted in manifests.wanted}
    plan.waiting = [request.title for request in cluster.waiting if request.title not in given]
    refused: list[PodRequest] = []
    for wanted in sorted(manifests.wanted, key=lambda each: (-each.request.priority, each.request.created_s)):
        if not wanted.request.asks_devices:
            plan.left_alone += 1
            _warn(plan, wanted.warnings)
        elif wanted.request.title in held:
            plan.running.append(wanted.request.title)
        elif not _place(plan, wanted):
            refused.append(wanted.request)
    plan.unplaced = _explained(cluster, refused)
    return plan


def _warn(plan: Plan, warnings: Iterable[str]) -> None:
    plan.warnings += (each for each in warnings if each not in plan.warnings)


def _place(plan: Plan, wanted: Wanted) -> bool:
    cluster, request = plan.cluster, wanted.request
    undecided = cluster.undecided(request)
    # Of the vendor the plan itself says what is to be written, with the pod.
    _warn(plan, (each for each in wanted.warnings if not (undecided and each.endswith(f"{REMEDY}."))))
    cluster.engine.learn(request)
    allocation = None if undecided else cluster.engine.decide(request)
    if allocation is None:
        return False
    cluster.fleet.grant(allocation)
    left = {view.device.uuid: (view.free_mib, view.free_units) for view in cluster.fleet.devices(allocation.node)}
    plan.placed.append(Placed(request, allocation, left))
    return True


def _explained(cluster: Cluster, refused: Iterable[PodRequest]) -> list[Unplaced]:
    """Say why, once all others have their place: what is said to help must help then. Equal asks fare alike."""
    known: dict[bytes, Unplaced] = {}
    told = []
    for request in refused:
        alike = msgspec.json.encode(msgspec.structs.replace(request, name="", uid="", created_s=0), order="sorted")
        if alike not in known:
            known[alike] = _why(cluster, request)
        told.append(known[alike]._replace(request=request))
    return told


def _why(cluster: Cluster, request: PodRequest) -> Unplaced:
    if cluster.undecided(request):
        return Unplaced(request, f"nobody says whether it runs on {' or '.join(cluster.vendors)}", REMEDY)
    from terrazzo.placement.explain import explain  # noqa: PLC0415 - only when something does not fit

    explanation = explain(cluster.engine, request, most=1)
    nodes = sum(1 for _ in cluster.fleet.nodes())
    change = explanation.changes[0].describe() if explanation.changes else ""
    why = sentences.why_line(explanation.rejections, nodes)
    reasons = tuple(sentences.grouped(explanation.rejections))
    return Unplaced(request, why, f"fits if {change}" if change else "", reasons)


def as_data(plan: Plan) -> dict[str, Any]:
    """Return the plan for ``-o json``; the keys are part of the interface.

    Memory is in MiB, compute in the device's own units with the device's total beside it.
    """
    devices = plan.devices()
    return {
        "placed": [_placed(each, devices) for each in plan.placed],
        "unplaced": [
            {
                "namespace": each.request.namespace,
                "name": each.request.name,
                "asks": sentences.asks(each.request),
                "why": each.why,
                "reasons": [{"reason": reason, "nodes": nodes} for reason, nodes in each.reasons],
                "remedy": each.remedy,
            }
            for each in plan.unplaced
        ],
        "left_alone": plan.left_alone,
        "already_running": plan.running,
        "ended": plan.ended,
        "waiting": plan.waiting,
        "other_objects": plan.others,
        "warnings": plan.warnings,
        "notes": plan.cluster.notes,
    }


def _placed(placed: Placed, devices: dict[tuple[str, str], Device]) -> dict[str, Any]:
    request, allocation, left = placed
    return {
        "namespace": request.namespace,
        "name": request.name,
        "node": allocation.node,
        "asks": sentences.asks(request),
        "containers": [
            {
                "name": container.container,
                "devices": [_grant(grant, devices[allocation.node, grant.uuid]) for grant in container.devices],
            }
            for container in allocation.containers
        ],
        "remaining": [
            {"uuid": use.uuid, "memory_mib": left[use.uuid][0], "compute_units": left[use.uuid][1]}
            for use in allocation.uses
        ],
    }


def _grant(grant: DeviceGrant, device: Device) -> dict[str, Any]:
    return {
        "uuid": grant.uuid,
        "vendor": device.vendor,
        "model": device.model,
        "index": device.index,
        "memory_mib": grant.memory_mib if isinstance(device.memory_mib, int) else None,
        "compute_units": grant.units,
        "compute_units_total": device.units,
        "whole": grant.whole,
        "profile": grant.profile,
        "start": grant.start,
    }
