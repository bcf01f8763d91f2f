"""Narrow Kubernetes objects: only the fields that anybody here reads.

Narrow structs decode a 10,000-pod list about fifteen times faster than dictionaries do, because what nobody reads is
never made. Field names and types follow the Kubernetes API reference (core/v1, resource.k8s.io/v1). Everything is
optional: a dump may be partial, and a hand-written manifest has no status.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

Quantity = str | int | float


class OwnerReference(Struct, rename="camel"):
    """``metadata.ownerReferences[]``."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(Struct, rename="camel"):
    """``metadata``."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None


class Resources(Struct):
    """``resources`` of a container."""

    limits: dict[str, Quantity] | None = None
    requests: dict[str, Quantity] | None = None


class EnvVar(Struct):
    """One environment variable; values from references are of no interest here."""

    name: str = ""
    value: str | None = None


class SecurityContext(Struct):
    """``securityContext`` of a container."""

    privileged: bool | None = None


class Container(Struct, rename="camel"):
    """A container or init container."""

    name: str = ""
    image: str = ""
    resources: Resources | None = None
    restart_policy: str | None = None
    env: list[EnvVar] | None = None
    security_context: SecurityContext | None = None


class LabelRequirement(Struct):
    """``matchExpressions[]`` or ``matchFields[]``."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class NodeSelectorTerm(Struct, rename="camel"):
    """One term of a node selector."""

    match_expressions: list[LabelRequirement] | None = None
    match_fields: list[LabelRequirement] | None = None


class NodeSelector(Struct, rename="camel"):
    """``requiredDuringSchedulingIgnoredDuringExecution``."""

    node_selector_terms: list[NodeSelectorTerm] | None = None


class PreferredTerm(Struct):
    """``preferredDuringSchedulingIgnoredDuringExecution[]``."""

    weight: int = 1
    preference: NodeSelectorTerm | None = None


class NodeAffinity(Struct, rename="camel"):
    """``affinity.nodeAffinity``."""

    required: NodeSelector | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: list[PreferredTerm] | None = field(default=None, name="preferredDuringSchedulingIgnoredDuringExecution")


class Affinity(Struct, rename="camel"):
    """``affinity``; pod (anti-)affinity is kube-scheduler's business."""

    node_affinity: NodeAffinity | None = None


class Toleration(Struct):
    """``tolerations[]``."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class PodSpec(Struct, rename="camel"):
    """``spec`` of a pod or pod template."""

    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    node_name: str = ""
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    priority: int | None = None
    priority_class_name: str = ""
    scheduler_name: str = ""
    runtime_class_name: str | None = None
    overhead: dict[str, Quantity] | None = None


class PodStatus(Struct, rename="camel"):
    """``status`` of a pod."""

    phase: str = ""
    nominated_node_name: str = ""


class Pod(Struct, rename="camel"):
    """A pod, or the pod that a template would make."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PodSpec = field(default_factory=PodSpec)
    status: PodStatus = field(default_factory=PodStatus)


class Taint(Struct):
    """``spec.taints[]``."""

    key: str = ""
    value: str | None = None
    effect: str = ""


class NodeSpec(Struct, rename="camel"):
    """``spec`` of a node."""

    taints: list[Taint] | None = None
    unschedulable: bool | None = None
    provider_id: str = field(default="", name="providerID")


class NodeCondition(Struct):
    """``status.conditions[]``."""

    type: str = ""
    status: str = ""


class NodeStatus(Struct, rename="camel"):
    """``status`` of a node."""

    allocatable: dict[str, Quantity] | None = None
    capacity: dict[str, Quantity] | None = None
    conditions: list[NodeCondition] | None = None


class Node(Struct, rename="camel"):
    """A node."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)


class ConfigMap(Struct, rename="camel"):
    """A config map (Ascend's device-info lives in one)."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    data: dict[str, str] | None = None


class Pool(Struct, rename="camel"):
    """``spec.pool`` of a ResourceSlice."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 1


class SliceDevice(Struct, rename="camel"):
    """``spec.devices[]`` of a ResourceSlice (v1; v1beta1 wraps it in ``basic``)."""

    name: str = ""
    attributes: dict[str, dict[str, Any]] | None = None
    capacity: dict[str, dict[str, Any]] | None = None
    taints: list[Taint] | None = None
    allow_multiple_allocations: bool | None = None
    consumes_counters: list[dict[str, Any]] | None = None
    basic: dict[str, Any] | None = None


class ResourceSliceSpec(Struct, rename="camel"):
    """``spec`` of a ResourceSlice."""

    driver: str = ""
    node_name: str = ""
    pool: Pool = field(default_factory=Pool)
    devices: list[SliceDevice] | None = None


class ResourceSlice(Struct, rename="camel"):
    """A ResourceSlice of any DRA driver."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: ResourceSliceSpec = field(default_factory=ResourceSliceSpec)
