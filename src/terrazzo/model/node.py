"""Nodes as placement sees them: what Kubernetes itself checks, and the devices."""

from __future__ import annotations

from msgspec import Struct, field

from terrazzo.model.device import Device
from terrazzo.model.unknown import Unknown


class Taint(Struct, frozen=True, gc=False):
    """A taint of a node. ``effect`` is NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


class Node(Struct, frozen=True, kw_only=True):
    """One node.

    Attributes:
        name: ``metadata.name``.
        labels: ``metadata.labels``.
        taints: ``spec.taints``.
        unschedulable: ``spec.unschedulable`` (cordoned).
        ready: the Ready condition; True when the object has none.
        cpu_milli: allocatable CPU, or None when the object states none (then it is not checked).
        memory_mib: allocatable memory, or None when not stated.
        max_pods: allocatable pods, or None when not stated.
        devices: in the order of their index.
        other: allocatable of extended resources that are no devices of ours, by name (``rdma/hca: 4``).
        unknowns: what could not be learnt about this node's devices, each with its reason.
    """

    name: str
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    cpu_milli: int | None = None
    memory_mib: int | None = None
    max_pods: int | None = None
    devices: tuple[Device, ...] = ()
    other: dict[str, int] = field(default_factory=dict)
    unknowns: tuple[Unknown, ...] = ()
